"""What a look at a server with 10,000 waiting jobs costs the server, measured with a second client.

The jobs are held, so that nothing else happens.  A second client asks for the state of one job every millisecond; how
much longer than usual its answers take, in all, while the daemon's agent looks at the server, is how long the server
served nobody else.  Processor time of pbs_server is that of the same look without a second client.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_JOBS changes the number of jobs.
"""

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from softwalltime.live.connection import PbsConnection
from softwalltime.live.jobs import QueueWatch
from softwalltime.service.snapshot_source import SnapshotSource
from softwalltime.text_table import table
from tests.acceptance.lab import RUNNER, Lab
from tests.samples import ROOT

QUIET = 1.0
"""Seconds for which the second client asks alone, before and after a look."""
LOOKS: dict[str, Callable[[PbsConnection], Callable[[int], object]]] = {
    "forecast": lambda connection: SnapshotSource(connection).take,
    "live values": lambda connection: QueueWatch(connection).look,
}
CLIENT = """
import json, sys, time
from softwalltime.live.ifl import Ifl
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
    connection = PbsConnection(command=_python(lab, "-m", "softwalltime.live.agent"))
    try:
        one = "qsub -h -q workq -l walltime=600 -- /bin/sleep 1"
        submit = f"for i in $(seq {count}); do {one} || exit 1; done | tail -1"
        submitted = lab.run("bash", "-c", submit, user="alice", timeout=1800)
        assert submitted.ok, submitted.error
        job = submitted.output
        # Times of PBS are whole seconds: a job that was modified in the last seconds is read again.
        time.sleep(5)
        rows = []
        for name, make in LOOKS.items():
            alone, watched = make(connection), make(connection)
            rows += [[f"{name}: {each} look", *_measured(lab, job, alone, watched)] for each in ("first", "second")]
        header = ["look takes", "processor time of the server", "others waited in all", "longest", "usual"]
        print(table([f"{count:,} jobs", *header], rows), flush=True)
    finally:
        connection.close()
        lab.run("bash", "-c", "qselect | xargs -r -n 500 qdel -W force -x", timeout=1800)
        lab.qmgr("set server scheduling = True")


def _python(lab: Lab, *arguments: str) -> list[str]:
    path = f"{ROOT / 'daemon'}:{sysconfig.get_path('purelib')}"
    return [*lab.runner, "env", f"PYTHONPATH={path}", sys.executable, *arguments]


def _measured(lab: Lab, job: str, alone: Callable[[int], object], watched: Callable[[int], object]) -> list[str]:
    """Look once without and once with a second client."""
    before, begin = _processor_time(), time.monotonic()
    alone(int(time.time()))
    seconds, used = time.monotonic() - begin, _processor_time() - before
    command = _python(lab, "-c", CLIENT, job, str(3 * seconds + 5))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()
        time.sleep(QUIET)
        begin = time.monotonic()
        watched(int(time.time()))
        end = time.monotonic()
        answers = json.loads(client.stdout.readline())
    usual = median(took for _, took in answers)
    during = [took for at, took in answers if begin - took <= at <= end]
    waited = sum(max(took - usual, 0.0) for took in during)
    return [f"{each * 1000:.1f} ms" for each in (seconds, used, waited, max(during), usual)]


def _processor_time() -> float:
    """Seconds of processor time that pbs_server has used."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, _ = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("pbs_server"):
            return int((stat.parent / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


if __name__ == "__main__":
    main()
