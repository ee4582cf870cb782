"""The daemon's queries of completed_jobs use an index, by PostgreSQL's statistics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine, text

from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import end_record, queue_record, start_record
from softwalltime.core.jobs import CompletedJob
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.completed_jobs import vacuum_analyze
from softwalltime.store.connections import connect
from softwalltime.store.forecast_rows import FORGOTTEN_AFTER_S, StoredStart, judge_starts, publish_starts
from softwalltime.store.learning_jobs import LastJob, last_ended_since, last_job, read_history, read_new
from softwalltime.store.retention import RetentionRun
from tests.samples import job
from tests.service.running import until
from tests.store.monitored import HOUR, NOW, decision, ended, fresh, rows, store
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

JOBS = 60_000
STEP = 86
_numbers = count()
SCANS = text("SELECT seq_scan FROM pg_stat_user_tables WHERE relid = 'softwalltime.completed_jobs'::regclass")


def numbered(number: int) -> CompletedJob:
    end = number * STEP + 1000
    some = job(f"user{number % 300}", job_id=f"{number}.srv", submitted=end - 500, end=end, runtime=1 + number % 100)
    return replace(some, server="srv", submission=replace(some.submission, queue="q", job_name="j"))


@pytest.fixture(scope="module")
def large(module_engine: Engine) -> Iterator[Engine]:
    """A store that has been in use."""
    with module_engine.begin() as connection:
        add_jobs(connection, [numbered(number) for number in range(JOBS)])
    vacuum_analyze(module_engine)
    yield module_engine
    with module_engine.begin() as connection:
        connection.execute(text("TRUNCATE softwalltime.completed_jobs, softwalltime.log_positions"))


@contextmanager
def counted(engine: Engine) -> Iterator[Engine]:
    """An engine whose statements are in PostgreSQL's statistics: a connection reports them when it ends."""
    dsn = engine.raw_connection().driver_connection.info.dsn
    name = f"counted {next(_numbers)}"
    own = connect(make_conninfo(dsn, application_name=name))
    yield own
    own.dispose()

    def gone() -> bool:
        with engine.connect() as connection:
            there = text("SELECT FROM pg_stat_activity WHERE application_name = :name")
            return connection.execute(there, {"name": name}).first() is None

    until(gone)


@contextmanager
def by_index(engine: Engine) -> Iterator[Engine]:
    """An engine, and no sequential scan of completed_jobs by all that is done with it."""
    with engine.connect() as connection:
        before = connection.execute(SCANS).scalar_one()
    with counted(engine) as own:
        yield own
    with engine.connect() as connection:
        assert connection.execute(SCANS).scalar_one() == before


def test_a_sequential_scan_would_be_seen(large: Engine) -> None:
    with pytest.raises(AssertionError), by_index(large) as engine, engine.connect() as connection:
        connection.execute(text("SELECT max(cput) FROM softwalltime.completed_jobs")).one()


READERS: dict[str, Callable[[Engine], object]] = {}


def reader(read: Callable[[Engine], object]) -> Callable[[Engine], object]:
    READERS[read.__name__] = read
    return read


@reader
def the_newest_id(engine: Engine) -> object:
    with engine.connect() as connection:
        return last_job(connection).id


@reader
def what_is_new(engine: Engine) -> object:
    with engine.connect() as connection:
        return list(read_new(connection, LastJob(last_job(connection).id - 5)))


@reader
def the_last_jobs_of_each_user(engine: Engine) -> object:
    with engine.connect() as connection:
        return list(read_history(connection, 2, None, JOBS * STEP))


@reader
def the_last_jobs_of_each_user_and_all_of_a_month(engine: Engine) -> object:
    with engine.connect() as connection:
        return list(read_history(connection, 15, (JOBS - 500) * STEP, JOBS * STEP))


@reader
def since_when_the_last_jobs_ended(engine: Engine) -> object:
    with engine.connect() as connection:
        return last_ended_since(connection, 1000, JOBS * STEP)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_the_daemon_reads_it_reads_by_an_index(large: Engine, read: Callable[[Engine], object]) -> None:
    with by_index(large) as engine:
        assert read(engine)


