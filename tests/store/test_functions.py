"""The SQL functions: what they say in cases done by hand, and that they read no more than they need."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError

from softwalltime.core.jobs import NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.store.completed_jobs import vacuum_analyze
from tests.samples import job
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres


def _call(connection: Connection, call: str) -> float | None:
    result: float | None = connection.execute(text(f"SELECT softwalltime.{call}")).scalar_one()
    return result


@pytest.fixture
def jobs(connection: Connection) -> Connection:
    """Alice ran for 100, 300 and 60 s; the job at 50 never ran, the one at 40 had no walltime."""
    add_jobs(
        connection,
        [
            job(job_id="1", end=10, runtime=100, walltime=1000),
            job(job_id="2", end=20, runtime=300, walltime=1000),
            job(job_id="3", end=30, runtime=60, walltime=50),
            job(job_id="4", end=40, runtime=500, walltime=None),
            job(job_id="5", end=50, runtime=0, walltime=1000),
            job(user="bob", job_id="6", end=60, runtime=7000, walltime=7000),
        ],
    )
    return connection


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("last2('alice', 9)", None),
        ("last2('alice', 10)", 100),
        ("last2('alice', 25)", 200),
        ("last2('alice', 30)", 180),
        # A job without walltime teaches these too; one that never ran teaches nothing.
        ("last2('alice', 100)", 280),
        ("last2('carol', 100)", None),
        ("last2_plus('alice', 25)", 1100),
        ("last2_plus('alice', 25, 60)", 260),
        ("last2_plus('carol', 25)", None),
        ("usage('alice', 2000, 9)", None),
        ("usage('alice', 2000, 25)", 1500),
        ("usage('alice', 2000, 100)", 3300),
        ("usage('alice', NULL, 100)", None),
        ("usage('alice', 0, 100)", None),
        ("usage_long('alice', 2000, 100)", 2900),
        ("usage_long('alice', 86400, 25)", 0.3 * 86400 + 900),
        ("usage_long('alice', 100000, 25)", 60900),
        ("usage_long('carol', 2000, 25)", None),
        ("usage_long('alice', NULL, 100)", None),
        ("percentile('alice', 'p', 1000, 100, at_least => 3)", None),
        ("percentile('alice', 'p', 1000, 100, at_least => 2, p => 50)", 200),
        ("percentile('alice', 'p', 1000, 100, at_least => 2, p => 100)", 300),
        ("percentile('alice', 'p', 1000, 100, at_least => 2, p => 50, threshold => 0.5)", 500),
        ("percentile('alice', 'p', 1000, 100, at_least => 4, threshold => 0.5)", None),
        ("percentile('alice', 'p', 2000, 100, 50, 'user', at_least => 3)", 600),
        ("percentile('alice', 'p', 2000, 100, 50, 'user+project', at_least => 3)", 600),
        ("percentile('alice', 'q', 2000, 100, 50, 'user+project', at_least => 1)", None),
        ("percentile('carol', 'p', 2000, 100, 0, 'project', at_least => 4)", 200),
        ("percentile('alice', 'p', NULL, 100, 50, 'user', at_least => 3)", None),
        # The window's first second belongs to it.
        ("percentile('alice', 'p', 1000, 30, 0, 'user', 20, at_least => 3)", 100),
        ("percentile('alice', 'p', 1000, 30, 0, 'user', 19, at_least => 2)", 300),
        ("predict('v1', 'alice', 'p', 2000, 25)", 200),
        ("predict('last2+900', 'alice', 'p', 2000, 25)", 1100),
        ("predict('usage', 'alice', 'p', 2000, 25)", 1500),
        ("predict('v4', 'alice', 'p', 100000, 25)", 60900),
        ("predict('percentile', 'alice', 'p', 2000, 25)", None),
    ],
)
def test_by_hand(jobs: Connection, call: str, expected: float | None) -> None:
    assert _call(jobs, call) == expected


def test_of_jobs_that_end_at_once_the_one_that_became_known_last_is_the_last(connection: Connection) -> None:
    add_jobs(connection, [job(job_id=str(runtime), end=10, runtime=runtime) for runtime in (1, 2, 4)])
    assert _call(connection, "last2('alice', 10)") == 3


def test_fifteen_jobs_count_for_usage(connection: Connection) -> None:
    add_jobs(connection, [job(job_id="0", end=0, runtime=900), job(job_id="1", end=1, runtime=500)])
    add_jobs(connection, [job(job_id=str(end), end=end, runtime=100) for end in range(2, 16)])
    assert _call(connection, "usage('alice', 1000, 100)") == 1400


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            "predict('v9', 'alice', 'p', 1000, 0)",
            r"no predictor in SQL is called 'v9'\nHINT:  Known predictors: last2 \(v1\)",
        ),
        (
            "percentile('alice', 'p', 1000, 0, 85, 'user+walltime')",
            r"unknown keys 'user\+walltime'\nHINT:  Known keys: user, ",
        ),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(jobs: Connection, call: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        _call(jobs, call)


@pytest.mark.parametrize("seconds", [None, "NaN", "-Infinity", "Infinity", 0, 59.9, 60, 60.1, 99.5, 999.5, 1000, 5000])
@pytest.mark.parametrize("walltime", [None, -1, 0, 30, 60, 61, 100, 1000])
@pytest.mark.parametrize("shrink_to_fit", [True, False])
def test_the_soft_walltime_is_policy_s(
    module_engine: Engine, seconds: object, walltime: int | None, shrink_to_fit: bool
) -> None:
    prediction = NoPrediction(Reason.BASELINE) if seconds is None else Prediction(float(str(seconds)), "")
    submission = Submission("1", "alice", 0, walltime, min_walltime=1 if shrink_to_fit else None)
    query = text("SELECT softwalltime.soft_walltime(CAST(:seconds AS float), :walltime, 60, :shrink_to_fit)")
    values = {"seconds": seconds, "walltime": walltime, "shrink_to_fit": shrink_to_fit}
    with module_engine.connect() as connection:
        assert connection.execute(query, values).scalar_one() == soft_walltime(prediction, submission)


@pytest.fixture(scope="module")
def large(module_engine: Engine) -> Iterator[Connection]:
    """60,000 jobs of 300 users in 60 days; vacuumed, as a store is that has been in use."""
    with module_engine.begin() as connection:
        many = [
            replace(
                job(f"user{number % 300}", end=number * 86, runtime=1 + number % 100, walltime=100 * (1 + number % 7)),
                start=number,
            )
            for number in range(60_000)
        ]
        many = [replace(each, submission=replace(each.submission, project=f"p{n % 20}")) for n, each in enumerate(many)]
        add_jobs(connection, many)
    vacuum_analyze(module_engine)
    with module_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
        connection.execute(text("TRUNCATE softwalltime.completed_jobs"))


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("last2('user7', 4000000)", 3),
        ("last2_plus('user7', 4000000)", 3),
        ("usage('user7', 700, 4000000)", 16),
        ("usage_long('user7', 700, 4000000)", 16),
        # The user's 200 jobs, of which 100 ended in the last 30 days before.
        ("percentile('user7', 'p7', 100, 4000000, at_least => 1)", 110),
        ("percentile('user7', 'p7', 100, 4000000, 85, 'user')", 110),
        ("percentile('user7', 'p7', 100, 4000000, 85, 'user+project')", 110),
        ("percentile('user7', 'p7', 100, 4000000, 85, 'project')", 1600),
        ("predict('v3', 'user7', 'p7', 700, 4000000)", 16),
    ],
)
def test_predictions_read_an_index_and_only_what_they_need(large: Connection, call: str, rows: int, plans: str) -> None:
    # PostgreSQL's statistics count the work of a function; EXPLAIN would show only the call.
    counted = text("""
        SELECT seq_scan, coalesce(idx_scan, 0), coalesce(idx_tup_fetch, 0),
            (SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = relid)
        FROM pg_stat_xact_user_tables WHERE relid = 'softwalltime.completed_jobs'::regclass
    """)
    large.execute(text("BEGIN"))
    try:
        large.execute(text(f"SET LOCAL plan_cache_mode = {plans}"))
        before = large.execute(counted).one()
        assert _call(large, call) is not None
        after = large.execute(counted).one()
    finally:
        large.execute(text("ROLLBACK"))
    sequential, by_index, fetched, returned = (now - then for now, then in zip(after, before, strict=True))
    assert sequential == 0
    assert by_index >= 1
    # The index contains all values: no row of the table is read.
    assert fetched == 0
    assert 1 <= returned <= rows


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(("call", "rows"), [("last2('ties', 4000000)", 20), ("usage('ties', 700, 4000000)", 50)])
def test_jobs_that_ended_in_one_second_are_read_alone(large: Connection, call: str, rows: int, plans: str) -> None:
    """They are distinguished by job id, which the table has; a user may have a million other jobs."""
    counted = text("""
        SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
        WHERE relid = 'softwalltime.completed_jobs'::regclass
    """)
    large.execute(text("BEGIN"))
    try:
        many = [job("ties", job_id=f"{n}.ties", end=n // 4 * 1000, runtime=1 + n) for n in range(2000)]
        add_jobs(large, many)
        large.execute(text(f"SET LOCAL plan_cache_mode = {plans}"))
        # However the planner sorts them.
        large.execute(text("SET LOCAL enable_incremental_sort = off"))
        before = large.execute(counted).scalar_one()
        assert _call(large, call) is not None
        assert 0 < large.execute(counted).scalar_one() - before <= rows
    finally:
        large.execute(text("ROLLBACK"))


def test_a_window_of_time_is_read_by_an_index(large: Connection) -> None:
    query = "SELECT * FROM softwalltime.completed_jobs WHERE end_time >= 5000000 ORDER BY end_time, id"
    plan = "".join(large.execute(text(f"EXPLAIN {query}")).scalars())
    assert "completed_jobs_pkey" in plan
    assert "Seq Scan" not in plan
