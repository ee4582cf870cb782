"""Drive one predictor through hook and daemon, and compare with the fast replay, job by job."""

import gc
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from softwalltime.core import resources
from softwalltime.core.errors import OptionError
from softwalltime.core.states import State
from softwalltime.emulation.pbs.hook_runner import HookScript, restart_interpreter
from softwalltime.emulation.through_hooks.daemon_process import Daemon, OpenPostgres
from softwalltime.emulation.through_hooks.emulated_server import TIMEOUTS, EmulatedServer, EventCounts
from softwalltime.emulation.through_hooks.timeline import Timeline
from softwalltime.measure.replay.fast_replay import ReplayResult
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.site import KEEP, WALLTIME
from softwalltime.predict.predictors.registry import make

TRANSPORT = "softwalltime_postgres.py"
"""The file that the hook loads for the transport postgres."""
BREAKER_PAUSE_S = 1
"""Seconds for which the hook sends no requests after too many timeouts."""
MAX_SHOWN_DIFFERENCES = 3
"""Maximum number of named jobs that differ."""
_STRIDE = 1000
"""Events between two reports of progress."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EmulationOptions:
    """Options of a replay through the hooks.

    ``teaching`` is how jobs must have ended to teach, ``transport`` the hook's, ``minimum`` the least soft walltime in
    seconds, ``running`` the predictor for running jobs, ``ordering`` that for the ordering value, ``None`` for none.
    """

    postgres: OpenPostgres
    teaching: Collection[State]
    transport: str = "daemon"
    minimum: int = MIN_SOFT_WALLTIME_S
    running: str = WALLTIME
    ordering: str | None = None

    def observes(self, spec: str) -> bool:
        """Return whether a predictor observes which jobs wait and run: the daemon then follows event by event."""
        for each in {spec, self.running, self.ordering or spec} - {WALLTIME, KEEP}:
            # A predictor may be installed for the daemon alone.
            with suppress(OptionError):
                if make(each).observes:
                    return True
        return False


@dataclass(frozen=True, slots=True)
class EmulationResult:
    """Result of one run.

    ``replayed`` holds the soft walltimes of every job, as the fast replay's result does.  ``ordering`` is the ordering
    value of every job at its submission (seconds, -1: none).
    """

    replayed: ReplayResult
    counts: EventCounts
    ordering: Integers


class Emulation(NamedTuple):
    """A new server with hook and daemon; their files are in the folder of ``configuration``."""

    server: EmulatedServer
    daemon: Daemon
    configuration: Path
    """The hook's."""


def run(
    timeline: Timeline, spec: str, options: EmulationOptions, progress: Callable[[int], None] = lambda _: None
) -> EmulationResult:
    """Replay the jobs through the hook, which sets soft walltimes by the predictor ``spec``.

    :param progress: called with the number of jobs done since the last call.
    :raises DaemonError: if the daemon does not do what it must.
    """
    with emulation(timeline, spec, options) as of:
        begin = perf_counter()
        if options.transport == "postgres":
            # The SQL functions get the time as a parameter, and all jobs are in the store: no daemon is needed.
            of.daemon.stop()
        share = len(timeline.jobs) / len(timeline.events)
        done = 0
        records = deque(timeline.records() if of.daemon.follows else ())
        for number, event in enumerate(timeline.events, 1):
            due = []
            while records and records[0][0] < event:
                due.append(records.popleft()[1:])
            of.daemon.follow(due)
            of.server.handle(event, of.configuration)
            if number % _STRIDE == 0 or number == len(timeline.events):
                progress(int(number * share) - done)
                done = int(number * share)
        return result(timeline, of.server, perf_counter() - begin)