def test_jobs_of_all_servers_are_read_only_if_a_forecast_may_be_forgotten(large: Engine) -> None:
    """The newest end of a server without jobs is found only after those of all others have been read."""
    table = "pg_stat_user_tables WHERE relid = 'softwalltime.completed_jobs'::regclass"
    reads = text(f"SELECT seq_tup_read + idx_tup_fetch FROM {table}")
    now = JOBS * STEP
    start = StoredStart(
        "waits.new", now - 1000, now + 60, now, now, now + 90, now + 90, None, 60, 1, "ann", "g", "p", "q", "why"
    )
    gone, read = replace(start, job_id="gone.new"), []
    # Of the new server a job waits still; then one has left the queue.
    for waiting in ([start], [gone], []):
        with large.begin() as connection:
            publish_starts(connection, "new", waiting, now - 3 * FORGOTTEN_AFTER_S, 600)
        with large.connect() as connection:
            before = connection.execute(reads).scalar_one()
        with counted(large) as engine, engine.begin() as connection:
            judge_starts(connection, "new", now)
        with large.connect() as connection:
            read.append(connection.execute(reads).scalar_one() - before)
    # The planner reads both ends of the index.
    assert read[0] < 10
    assert read[-1] > 1000
    with large.begin() as connection:
        connection.execute(text("TRUNCATE softwalltime.start_times, softwalltime.expected_starts"))


def test_what_is_new_in_a_log_is_stored_by_indexes_alone(large: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    stamp = "11/20/2026 10:00:00"

    def records(numbers: range, *, ended: bool) -> str:
        found = []
        for some in map(numbered, numbers):
            of = some.submission.job_id
            found.append(f"{stamp};Q;{of};{queue_record(some)}\n{stamp};S;{of};{start_record(some)}\n")
            if ended:
                found.append(f"{stamp};E;{of};{end_record(some)}\n")
        return "".join(found)

    with by_index(large) as engine:
        # Some that run; some that completed; some that were known already, or were read before.
        for content in (
            records(range(JOBS, JOBS + 300), ended=False),
            records(range(JOBS, JOBS + 200), ended=True),
            records(range(900, 1200), ended=True),
            records(range(700), ended=False),
        ):
            with log.open("a") as stream:
                stream.write(content)
            ingest_logs(engine, [log], Tally())
    with large.connect() as connection:
        count = "SELECT count(*) FROM softwalltime.current_jobs"
        assert connection.execute(text(count)).scalar_one() == 100


def test_rows_to_prune_are_found_by_an_index(large: Engine) -> None:
    with by_index(large) as engine:
        deleted = sum(rows for _, rows in RetentionRun(engine, 54, JOBS * STEP + 1000))
    assert deleted > 4000


READ = text("""
    SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables
    WHERE relid = 'softwalltime.predictions'::regclass
""")


@pytest.mark.parametrize("submission", ["postqueuejob", "queuejob"])
def test_the_figures_of_a_day_read_each_jobs_prediction_and_not_all_that_were_made_while_it_waited(
    engine: Engine, submission: str
) -> None:
    """All wait for an hour beside each other; where submissions have no id, starts have."""
    count = 1500
    jobs = [ended(f"{number}.srv", start=NOW - HOUR - number, user=f"u{number % 9}") for number in range(count)]
    decisions = []
    for each in jobs:
        made = decision(at=each.submission.submitted, event=submission)
        of = each.submission if submission == "postqueuejob" else replace(each.submission, job_id="")
        decisions.append(replace(made, submission=of))
        if submission == "queuejob":
            decisions.append(replace(made, at=each.start, event="runjob", submission=each.submission))
    store(engine, jobs, decisions)
    vacuum_analyze(engine)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE softwalltime.predictions"))
        before = connection.execute(READ).scalar_one()
    with counted(engine) as own:
        fresh(own)
    with engine.connect() as connection:
        assert rows(connection, "SELECT sum(asked * jobs) AS asked FROM softwalltime.coverage")[0]["asked"] == count
        assert connection.execute(READ).scalar_one() - before < 50 * count
