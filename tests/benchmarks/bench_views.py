"""The monitoring views over 5,000,000 jobs of three years, each with a prediction, and a million predictions in a day:
how long every one of them takes.

The jobs are 250,000 generated ones, predicted by the percentile, twenty times over with other times and ids.
SOFTWALLTIME_BENCH_JOBS asks for fewer.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from sqlalchemy import Engine, text

from softwalltime.core.jobs import CompletedJob, CurrentJob, DecisionRecord
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.registry import make
from softwalltime.store.completed_jobs import vacuum_analyze
from softwalltime.store.current import set_current
from softwalltime.store.daily import refresh
from softwalltime.store.definitions import views
from softwalltime.store.predictions import add_decisions
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.store.stored import add_jobs

JOBS = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "5000000"))
COPIES, USERS, DAYS = 20, 600, 1095
CHUNK = 25_000
LONGEST_WAIT = 86400
CURRENT = 20_000
REQUESTS_A_DAY = 1_000_000
TIMES = 5

# The same jobs, shifted into the past, with other ids.
_COPY_JOBS = """
INSERT INTO softwalltime.completed_jobs (
    ctime, qtime, etime, start_time, end_time, walltime, runtime, mem, cput, mem_used, ncpus, nodect, exit_status,
    run_count, state, server, job_id, user_name, group_name, project, job_name, queue, select_spec, place
)
SELECT
    ctime - :shift, qtime - :shift, etime - :shift, start_time - :shift, end_time - :shift, walltime, runtime, mem,
    cput, mem_used, ncpus, nodect, exit_status, run_count, state, server, :prefix || job_id, user_name, group_name,
    project, job_name, queue, select_spec, place
FROM softwalltime.completed_jobs WHERE id <= :last ORDER BY id
"""
_COPY_PREDICTIONS = """
INSERT INTO softwalltime.predictions (
    predicted_at, walltime, soft_walltime, predicted, took, exchange_before, event, job_id, user_name, project, queue,
    mode, predictor, action, basis, reason
)
SELECT
    predicted_at - :shift, walltime, soft_walltime, predicted, took, exchange_before, event, :prefix || job_id,
    user_name, project, queue, mode, predictor, action, basis, reason
FROM softwalltime.predictions WHERE id <= :last ORDER BY id
"""

# Requests of the last day, for jobs that still wait, as fast as a recorder stores them.
_BUSY_DAY = """
INSERT INTO softwalltime.predictions (
    predicted_at, walltime, soft_walltime, predicted, took, exchange_before, event, job_id, user_name, project, queue,
    mode, predictor, action, basis, reason
)
SELECT
    :now - 86400 + number * 86400 / :requests, walltime, soft_walltime, predicted, took, exchange_before, 'modifyjob',
    'day' || number || '.srv', user_name, project, queue, mode, predictor, action, basis, reason