@contextmanager
def emulation(timeline: Timeline, spec: str, options: EmulationOptions) -> Iterator[Emulation]:
    """Start PostgreSQL and the daemon; yield them with a server at which nothing has happened yet.

    :raises DaemonError: if the daemon does not do what it must.
    """
    # Below /tmp: if this runs as root, PostgreSQL runs as an unprivileged user that must reach the folder.
    with tempfile.TemporaryDirectory(prefix="softwalltime-replay-", dir="/tmp") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        dsn = stack.enter_context(options.postgres(folder / "store"))
        # The fast replay measures the predictor on every job.
        policy: dict[str, object] = {
            "mode": "on", "waiting": spec, "running": options.running, "minimum": options.minimum,
            "exclusive": "waiting",
        }  # fmt: skip
        if options.ordering is not None:
            policy["ordering"] = options.ordering
        daemon = Daemon(folder, dsn, policy, options.teaching, follows=options.observes(spec))
        stack.callback(daemon.stop)
        daemon.prepare()
        daemon.start()
        if not daemon.follows:
            daemon.append(timeline.ends)
            daemon.wait()
        stack.enter_context(_quiet())
        # A copy: the hook loads only what no other user can change.
        transport = folder / TRANSPORT
        transport.write_bytes(resources.hook_transport().read_bytes())
        transport.chmod(0o644)
        server = EmulatedServer(timeline, HookScript(resources.hook()), options.minimum)
        yield Emulation(server, daemon, _configuration(folder, spec, options, dsn, daemon.socket))


def result(timeline: Timeline, server: EmulatedServer, seconds: float) -> EmulationResult:
    """Return the server's results by job; subjobs have the values of their array."""
    at_start = _numbers(server.at_start)
    at_start[at_start == timeline.workload.walltime] = -1
    waiting = _numbers([server.at_submission[number] for number in timeline.of_job])
    return EmulationResult(
        ReplayResult(waiting, at_start, seconds),
        server.counts,
        _numbers([server.ordering[number] for number in timeline.of_job]),
    )


def _numbers(values: Sequence[int | None]) -> Integers:
    return np.array([-1 if value is None else value for value in values], np.int64)


def _configuration(folder: Path, spec: str, options: EmulationOptions, dsn: str, daemon: Path) -> Path:
    """Write the hook's shipped configuration with the changes that the replay needs."""
    values = json.loads(resources.hook().with_suffix(".json").read_text(encoding="utf-8"))
    values |= {
        "transport": options.transport,
        "socket": str(daemon),
        "postgres": {
            "transport_path": str(folder / TRANSPORT),
            "dsn": dsn,
            "psycopg_path": "",
            "waiting": spec,
            "running": options.running,
            "exclusive": "waiting",
        },
        "minimum": options.minimum,
        # A slow machine must not change the result.
        "deadline_ms": 5000,
        "breaker_seconds": BREAKER_PAUSE_S,
        "log": "problems",
    }
    configuration = folder / "hook.json"
    configuration.write_text(json.dumps(values), encoding="utf-8")
    return configuration


@contextmanager
def _quiet() -> Iterator[None]:
    """Clear the hook's state before and after; exclude the jobs from garbage collection."""
    restart_interpreter()
    gc.freeze()
    try:
        with patch.dict(os.environ):
            os.environ.pop(TIMEOUTS, None)
            yield
    finally:
        gc.unfreeze()
        restart_interpreter()


class Comparison(NamedTuple):
    """Number of soft walltimes that differ from the fast replay's, descriptions of the first ones, and the verdict."""

    differing: int
    shown: tuple[str, ...]
    sound: bool


def compare(
    workload: Workload,
    result: EmulationResult,
    fast: ReplayResult,
    *,
    at_start: bool = True,
    ordering: Integers | None = None,
) -> Comparison:
    """Compare with the fast replay; check that events were accepted and soft walltimes are valid.

    :param at_start: compare the soft walltimes from the start on too; not for the policy ``keep``, under which these
        are what the hook had set before.
    :param ordering: the ordering values of the fast replay.
    """
    replayed, counts = result.replayed, result.counts
    pairs = [(replayed.soft_walltimes, fast.soft_walltimes, "")]
    if at_start:
        pairs.append((replayed.at_start, fast.at_start, " at its start"))
    if ordering is not None:
        pairs.append((result.ordering, ordering, " as ordering value"))
    different = [
        f"job {workload.jobs[number].submission.job_id}: {_words(found[number])}{when} through the hooks, "
        f"{_words(expected[number])} in the fast replay"
        for found, expected, when in pairs
        for number in np.flatnonzero(found != expected).tolist()
    ]
    sound = not different and counts.accepted == counts.events and not counts.invalid
    return Comparison(len(different), tuple(different[:MAX_SHOWN_DIFFERENCES]), sound)


def _words(seconds: np.int64) -> str:
    return "none" if seconds < 0 else f"{seconds} s"
