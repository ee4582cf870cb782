"""A predictor's passage through hook and daemon, from the first submission to the last start."""

import gc
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.emulation.pbs.hook import HookScript
from softwalltime.emulation.through_hooks.daemon import Daemon
from softwalltime.emulation.through_hooks.faults import Stretch, Trouble, plan
from softwalltime.emulation.through_hooks.log_writer import LogWriter
from softwalltime.emulation.through_hooks.server import TIMEOUTS, Server
from softwalltime.emulation.through_hooks.store import OpenPostgres, Store
from softwalltime.emulation.through_hooks.timeline import Kind, Timeline
from softwalltime.errors import SourceError
from softwalltime.policy.clamp import MINIMUM
from softwalltime.replay.drive import Outcome
from softwalltime.states import State

PORTION = 10_000
"""Jobs whose ends are written into the log at once, ahead of virtual time."""
PATIENT = 5000
"""Milliseconds that the hook may wait while nothing is wrong: that this machine is slow must change no figure."""
PAUSE = 1
"""Seconds for which the hook asks nobody after too many time-outs."""
LOSSY = {"daemon": ("kill-daemon", "suspend-daemon", "garbage"), "postgres": ("stop-postgres",)}
"""Faults that may cost a job its soft walltime, by transport; the daemon predicts from memory."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a replay through the hooks is run with.

    ``hook`` is the hook file, beside which its configuration lies; ``transport`` is the hook's, ``minimum`` the least
    soft walltime in seconds, ``teaching`` how jobs must have ended to teach; ``faults`` are kinds of faults, which come
    by ``seed``; ``portion`` is how many jobs' ends are written at once.
    """

    hook: Path
    postgres: OpenPostgres
    teaching: Collection[State]
    transport: str = "daemon"
    minimum: int = MINIMUM
    faults: Sequence[str] = ()
    seed: int = 1
    portion: int = PORTION


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one run.

    ``outcome`` holds the soft walltime of every job at its submission, as the fast replay's does; ``disturbed`` says
    which jobs were submitted while something was wrong that may cost them their soft walltime.  ``events`` were fired,
    of which ``accepted`` passed, ``invalid`` left the job with a soft walltime that PBS must not be given, and
    ``unanswered`` got no answer, ``timeouts`` of them within the deadline; ``faults`` were brought about.
    """

    outcome: Outcome
    disturbed: NDArray[np.bool_]
    events: int
    accepted: int
    invalid: int
    unanswered: int
    timeouts: int
    faults: int


def run(timeline: Timeline, spec: str, setting: Setting, progress: Callable[[int], None] = lambda _: None) -> Report:
    """Let the hook set soft walltimes by the predictor ``spec``, whatever happens.

    :param progress: told the number of jobs done since it was last told.
    :raises DaemonError: if the daemon does not do what it must.
    """
    # Below /tmp, because the unprivileged account as which PostgreSQL runs where this runs as root must get there.
    with tempfile.TemporaryDirectory(prefix="softwalltime-replay-", dir="/tmp") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        store = Store(folder / "store", setting.postgres)
        stack.callback(store.stop)
        dsn = store.start()
        policy = {"mode": "on", "waiting": spec, "running": "walltime", "minimum": setting.minimum}
        daemon = Daemon(folder, dsn, policy, setting.teaching)
        stack.callback(daemon.stop)
        daemon.prepare()
        daemon.start()
        stack.enter_context(_quiet())
        begin = perf_counter()
        log = LogWriter(daemon, timeline.ends, setting.portion)
        if setting.transport == "postgres":
            # The functions are told what time it is, so all may lie in the store; then nobody else is needed.
            log.reach(timeline.ends[-1].end)
            daemon.stop()
        random = Random(f"{setting.seed} {spec}")  # noqa: S311 - it must come out the same again
        mad = folder / "mad.sock"
        trouble = Trouble(daemon, log, store, mad, random, PAUSE)
        stretches = plan(setting.faults, len(timeline.happenings), random)
        # A copy: somebody might import another version of it while this runs.
        hook = Path(shutil.copy(setting.hook, folder))
        server = Server(timeline, HookScript(hook), setting.minimum)
        configurations = _configurations(folder, spec, setting, dsn, daemon.socket, mad)
        disturbed = _fire(server, timeline, log, trouble, stretches, configurations, progress)
        seconds = perf_counter() - begin
        faults = sum(bool(stretch.kind) for stretch in stretches)
        return _report(timeline, server, disturbed, seconds, faults)


def _report(timeline: Timeline, server: Server, disturbed: Sequence[bool], seconds: float, faults: int) -> Report:
    """The jobs' share in what came of their submissions."""
    soft_walltimes = [server.at_submission[number] for number in timeline.of_job]
    return Report(
        Outcome(np.array([-1 if soft is None else soft for soft in soft_walltimes], np.int64), seconds),
        np.array([disturbed[number] for number in timeline.of_job], np.bool_),
        server.events,
        server.accepted,
        server.invalid,
        server.unanswered,
        server.timeouts,
        faults,
    )


def _fire(
    server: Server,
    timeline: Timeline,
    log: LogWriter,
    trouble: Trouble,
    stretches: Sequence[Stretch],
    configurations: dict[str, Path],
    progress: Callable[[int], None],
) -> list[bool]:
    """Let everything happen; returns which submissions were made while what was wrong might cost them something."""
    disturbed = [False] * len(timeline.submissions)
    share = len(timeline.jobs) / len(timeline.happenings)
    done = 0
    for stretch in stretches:
        trouble.begin(stretch.kind)
        for happening in timeline.happenings[stretch.begin : stretch.end]:
            if happening.time >= log.due:
                # While something is wrong nobody might read it.
                trouble.end()
                log.reach(happening.time)
            server.happen(happening, configurations.get(trouble.kind, configurations[""]))
            if happening.kind is Kind.SUBMITTED:
                disturbed[happening.number] = trouble.kind in configurations and trouble.kind != ""
        trouble.end()
        progress(int(stretch.end * share) - done)
        done = int(stretch.end * share)
    return disturbed


def _configurations(folder: Path, spec: str, setting: Setting, dsn: str, daemon: Path, mad: Path) -> dict[str, Path]:
    """Configurations of the hook, as it is shipped but for what must differ, by what is wrong (``""``: nothing)."""
    try:
        shipped = json.loads(setting.hook.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{setting.hook.with_suffix('.json')}: cannot be read: {error}") from error
    usual = {
        **shipped,
        "transport": setting.transport,
        "socket": str(daemon),
        "postgres": {"dsn": dsn, "psycopg_path": "", "waiting": spec, "running": "walltime"},
        "minimum": setting.minimum,
        "breaker_seconds": PAUSE,
        "log": "errors",
    }
    changes: dict[str, dict[str, object]] = {"": {"deadline_ms": PATIENT}}
    changes |= {kind: {"socket": str(mad)} if kind == "garbage" else {} for kind in LOSSY[setting.transport]}
    files = {}
    for kind, changed in changes.items():
        files[kind] = folder / f"hook-{kind or 'usual'}.json"
        files[kind].write_text(json.dumps({**usual, **changed}), encoding="utf-8")
    return files


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing left of other runs of the hook, before and after; and no looking for garbage among the jobs."""

    def forget() -> None:
        os.environ.pop(TIMEOUTS, None)
        sys.modules.pop("softwalltime_hook_kept", None)

    forget()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        forget()
