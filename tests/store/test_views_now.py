"""The views of what waits and runs, and of what has outlived its soft walltime."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, text

from softwalltime.core.jobs import CurrentJob
from softwalltime.store.current import set_current
from tests.samples import job

pytestmark = pytest.mark.postgres

NOW = 0


@pytest.fixture(autouse=True)
def _now() -> None:
    """The time of the test; that of the module's import may be minutes ago."""
    global NOW
    NOW = int(time.time())


def current(job_id: str, start: int | None, soft: int | None, walltime: int | None = 7200) -> CurrentJob:
    of = job("ann", job_id=job_id, submitted=NOW - 9000, walltime=walltime, queue="long", ncpus=8).submission
    return CurrentJob(of, "srv", start, NOW - 9000, None, soft)


@pytest.fixture
def jobs(connection: Connection) -> Connection:
    """One of each kind; whole arrays besides."""
    # In the hour that comes twice in autumn, a datetime of that zone equals none of another zone.
    connection.execute(text("SET LOCAL TIME ZONE 'UTC'"))
    set_current(
        connection,
        [
            current("waits.srv", None, 600),
            current("runs.srv", NOW - 300, 600),
            current("overdue.srv", NOW - 3600, 600),
            current("unlimited.srv", NOW - 3600, 600, None),
            current("plain.srv", NOW - 3600, None),
            current("8[].srv", NOW - 3600, 600),
            current("8[1].srv", NOW - 9000, 600, 10_000),
            current("endless.srv", 10**12 - 1, 10**12 - 1, 10**12 - 1),
        ],
    )
    return connection


def test_each_job_that_waits_or_runs_is_one_line(jobs: Connection) -> None:
    rows = {row.job_id: row for row in jobs.execute(text("SELECT * FROM softwalltime.jobs_now"))}
    assert rows.keys() == {
        "waits.srv", "runs.srv", "overdue.srv", "unlimited.srv", "plain.srv", "8[1].srv", "endless.srv",
    }  # fmt: skip
    waits, runs, plain = rows["waits.srv"], rows["runs.srv"], rows["plain.srv"]
    at = datetime.fromtimestamp(NOW, UTC)
    assert (waits.state, waits.started, waits.expected_end, waits.latest_end) == ("waits", None, None, None)
    assert (waits.server, waits.user_name, waits.project, waits.queue, waits.ncpus) == ("srv", "ann", "p", "long", 8)
    assert (waits.submitted, waits.walltime) == (at - timedelta(seconds=9000), timedelta(hours=2))
    assert (runs.state, runs.started, runs.soft_walltime) == ("runs", at - timedelta(minutes=5), timedelta(minutes=10))
    assert (runs.expected_end, runs.latest_end) == (at + timedelta(minutes=5), at + timedelta(minutes=115))
    assert (plain.soft_walltime, plain.expected_end) == (None, None)
    assert (rows["unlimited.srv"].walltime, rows["unlimited.srv"].latest_end) == (None, None)
    assert rows["endless.srv"].started.year == rows["endless.srv"].latest_end.year == 9999


def test_jobs_beyond_their_soft_walltime_are_listed_with_their_remaining_walltime(jobs: Connection) -> None:
    rows = {row.job_id: row for row in jobs.execute(text("SELECT * FROM softwalltime.jobs_overdue"))}
    assert rows.keys() == {"overdue.srv", "unlimited.srv", "8[1].srv"}
    overdue = rows["overdue.srv"]
    since = timedelta(seconds=time.time() - NOW)
    for found, expected in ((overdue.overdue, 3000), (overdue.killed_in, 3600)):
        assert abs(found - timedelta(seconds=expected)) <= since + timedelta(seconds=2)
    assert overdue.overdue.microseconds == 0
    assert rows["unlimited.srv"].killed_in is None
    assert (overdue.soft_walltime, overdue.walltime) == (timedelta(minutes=10), timedelta(hours=2))
