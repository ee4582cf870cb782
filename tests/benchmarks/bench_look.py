"""What a look at a server with 10,000 waiting jobs costs the server, measured with a second client.

Scheduling is off, so that nothing else happens.  A second client asks for the state of one job every millisecond; how
much longer than usual its answers take, in all, while the daemon's agent looks at the server, is how long the server
served nobody else.  What it waits in as long a time without a look is subtracted.  It and pbs_server run at a real-time
priority: without it, most of the second client's waits are pbs_server's for one of the machine's processors, which the
agent, the daemon and all other work share.  How long pbs_server waited for a processor during the look is printed too.
Processor time of pbs_server is that of looks without a second client.  Each figure is the median of five looks, and the
longest answer the longest of all five.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_JOBS changes the number of jobs.
"""

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.watch import server_jobs
from softwalltime.service.snapshot_source import SnapshotSource
from tests.acceptance.lab import RUNNER, Lab
from tests.benchmarks.markdown import table
from tests.samples import ROOT

QUIET = 1.0
"""Seconds for which the second client asks alone before a look, and thrice as long as the look after it."""
TIMES = 5
LOOKS: dict[str, Callable[[PbsConnection], Callable[[int], object]]] = {
    "forecast": lambda connection: SnapshotSource(connection).take,
    "live values": lambda connection: server_jobs(connection).look,
}
CLIENT = """
import json, os, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
from softwalltime.service.live.ifl import Ifl
ifl, job = Ifl(), sys.argv[1]
print("ready", flush=True)
answers, until = [], time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    begin = time.monotonic()
    list(ifl.jobs(["job_state"], [job]))
    answers.append((begin, time.monotonic() - begin))
    time.sleep(0.001)
print(json.dumps(answers))
"""


def main() -> None:
    """Submit the jobs, look, and delete them."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    count = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "10000"))
    lab.uninstall()
    lab.qmgr("set server scheduling = False")
    connection = PbsConnection(command=_python(lab, "-m", "softwalltime.service.live.agent"))
    try:
        one = "qsub -q workq -l walltime=600 -- /bin/sleep 1"
        submit = f"for i in $(seq {count}); do {one} || exit 1; done | tail -1"
        submitted = lab.run("bash", "-c", submit, user="alice", timeout=1800)
        assert submitted.ok, submitted.error
        job = submitted.output
        # Times of PBS are whole seconds: a job that was modified in the last seconds is read again.
        time.sleep(5)
        rows = []
        with _preferred():
            for name, make in LOOKS.items():
                rows += _rows(lab, job, name, partial(make, connection))
        header = [
            "look takes", "processor time of the server", "it waited for a processor", "others waited in all",
            "longest", "usual",
        ]  # fmt: skip
        print(table([f"{count:,} jobs", *header], rows), flush=True)
    finally:
        connection.close()
        lab.run("bash", "-c", "qselect | xargs -r -n 500 qdel -W force -x", timeout=1800)
        lab.qmgr("set server scheduling = True")


def _python(lab: Lab, *arguments: str) -> list[str]:
    path = f"{ROOT / 'daemon'}:{sysconfig.get_path('purelib')}"
    return [*lab.runner, "env", f"PYTHONPATH={path}", sys.executable, *arguments]


def _rows(lab: Lab, job: str, name: str, make: Callable[[], Callable[[int], object]]) -> list[list[str]]:
    """The rows of the first and a later look."""
    found: dict[str, list[LookCost]] = {"first": [], "later": []}
    for _ in range(TIMES):
        alone, watched = make(), make()
        for costs in found.values():
            costs.append(_measured(lab, job, alone, watched))
    rows = []
    for each, costs in found.items():
        columns = [sorted(column) for column in zip(*costs, strict=True)]
        typical = [median(column) for column in columns]
        typical[LookCost._fields.index("longest")] = columns[LookCost._fields.index("longest")][-1]
        rows.append([f"{name}: {each} look", *(f"{value * 1000:.1f} ms" for value in typical)])
    return rows


class LookCost(NamedTuple):
    """Seconds: the look, processor time of the server, its waits for a processor, and what the second client waits."""

    seconds: float
    used: float
    delayed: float
    waited: float
    longest: float
    usual: float


def _measured(lab: Lab, job: str, alone: Callable[[int], object], watched: Callable[[int], object]) -> LookCost:
    """Look once without and once with a second client."""
    (before, _), begin = _processor_time(), time.monotonic()
    alone(int(time.time()))
    seconds, used = time.monotonic() - begin, _processor_time()[0] - before
    command = _python(lab, "-c", CLIENT, job, str(8 * seconds + 3))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(QUIET)
        (_, before), begin = _processor_time(), time.monotonic()
        watched(int(time.time()))
        end, delayed = time.monotonic(), _processor_time()[1] - before
        answers = json.loads(client.stdout.readline())
    usual = median(took for _, took in answers)
    during = [took for at, took in answers if begin - took <= at <= end]
    quiet = [(at, took) for at, took in answers if end < at <= end + 3 * (end - begin)]
    noise = sum(max(took - usual, 0.0) for _, took in quiet) / (quiet[-1][0] - end) * (end - begin)
    waited = sum(max(took - usual, 0.0) for took in during)
    return LookCost(seconds, used, delayed, waited - noise, max(during), usual)


def _processor_time() -> tuple[float, float]:
    """Seconds of processor time that pbs_server has used, and for which it has waited for a processor."""
    used, delayed, _ = Path(f"/proc/{_server()}/schedstat").read_text().split()
    return int(used) / 1e9, int(delayed) / 1e9


@contextmanager
def _preferred() -> Iterator[None]:
    """pbs_server has a real-time priority above that of the second client, and what it starts has none."""
    server = _server()
    policy, before = os.sched_getscheduler(server), os.sched_getparam(server)
    os.sched_setscheduler(server, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(2))
    try:
        yield
    finally:
        os.sched_setscheduler(server, policy, before)


def _server() -> int:
    """The process id of pbs_server on this machine: the oldest one, as it forks others for some work."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("pbs_server"):
            found.append((int(rest.split()[19]), int(stat.parent.name)))
    if not found:
        sys.exit("no pbs_server runs on this machine")
    return min(found)[1]


if __name__ == "__main__":
    main()
