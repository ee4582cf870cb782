"""Five PBS servers with one store: each has a daemon, 50 submissions a second, and their records in its log.

Each job is submitted, starts a second later and ends two seconds after that.
"""

import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any

from sqlalchemy import Engine, text

from softwalltime.accounting.writer import as_pbs, record
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.workloads.synthetic import generate
from tests.benchmarks.bench_daemon import exchange, in_words, request
from tests.benchmarks.markdown import table
from tests.benchmarks.serving import serving
from tests.benchmarks.workload import empty_store, scratch_folder

SERVERS, PER_SECOND, SECONDS = 5, 50, 60
POLICY = 'mode = "on"\nwaiting = "percentile"\nrunning = "v3"\n'


def main() -> None:
    """Submit for a minute, and look at what is stored each second."""
    jobs = generate(PER_SECOND * SECONDS, users=200, processors=4096)
    context = get_context("fork")
    with scratch_folder() as folder, empty_store(folder, durable=True) as (dsn, engine), ExitStack() as stack:
        answers: Any = context.Queue()
        submitting = []
        for number in range(SERVERS):
            home = folder / f"server{number}"
            home.mkdir()
            daemon = stack.enter_context(serving(home, dsn, POLICY, f'server = "pbs{number}"\n'))
            own = [as_pbs(replace(job, server=f"pbs{number}"), f"pbs{number}") for job in jobs]
            arguments = (daemon.socket, home / "accounting", own, answers)
            submitting.append(context.Process(target=submit, args=arguments))
        for process in submitting:
            process.start()
        missing = []
        while any(process.is_alive() for process in submitting) and answers.qsize() < SERVERS:
            time.sleep(1)
            missing.append(written(folder) - stored(engine))
        times = [each for _ in submitting for each in answers.get()]
        ended = time.monotonic()
        while stored(engine) < SERVERS * len(jobs):
            time.sleep(0.1)
        rest = time.monotonic() - ended
        with engine.connect() as connection:
            predictions = connection.execute(text("SELECT count(*) FROM softwalltime.predictions")).scalar_one()
    rate = SERVERS * PER_SECOND
    rows = [
        *in_words("answer", times),
        [
            "jobs that ended but were not stored, median of the seconds",
            f"{quantiles(missing, n=2)[0]:.0f} of {rate} a second",
        ],
        ["the same, at most", f"{max(missing):,}"],
        ["seconds from the last record until all jobs were stored", f"{rest:.1f}"],
        ["jobs stored", f"{SERVERS * len(jobs):,} of {SERVERS * len(jobs):,}"],
        ["predictions stored", f"{predictions:,} of {len(times):,}"],
    ]
    print(table([f"{SERVERS} servers, {PER_SECOND} submissions a second each", "figure"], rows))


def submit(socket: Path, accounting: Path, jobs: list[CompletedJob], answers: Any) -> None:
    """Ask the daemon about each job as the hook does, and write its records when they are due."""
    times: list[float] = []
    due: list[tuple[float, str, CompletedJob]] = []
    number = 0
    begin = time.time()
    log = accounting / datetime.now(UTC).strftime("%Y%m%d")
    while number < len(jobs) or due:
        now = time.time()
        lines = []
        while number < len(jobs) and begin + number / PER_SECOND <= now:
            job = moved(jobs[number], int(now))
            asked = time.perf_counter()
            exchange(str(socket), request(job.submission))
            times.append(time.perf_counter() - asked)
            lines.append(record(job, "Q", int(now), UTC)[1])
            due += [(now + 1, "S", job), (now + 3, "E", job)]
            number += 1
        lines += [record(job, kind, int(now), UTC)[1] for when, kind, job in due if when <= now]
        due = [event for event in due if event[0] > now]
        with log.open("a") as stream:
            stream.write("".join(f"{line}\n" for line in lines))
        time.sleep(0.01)
    answers.put(times)


def moved(job: CompletedJob, now: int) -> CompletedJob:
    """Return the job submitted now."""
    submission = replace(job.submission, submitted=now)
    return replace(job, submission=submission, start=now + 1, end=now + 3, runtime=2, qtime=now, etime=now)


def written(folder: Path) -> int:
    """Return the number of E records in all logs."""
    return sum(log.read_bytes().count(b";E;") for log in folder.glob("server*/accounting/*"))


def stored(engine: Engine) -> int:
    """Return the number of stored jobs."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM softwalltime.completed_jobs")).scalar_one())
