"""Ingest from files to committed, indexed rows, in an empty store and in one of 5,000,000 jobs.

Beside it, in the same run: psycopg's COPY of the same rows alone, which is the limit; pbsparse (PyPI) merely parsing
the same files; one process with a connection of its own for each record, which is how others do it; and the same
records in 20 years of daily files.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pbsparse import get_pbs_records
from sqlalchemy import Engine

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import values_of
from softwalltime.store.completed_jobs import add_prepared_jobs, prepare_jobs
from softwalltime.store.connections import connect
from tests.benchmarks.bench_store import fill
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import Finished, accounting_folder, empty_store, scratch_folder, softwalltime

FULL = 5_000_000
DAYS = 20 * 365
RECORDS = 50
TIMES = 3
ONE_BY_ONE = """
import sys, psycopg
from collections import Counter
from softwalltime.accounting import pbs_records
from softwalltime.core.jobs import job_of
kind, job_id, message = pbs_records.split(sys.argv[2].encode())
job = job_of(pbs_records.completed_values(job_id, message, "alone", Counter()))
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute(
        "INSERT INTO softwalltime.completed_jobs (ctime, end_time, runtime, walltime, server, job_id, user_name, state)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (job.submission.submitted, job.end, job.runtime, job.submission.walltime, "alone", job_id, job.submission.user,
         job.state),
    )
"""


def main() -> None:
    """Measure all of it, and print it as one table."""
    with scratch_folder() as scratch:
        name, logs = accounting_folder(scratch)
        files = log_files(logs)
        rows: list[tuple[str, float, int]] = []
        # Only as long as it is needed: what else is measured has the machine to itself.
        with empty_store(scratch, durable=True) as (dsn, engine):
            # Sync earlier writes, which would otherwise reach the disk during the measurement.
            os.sync()
            runs = [ingest_into_empty(engine, logs, dsn) for _ in range(TIMES)]
            first = sorted(runs, key=lambda run: run.seconds)[TIMES // 2]
            again = softwalltime("ingest", logs, "--dsn", dsn)
            jobs = int(first.output.split("jobs stored")[1].split()[0].replace(",", ""))
            rows += [
                (f"softwalltime ingest, empty store, median of {TIMES}", first.seconds, jobs),
                ("softwalltime ingest, nothing new", again.seconds, jobs),
                ("psycopg's COPY alone, empty store", copy(dsn, files), jobs),
                ("a process and a connection a record", one_by_one(dsn, files), RECORDS),
            ]
            daily = daily_files(files, scratch / "daily")
            os.sync()
            split = ingest_into_empty(engine, daily, dsn)
            rows += [
                (f"softwalltime ingest, empty store, {DAYS:,} files", split.seconds, jobs),
                (f"the same, nothing new in {DAYS:,} files", softwalltime("ingest", daily, "--dsn", dsn).seconds, jobs),
            ]
            with engine.begin() as connection:
                connection.exec_driver_sql("TRUNCATE softwalltime.completed_jobs, softwalltime.log_positions")
            fill(engine, FULL)
            os.sync()
            full = softwalltime("ingest", logs, "--dsn", dsn)
            rows.append((f"softwalltime ingest, store of {FULL:,}", full.seconds, jobs))
        rows += [
            ("pbsparse, all records", parse(files), jobs),
            ("pbsparse, E records, processed", parse(files, process=True, type_filter="E"), jobs),
            ("pbsparse, E records, not processed", parse(files, type_filter="E"), jobs),
        ]
    speed = jobs / first.seconds
    print(
        table(
            [f"{name}, {jobs:,} completed jobs", "seconds", "jobs/s", "of ingest's speed"],
            [[what, f"{took:.2f}", f"{done / took:,.0f}", f"{done / took / speed:.4g}"] for what, took, done in rows],
        )
    )
    print(f"\nmemory of ingest, without PostgreSQL's: {max(first.megabytes, full.megabytes):.0f} MB")


def ingest_into_empty(engine: Engine, logs: Path, dsn: str) -> Finished:
    """Ingest all of it anew."""
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE softwalltime.completed_jobs, softwalltime.log_positions")
    return softwalltime("ingest", logs, "--dsn", dsn)


def daily_files(files: list[Path], folder: Path) -> Path:
    """Write the same records into 20 years of daily files, in a new folder."""
    folder.mkdir()
    lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    for day in range(DAYS):
        name = f"{date(2000, 1, 1) + timedelta(days=day):%Y%m%d}"
        some = slice(len(lines) * day // DAYS, len(lines) * (day + 1) // DAYS)
        (folder / name).write_bytes(b"".join(lines[some]))
    return folder


def copy(dsn: str, files: list[Path]) -> float:
    """Seconds that it takes to COPY the same rows, made ready before, into an empty table with its indexes."""
    jobs = [values_of(replace(job, server="copy")) for job in read_jobs(files, Tally())]
    prepared = [prepare_jobs(jobs[first : first + 10_000]) for first in range(0, len(jobs), 10_000)]
    engine = connect(dsn)
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE softwalltime.completed_jobs")
    begin = time.perf_counter()
    for batch in prepared:
        with engine.begin() as connection:
            add_prepared_jobs(connection, [batch])
    took = time.perf_counter() - begin
    engine.dispose()
    return took


def one_by_one(dsn: str, files: list[Path]) -> float:
    """Seconds that some records take, each in a process of its own."""
    lines = [line for line in files[0].read_text().splitlines() if line[19:22] == ";E;"][:RECORDS]
    begin = time.perf_counter()
    for line in lines:
        subprocess.run([sys.executable, "-c", ONE_BY_ONE, dsn, line], check=True)
    return (time.perf_counter() - begin) * RECORDS / len(lines)


def parse(files: list[Path], **options: Any) -> float:
    """Seconds that pbsparse takes."""
    begin = time.perf_counter()
    for file in files:
        for _ in get_pbs_records(str(file), **options):
            pass
    return time.perf_counter() - begin
