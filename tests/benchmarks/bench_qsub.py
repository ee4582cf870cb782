"""What a qsub costs on a real PBS server: without a hook, with an empty one, and with ours and the daemon.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), and says so without one.
"""

import json
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from softwalltime.reports.table import table
from tests.acceptance.lab import RUNNER, Lab
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.samples import ROOT, job
from tests.service.running import Daemon
from tests.store.stored import add_jobs

JOBS = 100
ROUNDS = 11
SUBMIT = """
begin=$(date +%s%N)
for i in $(seq {jobs}); do qsub -h -q short -l walltime=600 -- /bin/true >/dev/null || echo failed; done
echo $(( $(date +%s%N) - begin ))
"""
EMPTY = "import pbs\npbs.event().accept()\n"
DEFAULTS = json.loads((ROOT / "hooks" / "softwalltime_hook.json").read_text())


def milliseconds(lab: Lab) -> float:
    """Of one qsub, in a loop that does nothing else; the jobs are held and deleted again."""
    output = lab.must("bash", "-c", SUBMIT.format(jobs=JOBS), user="alice").split()
    assert "failed" not in output, "a qsub failed"
    lab.must("bash", "-c", "qdel -W force -x $(qselect) >/dev/null")
    return int(output[-1]) / JOBS / 1e6


@contextmanager
def situation(lab: Lab, name: str, folder: Path, dsn: str) -> Iterator[None]:
    """Bring about one of the situations to be measured."""
    events = ("postqueuejob", "modifyjob", "runjob")
    configuration = DEFAULTS | {"socket": str(folder / "hook.sock"), "log": "off"}
    empty = folder / "empty.py"
    empty.write_text(EMPTY)
    daemon = Daemon(folder, dsn).start()
    try:
        match name:
            case "no hook":
                lab.uninstall()
            case "empty hook":
                lab.install({}, folder, empty)
            case "empty hook, without queuejob":
                lab.install({}, folder, empty, events)
            case "ours, without queuejob":
                lab.install(configuration, folder, events=events)
            case "ours, at queuejob":
                configuration["events"] = {**DEFAULTS["events"], "postqueuejob": False}
                lab.install(configuration, folder, events=("queuejob", "modifyjob", "runjob"))
            case "empty hook, without postqueuejob":
                lab.install({}, folder, empty, ("queuejob", "modifyjob", "runjob"))
            case _:
                lab.install(configuration, folder)
        if name == "ours, daemon suspended":
            daemon.send(signal.SIGSTOP)
        if name == "ours, no daemon":
            daemon.end()
        yield
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end(signal.SIGKILL)


SITUATIONS = (
    "no hook",
    "empty hook",
    "ours",
    "ours, no daemon",
    "ours, daemon suspended",
    "empty hook, without queuejob",
    "ours, without queuejob",
    "empty hook, without postqueuejob",
    "ours, at queuejob",
)


EMPTY_BESIDE = {
    "ours": "empty hook",
    "ours, no daemon": "empty hook",
    "ours, without queuejob": "empty hook, without queuejob",
    "ours, at queuejob": "empty hook, without postqueuejob",
}


def main() -> None:
    """Measure each situation several times, in turns, and print the medians."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    measured: dict[str, list[float]] = {name: [] for name in SITUATIONS}
    with scratch_folder() as store, empty_store(store) as (dsn, engine):
        with engine.begin() as connection:
            add_jobs(connection, [job(runtime=300, job_id=f"{number}.old") for number in range(2)])
        engine.dispose()
        for _ in range(ROUNDS):
            for name in SITUATIONS:
                with tempfile.TemporaryDirectory() as scratch, situation(lab, name, Path(scratch), dsn):
                    time.sleep(0.2)
                    measured[name].append(milliseconds(lab))
    lab.uninstall()
    rows = [
        [name, f"{statistics.median(times):.2f}", f"{min(times):.2f}", f"{max(times):.2f}", above_empty(name, measured)]
        for name, times in measured.items()
    ]
    print(table(["situation", "ms a qsub (median)", "least", "most", "above an empty hook"], rows))


def above_empty(name: str, measured: dict[str, list[float]]) -> str:
    """The median, over the rounds, of how much more it took than an empty hook at the same events in that round."""
    base = EMPTY_BESIDE.get(name)
    if base is None:
        return ""
    return f"{statistics.median(ours - empty for ours, empty in zip(measured[name], measured[base], strict=True)):.2f}"
