"""Lag of the store behind the logs."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.service.follow import UNKNOWN_AFTER, Follower
from tests.samples import job
from tests.service.log_helpers import RECORDED, Clock, append
from tests.service.own_postgres import own_postgres
from tests.service.running import Daemon, until

pytestmark = pytest.mark.postgres


def test_the_lag_is_known_from_the_first_measurement(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    assert follower.measure().keys() == {folder / "20261120"}
    assert (follower.behind_bytes, follower.behind_seconds) == (len(RECORDED), 0)
    clock.now += 7
    follower.measure()
    assert follower.behind_seconds == 7
    follower.poll(engine)
    assert (follower.behind_bytes, follower.behind_seconds) == (0, 0)
    append(folder / "20261120", b"x" * 50)
    follower.measure()
    assert follower.behind_bytes == 50
    (folder / "20261120").write_bytes(RECORDED[:1000])
    follower.measure()
    assert follower.behind_bytes == 1000, "all of what was cut off is to be read"


def test_the_lag_is_small_while_a_log_is_written_continuously(folder: Path, engine: Engine) -> None:
    now = 1_795_000_000

    def busy() -> float:
        # The log grows between any two readings of the clock.
        nonlocal now
        now += 1
        append(folder / "20261120", b"11/20/2026 11:00:00;L;license;\n")
        return now

    follower = Follower(folder, clock=busy)
    for _ in range(20):
        follower.poll(engine)
    assert follower.behind_bytes > 0
    assert follower.behind_seconds < 10


def test_the_lag_grows_while_no_poll_ends(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    follower.poll(engine)
    follower.poll(engine)
    clock.now += UNKNOWN_AFTER
    assert follower.behind_seconds == 0
    # No poll ends while PostgreSQL hangs.
    clock.now += 1
    assert follower.behind_seconds == UNKNOWN_AFTER + 1


def test_status_shows_the_lag_while_postgres_is_down(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        daemon = Daemon(tmp_path, postgres.dsn)
        daemon.start()
        try:
            daemon.append([job(job_id="1.srv", end=1_700_000_000)])
            until(lambda: daemon.status()["stored"] == 1)
            until(lambda: daemon.status()["behind_bytes"] == 0)
            postgres.kill()
            daemon.append([job(job_id="2.srv", end=1_700_000_001)])
            until(lambda: daemon.status()["behind_bytes"] > 100)
            first = daemon.status()
            until(lambda: daemon.status()["behind_seconds"] > first["behind_seconds"] + 1)
            daemon.append([job(job_id="3.srv", end=1_700_000_002)])
            until(lambda: daemon.status()["behind_bytes"] > first["behind_bytes"])
            assert daemon.status()["store"] != "ok"
            postgres.start()
            until(lambda: daemon.status()["behind_bytes"] == daemon.status()["behind_seconds"] == 0)
            until(lambda: daemon.status()["store"] == "ok")
            assert daemon.status()["stored"] == 3
        finally:
            daemon.end()
