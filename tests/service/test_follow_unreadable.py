"""Logs and folders that are unreadable or missing for some time."""

import errno
import gzip
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from threading import Event

import pytest
from sqlalchemy import Engine

from softwalltime.core.errors import SourceError, StoreError
from softwalltime.core.states import TEACHING
from softwalltime.service import follow as following
from softwalltime.service.follow import RETRY_INTERVAL_S, UNKNOWN_AFTER, Follower, follow
from tests.service.histories import history, random_plans
from tests.service.log_helpers import RECORDED, Clock, append, command, count_stored, ended, logged_errors
from tests.service.running import until

pytestmark = pytest.mark.postgres


@contextmanager
def nobody() -> Iterator[None]:
    """Run as a user without permission to read root's files."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_without_permission_is_reported_and_read_once_permitted(folder: Path, engine: Engine) -> None:
    folder.chmod(0o700)
    follower = Follower(folder)
    with nobody(), pytest.raises(SourceError, match=r"accounting: Permission denied$"):
        follower.poll(engine)
    assert follower.poll(engine) == 42


def test_an_open_log_that_another_nfs_client_deletes_is_given_up(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NFS then fails with ESTALE, where a local file has a status without links.
    def fstat_of_nfs(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        if status.st_nlink == 0:
            raise OSError(errno.ESTALE, "Stale file handle")
        return status

    fstat = os.fstat
    monkeypatch.setattr(os, "fstat", fstat_of_nfs)
    follower = Follower(folder)
    follower.poll(engine)
    (folder / "20261120").unlink()
    (folder / "20261120.gz").write_bytes(gzip.compress(RECORDED + ended(101)))
    assert follower.poll(engine) == 1
    append(folder / "20261121", ended(102))
    assert follower.poll(engine) == 1


def test_an_error_of_the_logs_while_the_store_is_down_does_not_end_the_thread(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    opened: list[AbstractContextManager[Engine]] = []

    def open_engine() -> AbstractContextManager[Engine]:
        opened.append(nullcontext(engine))
        if len(opened) == 1:
            raise StoreError("PostgreSQL is down")
        stopping.set()
        return opened[-1]

    stopping = Event()
    monkeypatch.setattr(following, "FIRST_RETRY_PAUSE_S", 0.01)
    monkeypatch.setattr(Follower, "measure", fail)
    follow(Follower(folder), open_engine, TEACHING, stopping)
    assert len(opened) == 2


def unreadable(folder: Path, how: str) -> Path:
    """Create a log that cannot be read; return its path."""
    log = folder / "20261119"
    match how:
        case "a folder":
            log.mkdir()
        case "a loop":
            log.symlink_to(log)
        case "nowhere":
            log.symlink_to(folder / "nowhere")
        case "a FIFO":
            os.mkfifo(log)
        case "a device":
            log.symlink_to("/dev/zero")
        case "binary":
            log.write_bytes(bytes(100_000))
        case "a damaged gzip file":
            log = folder / "20261119.gz"
            log.write_bytes(gzip.compress(ended(*range(100, 200)))[:-10])
        case "a trace":
            log.write_text("; UnixStartTime: 0\n" + "1 " * 18 + "\n")
    return log


@pytest.mark.parametrize(
    "how", ["a folder", "a loop", "a damaged gzip file", "a trace", "a FIFO", "a device", "binary"]
)
def test_an_unreadable_log_is_retried_and_the_others_are_read(
    how: str, folder: Path, engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    log = unreadable(folder, how)
    follower = Follower(folder, clock=clock)
    assert follower.poll(engine) >= 42
    for _ in range(5):
        clock.now += RETRY_INTERVAL_S / 10
        assert follower.poll(engine) == 0
    assert len(logged_errors(caplog)) == 1
    assert logged_errors(caplog)[0].startswith(str(log))
    # The other logs are still followed.
    append(folder / "20261120", ended(501))
    assert follower.poll(engine) == 1
    clock.now += RETRY_INTERVAL_S
    assert follower.poll(engine) == 0
    assert len(logged_errors(caplog)) == 1
    assert [*follower.broken] == [log]
    assert follower.behind_bytes == 0
    log.unlink() if not log.is_dir() else log.rmdir()
    assert follower.poll(engine) == 0
    assert follower.broken == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_log_without_permission_is_read_once_permitted_and_other_logs_at_once(
    folder: Path, engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = folder / "20261119"
    secret.write_bytes(ended(101))
    secret.chmod(0o600)
    for parent in (folder, *folder.parents):
        parent.chmod(parent.stat().st_mode | 0o055)
    engine.connect().close()
    follower = Follower(folder, clock=clock)
    with nobody():
        assert follower.poll(engine) == 42
        assert logged_errors(caplog) == [f"{secret}: Permission denied"]
    # Size and time are unchanged: only another attempt shows the new permission.
    secret.chmod(0o644)
    assert follower.poll(engine) == 0
    clock.now += RETRY_INTERVAL_S
    assert follower.poll(engine) == 1


def test_a_truncated_gzip_file_is_continued_once_it_is_complete(folder: Path, engine: Engine) -> None:
    content = b"".join(line + b"\n" for line in history(random_plans(Random(1), 3000, 86400)))
    log = folder / "20261119.gz"
    log.write_bytes(gzip.compress(content)[:-3000])
    follower = Follower(folder)
    before = follower.poll(engine)
    assert before > 42
    log.write_bytes(gzip.compress(content))
    assert follower.poll(engine) > 0
    assert follower.tally.lines == content.count(b"\n") + RECORDED.count(b"\n")


def test_a_dangling_link_is_ignored_until_its_target_exists(folder: Path, engine: Engine) -> None:
    log = unreadable(folder, "nowhere")
    follower = Follower(folder)
    assert follower.poll(engine) == 42
    assert follower.broken == {}
    log.resolve().write_bytes(ended(101))
    assert follower.poll(engine) == 1


def test_following_continues_after_the_folder_was_missing(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    follower.poll(engine)
    folder.rename(folder.parent / "away")
    clock.now += UNKNOWN_AFTER / 2
    with pytest.raises(SourceError, match=r"accounting: No such file"):
        follower.poll(engine)
    assert follower.behind_seconds == 0
    clock.now += 60
    # An empty mount point in its place is an error too.
    folder.mkdir()
    with pytest.raises(SourceError, match="no accounting log"):
        follower.poll(engine)
    assert follower.behind_seconds > 60
    folder.rmdir()
    (folder.parent / "away").rename(folder)
    append(folder / "20261120", ended(101))
    assert follower.poll(engine) == 1
    assert (follower.behind_seconds, follower.tally.lines) == (0, RECORDED.count(b"\n") + 1)


def test_the_process_waits_for_a_missing_folder(folder: Path, database: str, engine: Engine) -> None:
    with command(folder, database) as output:
        until(lambda: count_stored(engine) == 42)
        folder.rename(folder.parent / "away")
        until(lambda: "No such file" in output.read_text())
        time.sleep(1)
        append(folder.parent / "away" / "20261120", ended(101))
        (folder.parent / "away").rename(folder)
        until(lambda: count_stored(engine) == 43)
        until(lambda: "reading again after an error" in output.read_text())
    assert output.read_text().count("No such file") == 1