FROM generate_series(CAST(:first AS bigint), :first + 999) AS number
JOIN softwalltime.predictions AS made ON made.id = number % :last + 1
"""

_POSITIONS = """
INSERT INTO softwalltime.log_positions (
    server, path, byte_offset, line_number, head_length, head_digest, tail_length, tail_digest
)
SELECT 'pbs1', day::text, 1, 1, 0, '', 0, '' FROM generate_series(1, :days) AS day
"""


def main() -> None:
    """Fill a store, refresh the daily figures, ask every view."""
    with scratch_folder() as folder, empty_store(folder) as (_, engine):
        fill(engine)
        measure(engine)


def fill(engine: Engine) -> None:
    """Put jobs and predictions into the store, the last of them ended just now."""
    jobs = squeezed(generate(JOBS // COPIES, users=USERS, processors=4096))
    decisions = list(predicted(jobs))
    for first in range(0, len(jobs), CHUNK):
        with engine.begin() as connection:
            add_jobs(connection, jobs[first : first + CHUNK])
            add_decisions(connection, decisions[first : first + CHUNK])
    span = DAYS * 86400 // COPIES
    for number in range(1, COPIES):
        values = {"shift": number * span, "prefix": str(number), "last": len(jobs)}
        with engine.begin() as connection:
            connection.execute(text(_COPY_JOBS), values)
            connection.execute(text(_COPY_PREDICTIONS), values)
    values = {"now": int(time.time()), "requests": REQUESTS_A_DAY, "last": len(jobs)}
    for first in range(0, REQUESTS_A_DAY, 1000):
        with engine.begin() as connection:
            connection.execute(text(_BUSY_DAY), {**values, "first": first})
    with engine.begin() as connection:
        set_current(
            connection,
            [
                CurrentJob(
                    replace(job.submission, job_id=f"now{job.submission.job_id}"),
                    job.server,
                    job.start if number % 2 else None,
                    soft_walltime=60,
                )
                for number, job in enumerate(jobs[-CURRENT:])
            ],
        )
        connection.execute(text(_POSITIONS), {"days": DAYS})
    vacuum_analyze(engine)


def squeezed(jobs: list[CompletedJob]) -> list[CompletedJob]:
    """The jobs with their ends in one part of the whole span, and no longer wait than a day."""
    begin, end = min(job.end for job in jobs), max(job.end for job in jobs)
    now, part = int(time.time()), DAYS * 86400 / COPIES / (end - begin)
    made = []
    for job in jobs:
        ended = now - int((end - job.end) * part)
        started = ended - job.runtime
        wait = min(LONGEST_WAIT, (job.start or 0) - job.submission.submitted)
        submission = replace(job.submission, submitted=started - wait)
        made.append(
            replace(job, submission=submission, start=started, end=ended, qtime=started - wait, etime=started - wait)
        )
    return made


def predicted(jobs: list[CompletedJob]) -> Iterator[DecisionRecord]:
    """Return the decisions of the daemon about the jobs at submission, in mode on."""
    workload = Workload(jobs)
    soft_walltimes = drive(workload, make("percentile")).soft_walltimes.tolist()
    for number, (job, seconds) in enumerate(zip(workload.jobs, soft_walltimes, strict=True)):
        known = seconds >= 0
        yield DecisionRecord(
            job.submission.submitted, "postqueuejob", job.submission, "on", "percentile",
            seconds if known else None, seconds if known else None, "set" if known else "none",
            "runtime / walltime of like jobs" if known else "only 3 jobs with the same user ended in the last 30 days",
            60 + number % 97, 0, 400 + number % 991,
        )  # fmt: skip


def measure(engine: Engine) -> None:
    """Refresh the figures from nothing and again, then ask each view for all it has, warm.

    A view's time is PostgreSQL's processor time, which other work on the machine changes little.
    """
    rows = []
    for what in ("first refresh, all days", "next refresh, nothing new"):
        begin = time.perf_counter()
        days = sum(refresh(engine, int(time.time())))
        rows.append([f"{what}: {days} days", f"{time.perf_counter() - begin:.2f} s", ""])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM (ANALYZE)"))
        # Its workers are other processes.
        connection.execute(text("SET max_parallel_workers_per_gather = 0"))
        process = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        for view in views():
            times = []
            for _ in range(TIMES):
                begin = processor_seconds(process)
                # Every row and column is made, and none is sent.
                connection.execute(text(f"SELECT count(each) FROM softwalltime.{view} AS each"))
                times.append(processor_seconds(process) - begin)
            count = connection.execute(text(f"SELECT count(*) FROM softwalltime.{view}")).scalar_one()
            rows.append([view, f"{median(times) * 1000:.0f} ms", f"{count:,}"])
        sizes = connection.execute(
            text("""
                SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname LIKE 'daily%'),
                    sum(pg_total_relation_size(oid))
                FROM pg_class WHERE relnamespace = 'softwalltime'::regnamespace AND relkind = 'r'
            """)
        ).one()
        rows.append(["size of the daily figures", f"{sizes[0] / 2**20:.0f} MB", f"of {sizes[1] / 2**20:,.0f} MB"])
    what = f"{JOBS:,} jobs, a prediction each, {REQUESTS_A_DAY:,} more in the last day, {DAYS} days"
    print(table([what, "time", "rows"], rows))


def processor_seconds(process: int) -> float:
    """The processor time that a process of this host has used."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
