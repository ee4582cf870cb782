"""Drive one predictor through hook and daemon, from the first submission to the last start."""

import gc
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.emulation.pbs.hook import HookScript, restart_interpreter
from softwalltime.emulation.through_hooks.daemon import Daemon, OpenPostgres, Store
from softwalltime.emulation.through_hooks.faults import FaultInjector, FaultInterval, plan
from softwalltime.emulation.through_hooks.log_writer import LogWriter
from softwalltime.emulation.through_hooks.server import TIMEOUTS, EmulatedServer
from softwalltime.emulation.through_hooks.timeline import Timeline
from softwalltime.errors import SourceError
from softwalltime.events import Kind
from softwalltime.policy.clamp import MINIMUM
from softwalltime.policy.site import WALLTIME
from softwalltime.replay.fast_replay import ReplayResult
from softwalltime.states import State

PORTION = 10_000
"""Jobs whose ends are written to the log at one time, ahead of virtual time."""
TRANSPORT = "softwalltime_postgres.py"
"""The file beside the hook that it loads for the transport postgres."""
PATIENT = 5000
"""Deadline of the hook without faults in milliseconds: a slow machine must not change the result."""
IMPLEMENTATION = "PSYCOPG_IMPL"
"""The environment variable that names psycopg's implementation."""
PAUSE = 1
"""Seconds for which the hook sends no requests after too many timeouts."""
LOSSY = {"daemon": ("kill-daemon", "suspend-daemon", "garbage"), "postgres": ("stop-postgres",)}
"""Faults that may cost a job its soft walltime, by transport; the daemon predicts from memory."""


@dataclass(frozen=True, slots=True)
class EmulationOptions:
    """Options of a replay through the hooks.

    ``hook`` is the hook file, beside which its configuration lies; ``transport`` is the hook's, ``minimum`` the least
    soft walltime in seconds, ``teaching`` how jobs must have ended to teach; ``faults`` are kinds of faults, which come
    by ``seed``; ``portion`` is how many jobs' ends are written at once; ``running`` is the predictor for running jobs,
    ``ordering`` the one for the ordering value, ``None`` for none.
    """

    hook: Path
    postgres: OpenPostgres
    teaching: Collection[State]
    transport: str = "daemon"
    minimum: int = MINIMUM
    faults: Sequence[str] = ()
    seed: int = 1
    portion: int = PORTION
    running: str = WALLTIME
    ordering: str | None = None


@dataclass(frozen=True, slots=True)
class EmulationResult:
    """Result of one run.

    ``replayed`` holds the soft walltimes of every job, as the fast replay's result does; ``disturbed`` and
    ``disturbed_at_start`` say which jobs were submitted, or started, during a fault that may prevent their
    soft walltime; ``altered`` which were altered while they waited.  ``events`` were fired, of which ``accepted``
    passed, ``invalid`` left the job with a soft walltime that PBS must not be given, and ``unanswered`` got no answer,
    ``timeouts`` of them within the deadline; ``faults`` were injected.  ``ordering`` is the ordering value of every job
    at its submission in seconds, -1 for none.
    """

    replayed: ReplayResult
    disturbed: NDArray[np.bool_]
    disturbed_at_start: NDArray[np.bool_]
    altered: NDArray[np.bool_]
    events: int
    accepted: int
    invalid: int
    unanswered: int
    timeouts: int
    faults: int
    ordering: NDArray[np.int64]


def run(
    timeline: Timeline, spec: str, options: EmulationOptions, progress: Callable[[int], None] = lambda _: None
) -> EmulationResult:
    """Replay the jobs through the hook, which sets soft walltimes by the predictor ``spec``.

    :param progress: called with the number of jobs done since the last call.
    :raises DaemonError: if the daemon does not do what it must.
    """
    # Below /tmp: if this runs as root, PostgreSQL runs as an unprivileged user that must reach the folder.
    with tempfile.TemporaryDirectory(prefix="softwalltime-replay-", dir="/tmp") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        store = Store(folder / "store", options.postgres)
        stack.callback(store.stop)
        dsn = store.start()
        # The fast replay measures the predictor on every job.
        policy: dict[str, object] = {
            "mode": "on", "waiting": spec, "running": options.running, "minimum": options.minimum,
            "exclusive": "waiting",
        }  # fmt: skip
        if options.ordering is not None:
            policy["ordering"] = options.ordering
        daemon = Daemon(folder, dsn, policy, options.teaching)
        stack.callback(daemon.stop)
        daemon.prepare()
        daemon.start()
        stack.enter_context(_quiet())
        begin = perf_counter()
        log = LogWriter(daemon, timeline.ends, options.portion)
        if options.transport == "postgres":
            # The SQL functions get the time as a parameter, so all jobs can be in the store, and no daemon is needed.
            log.reach(timeline.ends[-1].end)
            daemon.stop()
        random = Random(f"{options.seed} {spec}")  # noqa: S311 - reproducible
        garbage = folder / "garbage.sock"
        injector = FaultInjector(daemon, log, store, garbage, random, PAUSE)
        intervals = plan(options.faults, len(timeline.events), random)
        # A copy: the original may be replaced during the run.
        hook = Path(shutil.copyfile(options.hook, folder / options.hook.name))
        transport = folder / TRANSPORT
        if options.transport == "postgres":
            shutil.copyfile(options.hook.with_name(TRANSPORT), transport)
            transport.chmod(0o644)
        server = EmulatedServer(timeline, HookScript(hook), options.minimum)
        configurations = _configurations(folder, spec, options, dsn, daemon.socket, garbage)
        disturbed, at_start = _fire(server, timeline, log, injector, intervals, configurations, progress)
        seconds = perf_counter() - begin
        faults = sum(bool(interval.kind) for interval in intervals)
        altered = {alter.submission for alter in timeline.alters if alter.job is None}
        return EmulationResult(
            _replayed(timeline, server, seconds),
            np.array([disturbed[number] for number in timeline.of_job], np.bool_),
            np.array(at_start, np.bool_),
            np.array([number in altered for number in timeline.of_job], np.bool_),
            server.events,
            server.accepted,
            server.invalid,
            server.unanswered,
            server.timeouts,
            faults,
            _ordering(timeline, server),
        )


