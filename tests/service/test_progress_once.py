"""Each line is counted and each malformed line is logged exactly once, whatever happens while the log is read."""

import logging
import shutil
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event

from softwalltime.service import reading
from softwalltime.service.follow import Follower
from softwalltime.store.logs import read_malformed
from tests.samples import RECORDED_LOG

pytestmark = pytest.mark.postgres

LINES = RECORDED_LOG.read_bytes().count(b"\n")


def logged_malformed(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the malformed lines in the log output."""
    return [message for message in caplog.messages if message.startswith("malformed: ")]


def test_a_log_that_is_empty_when_it_is_opened_and_grows_at_once(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "20261120"
    log.touch()
    server_of = reading._server

    def growing(first: bytes) -> str:
        # PBS writes just after its beginning was read, and before its lines are.
        if not log.stat().st_size:
            log.write_bytes(RECORDED_LOG.read_bytes() + b"rubbish\n")
        return server_of(first)

    monkeypatch.setattr(reading, "_server", growing)
    follower = Follower(log)
    with caplog.at_level(logging.WARNING):
        assert sum(follower.poll(engine) for _ in range(3)) == 42
    assert (follower.tally.lines, follower.tally.malformed) == (LINES + 1, 1)
    assert len(logged_malformed(caplog)) == 1
    with engine.connect() as connection:
        (kept,) = read_malformed(connection)
    assert kept.server == "pbs1"


def test_what_was_committed_before_the_store_failed_is_reported_once(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("softwalltime.service.ingest.MAX_BATCH_LINES", 1)
    for day in ("20261119", "20261120"):
        shutil.copy(RECORDED_LOG, tmp_path / day)
        with (tmp_path / day).open("a") as log:
            log.write(f"rubbish of {day}\n")
    commits: list[Connection] = []

    def fail_the_second_time(connection: Connection) -> None:
        commits.append(connection)
        if len(commits) == 2:
            raise ConnectionError("PostgreSQL is gone")

    event.listen(engine, "commit", fail_the_second_time)
    follower = Follower(tmp_path)
    with caplog.at_level(logging.WARNING):
        with pytest.raises(ConnectionError):
            follower.poll(engine)
        assert (follower.tally.lines, follower.tally.malformed, follower.tally.stored) == (LINES + 1, 1, 42)
        follower.poll(engine)
    assert (follower.tally.lines, follower.tally.malformed) == (2 * (LINES + 1), 2)
    assert follower.tally.stored == 42
    assert len(logged_malformed(caplog)) == len(set(logged_malformed(caplog))) == 2
