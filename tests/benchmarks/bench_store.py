"""The store at its size: bytes a job, the SQL predictors, the daemon's start, retention, and what partitions would do.

Ten million jobs of a thousand users over three years: half a million generated ones, repeated in time under other ids.
``SOFTWALLTIME_BENCH_JOBS`` says how many instead.
"""

import os
import pickle
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from sqlalchemy import Engine, text

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.base import needed_history
from softwalltime.predict.predictors.registry import make
from softwalltime.service.protocol import ask
from softwalltime.store.completed_jobs import rebuild_indexes, vacuum_analyze
from softwalltime.store.connections import connect
from softwalltime.store.learning_jobs import last_ended_since, read_history
from softwalltime.store.retention import RetentionRun
from softwalltime.store.tables import completed_jobs
from tests.benchmarks.bench_daemon import exchanges, in_words, request
from tests.benchmarks.markdown import table
from tests.benchmarks.serving import PAUSE, serving
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.store.stored import add_jobs

JOBS = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "10000000"))
USERS = 1000
ONCE = 500_000
YEARS = 3 * 365 * 86400
ASKED = 200
ANSWERS, WARM = 10_000, 200
"""Answers of the daemon that are timed, and those before them that are not."""
DEADLINE = 0.05
"""Seconds that the hook waits for an answer."""
STORED, BETWEEN = 1000, 0.25
"""New jobs that are stored at a time while answers are timed, and the seconds between."""
CALLS = {
    "last2 (v1)": "last2(:user, :now)",
    "usage (v3)": "usage(:user, :walltime, :now)",
    "percentile, triple key": "percentile(:user, :project, :walltime, :now)",
    "percentile, user": "percentile(:user, :project, :walltime, :now, 85, 'user')",
}
_REPEAT = text("""
    INSERT INTO softwalltime.completed_jobs ({columns})
    SELECT {values} FROM softwalltime.completed_jobs WHERE id <= :once ORDER BY end_time, id
""").text


def main() -> None:
    """Fill a store, and measure all of it."""
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine):
        fill(engine, JOBS)
        rows = [*sizes(engine)]
        users = asked(engine)
        for name, call in CALLS.items():
            rows.append([f"SQL, {name}", latencies(engine, call, users)])
        begin = time.perf_counter()
        list(rebuild_indexes(engine))
        rows.append(["softwalltime db reindex", f"{time.perf_counter() - begin:.0f} s"])
        rows += [[f"{what}, after that", figure] for what, figure in sizes(engine)]
        for name, call in CALLS.items():
            rows.append([f"SQL, {name}, after that", latencies(engine, call, users)])
        rows += daemon(folder, dsn)
        rows += calibrated(folder, dsn, engine)
        rows += partitions(engine, users)
        rows += retention(engine)
    print(table([f"{JOBS:,} jobs of {USERS:,} users over 3 years", "figure"], rows))


def busy() -> None:
    """Fill a store, and measure only how long the daemon takes to answer, also while it loads and learns."""
    with scratch_folder() as folder, empty_store(folder) as (dsn, engine):
        fill(engine, JOBS)
        rows = [*calibrated(folder, dsn, engine)]
    print(table([f"{JOBS:,} jobs of {USERS:,} users over 3 years", "figure"], rows))


def fill(engine: Engine, count: int) -> None:
    """Generated jobs, and then the same again and again, each time later and under other ids."""
    once = min(count, ONCE)
    jobs = generate(once, users=USERS, processors=4096)
    first, last = min(job.submission.submitted for job in jobs), max(job.end for job in jobs)
    repeats = count // once
    # The generator's own times do not matter; that the jobs fill the years does.
    share = YEARS / repeats / (last - first)
    begin = int(time.time()) - YEARS
    jobs = [
        replace(job, start=None if job.start is None else at - job.runtime, end=at)
        for job in jobs
        for at in [begin + int((job.end - first) * share)]
    ]
    jobs.sort(key=lambda job: job.end)
    for position in range(0, len(jobs), 20_000):
        with engine.begin() as connection:
            add_jobs(connection, jobs[position : position + 20_000])
    shifted = {"start_time", "end_time", "ctime", "qtime", "etime"}
    columns = [column.name for column in completed_jobs.columns if column.name != "id"]
    for repeat in range(1, repeats):
        values = [
            f"{name} + {repeat * (YEARS // repeats)}"
            if name in shifted
            else f"replace(job_id, '.', '{repeat:03}.')"
            if name == "job_id"
            else name
            for name in columns
        ]
        with engine.begin() as connection:
            statement = _REPEAT.format(columns=", ".join(columns), values=", ".join(values))
            connection.execute(text(statement), {"once": once})
    vacuum_analyze(engine)


