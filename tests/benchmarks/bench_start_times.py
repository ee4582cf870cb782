"""Starts forecast by the daemon on a real PBS server, judged by what happened and against PBS's own estimates.

200 sleeping jobs of which half end early, on one vnode with 80 virtual processors, strictly ordered; a third are
submitted at once, the others in about six minutes.  The daemon follows the server's accounting log and forecasts every
10 seconds, from runtimes that it has learnt: its store begins with 600 jobs of the same habits.  PBS estimates the
starts of the first 20 jobs itself (``estimated.start_time``, which ``qstat -T`` shows), by walltimes.

Printed for the first forecast of each job and for all: mean absolute error over mean remaining wait, bias, and the
share of starts within the ranges, for all jobs, and beside PBS's estimates for those that have one at that moment.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_JOBS changes the number of jobs.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import mul
from pathlib import Path
from statistics import mean
from threading import Event, Thread

from sqlalchemy import Engine, text

from softwalltime.measure.forecast.calibration import WaitForecast
from softwalltime.service.protocol import NoAnswerError, ask
from softwalltime.store.forecast_rows import PublishedStart, read_expected
from tests.acceptance.lab import RUNNER, Lab
from tests.acceptance.sleeping import Sleeper, half_early, recorded, run
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.samples import job
from tests.store.stored import add_jobs

PROCESSORS = 80
LOAD = 1.2
SEED = 11
EVERY = 10
DEPTH = 20
HISTORY = 600
TIMEOUT = 1200.0
MINUTE = 60
UNCORRECTED = text("SELECT job_id, forecast_at, raw FROM softwalltime.expected_starts")


@dataclass(frozen=True, slots=True)
class JudgedStart:
    """A forecast and the start that came, epoch seconds; ``first``: the first forecast of its job."""

    made: PublishedStart
    started: int
    first: bool

    @property
    def wait(self) -> int:
        return self.started - self.made.forecast_at


def _raw(judged: JudgedStart) -> WaitForecast:
    return WaitForecast.of(judged.made.start.raw or ())


def uncorrected(judged: JudgedStart) -> JudgedStart:
    """Return the forecast as it was before any correction."""
    raw = WaitForecast.of(judged.made.start.raw or ())
    begin = judged.made.forecast_at + raw.delay
    expected, low90, low50, high50, high90 = (round(begin + wait) for wait in (raw.median, *raw.ranges))
    start = replace(judged.made.start, expected=expected, low90=low90, low50=low50, high50=high50, high90=high90)
    return replace(judged, made=judged.made._replace(start=start))


def main() -> None:
    """Run the workload and print both tables."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    count = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "200"))
    sleepers = half_early(count, PROCESSORS, LOAD, SEED)
    lab.uninstall()
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine), lab.virtual_processors(PROCESSORS):
        remember(engine, half_early(HISTORY, PROCESSORS, LOAD, SEED + 1))
        with depth(lab, DEPTH), forecasting(lab, folder, dsn) as socket, sampled(engine) as samples:
            begin = time.monotonic()
            ids = run(lab, sleepers, TIMEOUT)
            took = time.monotonic() - begin
            status = ask(socket, {"op": "status"})["starts"]
        completed, _ = recorded(lab, ids)
        lab.delete_jobs()
    started = {each.submission.job_id: each.start for each in completed if each.start is not None}
    judged = list(_judged(samples, started))
    last = f"the last forecast took {status['seconds']:.1f} s with {status['runs']} runs"
    last += f", 90% ranges x {status['range_factor']:.2f} by the forecasts of {status['judged']} jobs"
    print(f"{count} jobs on {PROCESSORS} virtual processors in {took:.0f} s, seed {SEED}; {last}\n")
    first = [each for each in judged if each.first]
    # Those of which it is known what they were before.
    late = [each for each in judged[len(judged) // 3 :] if each.made.start.raw]
    rows = [
        _row("at submission", first),
        _row(f"every {EVERY} s", judged),
        _row(f"every {EVERY} s, each job counts once", judged, by_job=True),
        _row("the same without the first third", late, by_job=True),
        _row("the same before any correction", list(map(uncorrected, late)), by_job=True),
        _row(
            "of these with corrections, after a minute of waiting",
            [each for each in late if _raw(each).waited >= MINUTE],
        ),
    ]
    print(table(["forecasts of all jobs", "forecasts", "mean wait", "error / mean wait", "bias", "50% range",
                 "90% range"], rows))  # fmt: skip
    rows = []
    for name, part in (("at submission", first), (f"every {EVERY} s", judged)):
        of_pbs = [each for each in part if each.made.start.pbs_estimate is not None]
        rows += [_row(f"{name}: ours", of_pbs), _pbs_row(f"{name}: PBS", of_pbs)]
    print()
    print(table([f"jobs that PBS estimates (depth {DEPTH})", "forecasts", "mean wait", "error / mean wait", "bias",
                 "50% range", "90% range"], rows))  # fmt: skip


def remember(engine: Engine, sleepers: Sequence[Sleeper]) -> None:
    """Store jobs of the same habits that ended in the last hours."""
    now = int(time.time())
    jobs = [
        job(
            "alice", submitted=now - 20 * (number + 1) - 300, end=now - 20 * (number + 1), runtime=each.runtime,
            walltime=each.walltime, job_id=f"{number}.history", queue="workq", ncpus=each.ncpus,
            project="_pbs_project_default", group="alice", job_name="STDIN",
        )
        for number, each in enumerate(sleepers)
    ]  # fmt: skip
    with engine.begin() as connection:
        add_jobs(connection, jobs)


@contextmanager
def depth(lab: Lab, count: int) -> Iterator[None]:
    """So many jobs get an estimated start from pbs_sched."""
    lab.qmgr(f"set server backfill_depth = {count}")
    try:
        yield
    finally:
        lab.qmgr("unset server backfill_depth")


@contextmanager
def forecasting(lab: Lab, folder: Path, dsn: str) -> Iterator[Path]:
    """The daemon on the server's host; its socket."""
    socket = folder / "hook.sock"
    config = folder / "softwalltime.toml"
    config.write_text(
        f'dsn = "{dsn}"\nsocket = "{socket}"\naccounting = "{lab.home}/server_priv/accounting"\n'
        f'[policy]\nmode = "off"\n[starts]\nmode = "on"\nevery = {EVERY}\n'
    )
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [*lab.runner, sys.executable, "-m", "softwalltime", "serve", "--config", str(config)],
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not _forecasts(socket):
            if time.monotonic() > deadline or process.poll() is not None:
                sys.exit(f"the daemon does not forecast: {(folder / 'output').read_text()}")
            time.sleep(0.2)
        yield socket
    finally:
        try:
            os.kill(ask(socket, {"op": "status"})["pid"], signal.SIGTERM)
        except NoAnswerError:
            process.kill()
        process.wait()


def _forecasts(socket: Path) -> bool:
    try:
        return bool(ask(socket, {"op": "status"})["starts"]["taken"])
    except NoAnswerError:
        return False


@contextmanager
def sampled(engine: Engine) -> Iterator[list[PublishedStart]]:
    """Each forecast that is published inside the context."""
    found: dict[tuple[str, int], PublishedStart] = {}
    made: list[PublishedStart] = []
    stopping = Event()

    def sample() -> None:
        while not stopping.wait(1):
            with engine.connect() as connection:
                raw = {(job_id, made): values for job_id, made, values in connection.execute(UNCORRECTED)}
                for each in read_expected(connection):
                    key = each.start.job_id, each.forecast_at
                    if each.start.expected is not None:
                        found.setdefault(key, each._replace(start=replace(each.start, raw=raw.get(key))))

    thread = Thread(target=sample)
    thread.start()
    try:
        yield made
    finally:
        stopping.set()
        thread.join()
        made += found.values()


def _judged(samples: Sequence[PublishedStart], started: dict[str, int]) -> Iterator[JudgedStart]:
    """The forecasts of jobs that still waited when they were made."""
    seen: set[str] = set()
    for each in sorted(samples, key=lambda one: one.forecast_at):
        job_id = each.start.job_id
        if (start := started.get(job_id)) is None or start < each.forecast_at:
            continue
        yield JudgedStart(each, start, job_id not in seen)
        seen.add(job_id)


def _row(name: str, judged: Sequence[JudgedStart], *, by_job: bool = False) -> list[str]:
    """One row; forecasts of one job may count as one, because their errors depend on each other."""
    if not judged:
        return [name, "0", "-", "-", "-", "-", "-"]
    errors = [(each.made.start.expected or 0) - each.started for each in judged]
    within = []
    for low, high in (("low50", "high50"), ("low90", "high90")):
        inside = [getattr(each.made.start, low) <= each.started <= getattr(each.made.start, high) for each in judged]
        of_job = Counter(each.made.start.job_id for each in judged)
        weights = [1 / of_job[each.made.start.job_id] if by_job else 1.0 for each in judged]
        within.append(f"{sum(map(mul, inside, weights)) / sum(weights):.1%}")
    return [*_error(name, judged, errors), *within]


def _pbs_row(name: str, judged: Sequence[JudgedStart]) -> list[str]:
    if not judged:
        return [name, "0", "-", "-", "-", "", ""]
    return [*_error(name, judged, [(each.made.start.pbs_estimate or 0) - each.started for each in judged]), "", ""]


def _error(name: str, judged: Sequence[JudgedStart], errors: Sequence[int]) -> list[str]:
    wait = mean(each.wait for each in judged)
    error = mean(map(abs, errors))
    return [name, f"{len(judged):,}", f"{wait:.1f} s", f"{error / wait:.1%}", f"{mean(errors):+.1f} s"]


if __name__ == "__main__":
    main()