def _replayed(timeline: Timeline, server: EmulatedServer, seconds: float) -> ReplayResult:
    """Return the soft walltimes by job; subjobs have that of their array."""
    waits = [server.at_submission[number] for number in timeline.of_job]
    at_start = _numbers(server.at_start)
    at_start[at_start == timeline.workload.walltime] = -1
    return ReplayResult(_numbers(waits), at_start, seconds)


def _ordering(timeline: Timeline, server: EmulatedServer) -> NDArray[np.int64]:
    """The ordering values by job; subjobs have that of their array."""
    return _numbers([server.ordering[number] for number in timeline.of_job])


def _numbers(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([-1 if value is None else value for value in values], np.int64)


def _fire(
    server: EmulatedServer,
    timeline: Timeline,
    log: LogWriter,
    injector: FaultInjector,
    intervals: Sequence[FaultInterval],
    configurations: dict[str, Path],
    progress: Callable[[int], None],
) -> tuple[list[bool], list[bool]]:
    """Fire all events; return masks of the submissions and the starts that may lack a soft walltime due to a fault."""
    disturbed = [False] * len(timeline.submissions)
    disturbed_at_start = [False] * len(timeline.jobs)
    share = len(timeline.jobs) / len(timeline.events)
    done = 0
    for interval in intervals:
        injector.begin(interval.kind)
        for event in timeline.events[interval.begin : interval.end]:
            if event.time >= log.due:
                # During a fault the log may not be read.
                injector.end()
                log.reach(event.time)
            server.handle(event, configurations.get(injector.kind, configurations[""]))
            lossy = injector.kind in configurations and injector.kind != ""
            if event.kind is Kind.SUBMITTED:
                disturbed[event.number] = lossy
            elif event.kind is Kind.STARTED:
                disturbed_at_start[event.number] = lossy
        injector.end()
        progress(int(interval.end * share) - done)
        done = int(interval.end * share)
    return disturbed, disturbed_at_start


def _configurations(
    folder: Path, spec: str, options: EmulationOptions, dsn: str, daemon: Path, garbage: Path
) -> dict[str, Path]:
    """Configurations of the hook, as it is shipped but for what must differ, by what is wrong (``""``: nothing)."""
    try:
        shipped = json.loads(options.hook.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{options.hook.with_suffix('.json')}: cannot be read: {error}") from error
    usual = {
        **shipped,
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
        "breaker_seconds": PAUSE,
        # A slow machine must not change the result.
        "breaker_budget_ms": 5_000_000,
        "log": "errors",
    }
    changes: dict[str, dict[str, object]] = {"": {"deadline_ms": PATIENT}}
    changes |= {kind: {"socket": str(garbage)} if kind == "garbage" else {} for kind in LOSSY[options.transport]}
    files = {}
    for kind, changed in changes.items():
        files[kind] = folder / f"hook-{kind or 'usual'}.json"
        files[kind].write_text(json.dumps({**usual, **changed}), encoding="utf-8")
    return files


@contextmanager
def _quiet() -> Iterator[None]:
    """Begin without the hook's state and leave none behind; keep the garbage collector from scanning the jobs."""
    restart_interpreter()
    gc.freeze()
    try:
        with environment_restored(TIMEOUTS, IMPLEMENTATION):
            os.environ.pop(TIMEOUTS, None)
            yield
    finally:
        gc.unfreeze()
        restart_interpreter()


@contextmanager
def environment_restored(*names: str) -> Iterator[None]:
    """Give these environment variables their values back: only in pbs_server what the hook leaves may stay."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