def sizes(engine: Engine) -> Iterator[list[str]]:
    """Bytes a job: of the table, and of each index."""
    query = text("""
        SELECT relation.relname, pg_relation_size(relation.oid), pg_total_relation_size(index.indrelid)
        FROM pg_index AS index JOIN pg_class AS relation ON relation.oid = index.indexrelid
        WHERE index.indrelid = 'softwalltime.completed_jobs'::regclass ORDER BY 2 DESC
    """)
    with engine.connect() as connection:
        found = connection.execute(query).all()
    indexes = sum(size for _, size, _ in found)
    total = found[0][2]
    yield ["bytes a job, in all", f"{total / JOBS:.0f}"]
    yield ["of which the table", f"{(total - indexes) / JOBS:.0f}"]
    for name, size, _ in found:
        yield [f"of which {name}", f"{size / JOBS:.0f}"]


def asked(engine: Engine) -> list[dict[str, object]]:
    """The last jobs of all kinds of users, as their predictions would be asked for; the heaviest user's first."""
    query = text("""
        WITH recent AS (
            SELECT user_name, count(*) AS jobs, max(project) AS project, max(walltime) AS walltime
            FROM softwalltime.completed_jobs
            WHERE end_time > (SELECT max(end_time) FROM softwalltime.completed_jobs) - 30 * 86400
            GROUP BY user_name
        )
        SELECT user_name AS user, project, walltime FROM recent ORDER BY jobs DESC LIMIT :asked
    """)
    with engine.connect() as connection:
        return [
            {**row, "now": int(time.time())} for row in connection.execute(query, {"asked": ASKED}).mappings().all()
        ]


def latencies(engine: Engine, call: str, users: list[dict[str, object]], schema: str = "softwalltime") -> str:
    """Milliseconds of a call: the median over users, and the heaviest user's; the best of three each."""
    query = text(f"SELECT {schema}.{call}")
    times = []
    with engine.connect() as connection:
        for values in users:
            best = float("inf")
            for _ in range(3):
                begin = time.perf_counter()
                connection.execute(query, {key: values[key] for key in query.compile().params}).all()
                best = min(best, time.perf_counter() - begin)
            times.append(best * 1000)
    return f"{statistics.median(times):.2f} ms, heaviest user {times[0]:.2f} ms, slowest {max(times):.2f} ms"


def daemon(folder: Path, dsn: str) -> Iterator[list[str]]:
    """How long the daemon takes to start on this store, and its memory."""
    for spec in ("v3", "percentile"):
        with serving(folder, dsn, f'waiting = "{spec}"\n') as found:
            figures = f"{found.start:.1f} s, {found.megabytes:.0f} MB, {found.learnt:,} jobs learnt"
            yield [f"daemon ready, {spec}", figures]


def calibrated(folder: Path, dsn: str, engine: Engine) -> Iterator[list[str]]:
    """The daemon's start with this predictor, its answers before and while it learns, and the predictor's state."""
    jobs = last_jobs(engine, ANSWERS)
    lines = [request(job.submission) for job in jobs]
    engine.dispose()
    with serving(folder, dsn, 'mode = "on"\nwaiting = "calibrated"\n') as found:
        yield ["calibrated, first answer after the start", f"{found.answered:.1f} s"]
        yield [
            "calibrated, daemon ready",
            f"{found.start:.1f} s, {found.megabytes:.0f} MB, {found.learnt:,} jobs learnt",
        ]
        yield from answers("answer while it loads", list(found.loading))
        exchanges(found.socket, lines[:WARM])
        yield from answers("answer", exchanges(found.socket, lines, PAUSE)[0])
        storing = get_context("fork").Process(target=store_new, args=(dsn, jobs), daemon=True)
        storing.start()
        yield from answers("answer while new jobs are learnt", exchanges(found.socket, lines, PAUSE)[0])
        storing.kill()
        storing.join()
        new = ask(found.socket, {"op": "status"})["learnt"] - found.learnt
        yield ["new jobs learnt meanwhile", f"{new:,}"]
    predictor, now = make("calibrated"), int(time.time())
    begin = time.process_time()
    with engine.connect() as connection:
        needed = needed_history([predictor.history], now, partial(last_ended_since, connection, now=now))
        for job in read_history(connection, *needed, now):
            predictor.learn(job)
    yield ["calibrated, processor time to load", f"{time.process_time() - begin:.1f} s"]
    yield ["calibrated, pickled state", f"{len(pickle.dumps(predictor)) / 1e6:.0f} MB"]


