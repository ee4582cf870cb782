"""The guard on a real PBS server in two ways: by altering waiting jobs, and by a runjob hook that rejects them.

A job holds 15 of 16 processors, a top job waits for all, and candidates on one processor wait behind it.  Measured for
candidates with their walltimes, of which none fits, for short soft walltimes that the hook rejects, and for those that
were altered back to their walltimes: the scheduling cycle, the time for each candidate, and the eligible time that it
gains.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it,
and runs on its host as root.  SOFTWALLTIME_BENCH_JOBS changes the number of candidates.
"""

import os
import statistics
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from softwalltime.service.live.connection import PbsConnection
from tests.acceptance.lab import RUNNER, Lab, until
from tests.benchmarks.markdown import table
from tests.samples import ROOT

CYCLES = 12
WALLTIME, SHORT = 1200, 60
HOOK = """\
import time
import pbs
event = pbs.event()
with open({log!r}, "a") as log:
    log.write("%.6f\\n" % time.time())
if event.job.id != {top!r}:
    event.reject("the top job is late")
"""


class SchedulerLog:
    """Times the scheduling cycles by the scheduler's log, as its lines appear."""

    def __init__(self, path: Path) -> None:
        self.cycles: list[float] = []
        self._path = path
        self._stopping = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        begin = 0.0
        with self._path.open(errors="replace") as log:
            log.seek(0, os.SEEK_END)
            while not self._stopping.is_set():
                line = log.readline()
                now = time.monotonic()
                if not line:
                    time.sleep(0.0005)
                elif "Starting Scheduling Cycle" in line:
                    begin = now
                elif "Leaving Scheduling Cycle" in line and begin:
                    self.cycles.append(now - begin)
                    begin = 0.0

    @classmethod
    @contextmanager
    def followed(cls, lab: Lab) -> Iterator["SchedulerLog"]:
        """Follow the log of today."""
        log = cls(lab.home / "sched_logs" / time.strftime("%Y%m%d"))
        log._thread.start()
        try:
            yield log
        finally:
            log._stopping.set()
            log._thread.join()

    def timed(self, lab: Lab) -> list[float]:
        """Milliseconds of some cycles."""
        found = []
        for _ in range(CYCLES):
            before = len(self.cycles)
            lab.qmgr("set server scheduling = True")
            until(lambda: len(self.cycles) > before, 60, "a scheduling cycle")  # noqa: B023 - called at once
            found.append(1000 * self.cycles[before])
            time.sleep(0.3)
        return found


def main() -> None:
    """Run all three, and print their figures."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    lab.uninstall()
    path = f"{ROOT / 'daemon'}:{sysconfig.get_path('purelib')}"
    connection = PbsConnection(
        command=[*lab.runner, "env", f"PYTHONPATH={path}", "python3", "-m", "softwalltime.service.live.agent"]
    )
    settings = {"eligible_time_enable": "True", "backfill_depth": "3", "clear_topjob_estimates_enable": "True"}
    for name, value in settings.items():
        lab.qmgr(f"set server {name} = {value}")
    try:
        with TemporaryDirectory() as folder, SchedulerLog.followed(lab) as log:
            rows = _measure(lab, connection, log, Path(folder), int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "200")))
        print(f"\n{table(['candidates', 'cycle', 'a candidate', 'eligible time', 'of the top job'], rows)}")
    finally:
        connection.close()
        lab.run("qmgr", "-c", "delete hook rejecting")
        lab.delete_jobs()
        for name in settings:
            lab.run("qmgr", "-c", f"unset server {name}")
        lab.qmgr("set server scheduling = True")


def _measure(lab: Lab, connection: PbsConnection, log: SchedulerLog, folder: Path, count: int) -> list[list[str]]:
    options = ("-q", "short", "-l", f"walltime={WALLTIME}")
    running = lab.qsub(*options, "-l", "select=1:ncpus=15", command=("/bin/sleep", str(WALLTIME)))
    lab.wait(running, "R")
    lab.must("qalter", "-l", "soft_walltime=400", running)
    top = lab.qsub(*options, "-l", "select=1:ncpus=16", user="bob")
    lab.qmgr("set server scheduling = False")
    waiting = [lab.qsub(*options, "-l", "select=1:ncpus=1") for _ in range(count)]
    rows = [["with their walltimes, none fits", *_row(lab, log, waiting, top, "")]]

    calls, script = folder / "calls", folder / "rejecting.py"
    script.write_text(HOOK.format(log=str(calls), top=top))
    lab.qmgr("create hook rejecting")
    lab.qmgr("set hook rejecting event = runjob")
    lab.qmgr(f"import hook rejecting application/x-python default {script}")
    # After the hook exists: a cycle in between would start one of them.
    _altered(connection, waiting, SHORT)
    found = _row(lab, log, waiting, top, "")
    times = [float(line) for line in calls.read_text().split()]
    each = [1000 * (after - before) for before, after in pairwise(times) if after - before < 0.2]
    found[1] = f"{statistics.median(each):.1f} ms in every cycle"
    rows.append([f"with {SHORT} s, rejected by a runjob hook", *found])

    cost = _altered(connection, waiting, WALLTIME)
    lab.qmgr("delete hook rejecting")
    rows.append(["altered to their walltimes", *_row(lab, log, waiting, top, f"{cost:.1f} ms once")])
    return rows


def _altered(connection: PbsConnection, jobs: Sequence[str], seconds: int) -> float:
    """Alter the jobs; milliseconds each."""
    begin = time.monotonic()
    for job in jobs:
        connection.alter(job, seconds)
    return 1000 * (time.monotonic() - begin) / len(jobs)


def _row(lab: Lab, log: SchedulerLog, waiting: Sequence[str], top: str, cost: str) -> list[str]:
    begin = _eligible(lab, waiting[-1]), _eligible(lab, top)
    times = log.timed(lab)
    time.sleep(10)
    lab.qmgr("set server scheduling = True")
    time.sleep(1)
    rose = [_eligible(lab, job) - before for job, before in zip((waiting[-1], top), begin, strict=True)]
    cycle = f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})"
    return [cycle, cost, f"+{rose[0]} s", f"+{rose[1]} s"]


def _eligible(lab: Lab, job: str) -> int:
    """The job's eligible time in seconds."""
    hours, minutes, seconds = map(int, str(lab.job(job)["eligible_time"]).split(":"))
    return 3600 * hours + 60 * minutes + seconds


if __name__ == "__main__":
    main()
