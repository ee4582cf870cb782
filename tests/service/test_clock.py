"""The host's clock is set years forward and back; the daemon deletes nothing and continues."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.core.settings import Settings
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service import worker
from softwalltime.service.daemon import PredictionDaemon
from tests.samples import job
from tests.service.running import until
from tests.store.stored import add_jobs, count_jobs

pytestmark = pytest.mark.postgres
NOW = int(time.time())
YEARS = 4 * 365 * 86400
JOBS = 200


@dataclass
class Clocks:
    """The host's clock and the monotonic clock, which a test sets."""

    passed: float = 0.0
    set_by: float = 0.0

    def time(self) -> float:
        return NOW + self.passed + self.set_by

    def monotonic(self) -> float:
        return self.passed


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def daemon(
    tmp_path: Path, database: str, engine: Engine, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PredictionDaemon]:
    """A daemon with jobs of the last hour in its store."""
    monkeypatch.setattr(worker, "POLL_INTERVAL_S", 0.05)
    with engine.begin() as connection:
        add_jobs(connection, [job(job_id=str(n), submitted=NOW - 9000, end=NOW - n, runtime=600) for n in range(JOBS)])
    settings = Settings(dsn=database, socket=tmp_path / "s", keep_days=10, refresh_seconds=600)
    policy = SitePolicy(mode="on", waiting="percentile:keys=user,p=100")
    daemon = PredictionDaemon(settings, policy, "1", clocks.time, clocks.monotonic)
    daemon.start()
    until(lambda: daemon.status().ready)
    yield daemon
    daemon.stop()
    daemon.server.close()


def test_a_clock_years_in_the_future_deletes_nothing_and_is_reported(
    daemon: PredictionDaemon, clocks: Clocks, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clocks.set_by = YEARS
    clocks.passed += worker.HOUR
    until(lambda: daemon.status().retention != "ok")
    assert "the clock says 20" in daemon.status().retention
    assert sum("retention deletes nothing by age" in record.message for record in caplog.records) == 1
    assert daemon.worker.pruned == 0
    with engine.connect() as connection:
        assert count_jobs(connection) == JOBS
    # One hour later the clock is correct again.
    clocks.set_by = 0
    clocks.passed += worker.HOUR
    until(lambda: daemon.status().retention == "ok")


def test_refreshes_and_uptime_continue_after_the_clock_went_back(daemon: PredictionDaemon, clocks: Clocks) -> None:
    clocks.set_by = YEARS
    clocks.passed += 700
    until(lambda: daemon.status().refreshed > NOW + YEARS)
    clocks.set_by = 0
    clocks.passed += 700
    until(lambda: 0 < daemon.status().refreshed < NOW + YEARS)
    assert daemon.status().uptime == 1400


def test_predictions_continue_after_the_clock_went_forward_and_back(daemon: PredictionDaemon, clocks: Clocks) -> None:
    line = b'{"v":1,"op":"explain","job":{"user":"alice","walltime":3600}}'
    assert b'"action":"set"' in daemon.handler.answer(line)
    # Loaded as of then, the history of the last days is empty.
    clocks.set_by = YEARS
    until(lambda: daemon.status().learnt == 0)
    clocks.set_by = 0
    until(lambda: daemon.status().learnt == JOBS)
    assert b'"action":"set"' in daemon.handler.answer(line)