def answers(what: str, times: list[float]) -> Iterator[list[str]]:
    """Rows for how long answers took, and how many of them took too long for the hook."""
    yield from in_words(what, times)
    late = sum(seconds > DEADLINE for seconds in times)
    yield [f"{what}, later than {DEADLINE * 1000:.0f} ms", f"{late} of {len(times):,}"]


def last_jobs(engine: Engine, count: int) -> list[CompletedJob]:
    """The jobs that ended last."""
    now = int(time.time())
    with engine.connect() as connection:
        since = last_ended_since(connection, count, now)
        return list(read_history(connection, 0, since, now))


def store_new(dsn: str, jobs: list[CompletedJob]) -> None:
    """Store such jobs again and again under other ids, as ended now, ``STORED`` at a time."""
    engine = connect(dsn)
    for number in count(0):
        now, first = int(time.time()), number * STORED % len(jobs)
        new = [
            replace(
                job,
                submission=replace(job.submission, job_id=f"{number}-{place}.new"),
                start=now - job.runtime,
                end=now,
            )
            for place, job in enumerate(jobs[first : first + STORED])
        ]
        with engine.begin() as connection:
            add_jobs(connection, new)
        time.sleep(BETWEEN)


def partitions(engine: Engine, users: list[dict[str, object]]) -> Iterator[list[str]]:
    """The same rows in monthly partitions, with the same indexes but the natural key, which they cannot have."""
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA parts"))
        connection.execute(
            text("CREATE TABLE parts.completed_jobs (LIKE softwalltime.completed_jobs) PARTITION BY RANGE (end_time)")
        )
        first = int(time.time()) - YEARS - 400 * 86400
        for month in range(52):
            begin, end = first + month * 30 * 86400, first + (month + 1) * 30 * 86400
            bounds = f"FROM ({begin}) TO ({end})"
            connection.execute(
                text(f"CREATE TABLE parts.month{month} PARTITION OF parts.completed_jobs FOR VALUES {bounds}")
            )
        for index in ("by_user", "by_project", "pkey", "by_id"):
            definition: str = connection.execute(
                text(f"SELECT pg_get_indexdef('softwalltime.completed_jobs_{index}'::regclass)")
            ).scalar_one()
            definition = definition.replace("UNIQUE ", "").replace(" ON softwalltime.", " ON parts.")
            connection.execute(text(definition))
        begin_at = time.perf_counter()
        connection.execute(text("INSERT INTO parts.completed_jobs SELECT * FROM softwalltime.completed_jobs"))
        yield [
            "partitions: filling them, without the natural key",
            f"{JOBS / (time.perf_counter() - begin_at):,.0f} jobs/s",
        ]
        for name in ("last2", "usage_share", "usage", "percentile"):
            source: str = connection.execute(
                text("SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = :name"), {"name": name}
            ).scalar_one()
            for thing in ("completed_jobs", name, "usage_share"):
                source = source.replace(f"softwalltime.{thing}", f"parts.{thing}")
            connection.exec_driver_sql(source.replace("%", "%%"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE parts.completed_jobs"))
    for name, call in CALLS.items():
        yield [f"partitions: SQL, {name}", latencies(engine, call, users, "parts")]
    with engine.begin() as connection:
        begin_at = time.perf_counter()
        connection.execute(text("DROP TABLE parts.month20"))
        yield ["partitions: dropping a month", f"{(time.perf_counter() - begin_at) * 1000:.0f} ms"]
        connection.execute(text("DROP SCHEMA parts CASCADE"))


def retention(engine: Engine) -> Iterator[list[str]]:
    """Deleting the oldest tenth, in the small transactions in which the daemon does it."""
    days = YEARS // 86400 * 9 // 10
    times, rows = [], 0
    begin = time.perf_counter()
    for name, deleted in RetentionRun(engine, days, int(time.time())):
        if name == "completed_jobs":
            times.append(time.perf_counter() - begin)
            rows += deleted
        begin = time.perf_counter()
    figure = f"{rows / sum(times):,.0f} jobs/s, transactions of {statistics.median(times) * 1000:.0f} ms (median)"
    yield ["pruning the oldest tenth", f"{figure} to {max(times) * 1000:.0f} ms"]
