"""How fast the daemon answers the hook while its process forecasts starts without pause.

1,000 waiting and 1,000 running jobs on a full machine, of an emulated server; 100,000 jobs in the store.  The process
that forecasts is stopped and continued again and again, so that load of other programs meets both kinds of answers.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import quantiles

from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.snapshot import SchedulerSettings
from softwalltime.service.protocol import ask
from tests.benchmarks.bench_daemon import exchanges, fill, in_words, request
from tests.benchmarks.bench_starts import server as full_server
from tests.benchmarks.markdown import table
from tests.benchmarks.serving import Serving, serving
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.live.emulated import EmulatedServer, agent_at

JOBS = 100_000
WAITING, RUNNING = 1000, 1000
REQUESTS = 2000
"""Requests in a row, without and with forecasts."""
ROUNDS = 15
POLICY = 'mode = "on"\nwaiting = "percentile"\nrunning = "v3"\n'


def main() -> None:
    """Fill a store, start the daemon on it, ask."""
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine):
        jobs = fill(engine, JOBS)[:REQUESTS]
        with forecasting(folder, dsn, POLICY) as daemon:
            rows = answers_while_forecasting(daemon, jobs)
    print(table([f"{JOBS:,} jobs in the store", "figure"], rows))


@contextmanager
def forecasting(folder: Path, dsn: str, policy: str) -> Iterator[Serving]:
    """The daemon with forecasts of 1,000 waiting jobs beside 1,000 running ones, made one after the other."""
    server = EmulatedServer(folder)
    snapshot = full_server(WAITING, RUNNING, SchedulerSettings(strict_ordering=True))
    server.fill(snapshot.jobs)
    # So many runs take longer than the interval.
    starts = '[starts]\nmode = "on"\nevery = 10\nruns = 10000\npredictor = "v1"\n'
    with (
        agent_at(folder / "agent.sock", server, processors=snapshot.vnodes[0].ncpus) as agent,
        serving(folder, dsn, f'{policy}{starts}agent = "{agent}"\n') as daemon,
    ):
        yield daemon


def answers_while_forecasting(daemon: Serving, jobs: list[Submission]) -> list[list[str]]:
    """How long one client waits while the process that forecasts is stopped, and while it works."""
    wait_for_forecaster(daemon)
    lines = [request(job) for job in jobs]
    times: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(2 * ROUNDS):
        working = round_ % 2 == 1
        _send(daemon, signal.SIGCONT if working else signal.SIGSTOP)
        times[working] += exchanges(daemon.socket, lines)[0]
    _send(daemon, signal.SIGCONT)
    state = ask(daemon.socket, {"op": "status"})["starts"]
    with_, without = (quantiles(times[each], n=100)[98] for each in (True, False))
    return [
        *in_words("answer, forecasts stopped", times[False]),
        *in_words("answer, forecasts made", times[True]),
        ["p99 while forecasts are made, over p99 without", f"{with_ / without:.2f}"],
        ["problem of the forecasts", state["problem"] or "none"],
    ]


def wait_for_forecaster(daemon: Serving) -> None:
    """Wait until the process that forecasts has been at work for a while."""
    while "starts: learnt" not in daemon.output.read_text():
        time.sleep(0.2)
    # By then it has looked at the server, and draws runtimes.
    time.sleep(15)


def _send(daemon: Serving, number: signal.Signals) -> None:
    """Send a signal to the process that forecasts; the daemon starts another one if it is silent for long."""
    pid = ask(daemon.socket, {"op": "status"})["pid"]
    while True:
        listed = subprocess.run(
            ["ps", "--ppid", str(pid), "-o", "pid=,args="], capture_output=True, text=True, check=False
        )
        for line in listed.stdout.splitlines():
            if "start_process" in line:
                with suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), number)
                    return
        time.sleep(0.2)


if __name__ == "__main__":
    main()
