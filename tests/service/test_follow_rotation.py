"""Following of logs that are rotated, gzipped, truncated and replaced."""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.accounting import daily_files
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SourceError
from softwalltime.service.follow import MAX_OPEN_LOGS, Follower
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.reading import KnownPositions, new_blocks
from tests.service.log_helpers import RECORDED, append, count_stored, ended

pytestmark = pytest.mark.postgres


def test_a_log_is_gzipped_and_its_plain_file_is_deleted(folder: Path, engine: Engine) -> None:
    plain, packed = folder / "20261120", folder / "20261120.gz"
    follower = Follower(folder)
    follower.poll(engine)
    lines = follower.tally.lines
    content = gzip.compress(RECORDED + ended(101))
    # gzip writes in pieces and then deletes the plain file, to which one more record was appended here.
    packed.write_bytes(content[:500])
    assert follower.poll(engine) == 0
    append(plain, ended(101))
    packed.write_bytes(content)
    assert follower.poll(engine) == 1
    plain.unlink()
    assert follower.poll(engine) == 0
    assert follower.tally.lines == lines + 1
    # A later follower that has only the gzipped file does not read it again either.
    later = Follower(packed)
    assert later.poll(engine) == 0
    assert (later.tally.lines, later.tally.broken) == (0, [])


def test_a_gzipped_log_that_was_read_is_not_decompressed_again(folder: Path, engine: Engine) -> None:
    packed = folder / "20261119.gz"
    content = bytearray(gzip.compress(ended(*range(1000, 2000))))
    packed.write_bytes(content)
    Follower(folder).poll(engine)
    # Whoever decompresses it finds damage.
    content[-2000:-1900] = bytes(100)
    packed.write_bytes(content)
    later = Follower(folder)
    later.poll(engine)
    assert later.broken == {}
    # A log that has grown is read.
    packed.write_bytes(gzip.compress(ended(*range(1000, 2001))))
    assert later.poll(engine) == 1


def test_a_truncated_log_is_read_from_its_start_and_nothing_is_stored_twice(folder: Path, engine: Engine) -> None:
    log = folder / "20261120"
    follower = Follower(folder)
    follower.poll(engine)
    kept = b"".join(RECORDED.splitlines(keepends=True)[:90])
    log.write_bytes(kept)
    assert follower.poll(engine) == 0
    append(log, ended(101))
    assert follower.poll(engine) == 1
    assert count_stored(engine) == 43
    assert follower.behind_bytes == 0


def test_a_truncated_log_that_grew_beyond_its_old_size_is_read_from_its_start(folder: Path, engine: Engine) -> None:
    log = folder / "20261120"
    follower = Follower(folder)
    follower.poll(engine)
    kept = b"".join(RECORDED.splitlines(keepends=True)[:90])
    more = ended(*range(100, 300))
    assert len(kept + more) > len(RECORDED)
    log.write_bytes(kept + more)
    # Reading from the old position would miss the records before it.
    assert follower.poll(engine) == 200
    assert count_stored(engine) == 242


@pytest.mark.parametrize("replaced", ["by another log", "by itself", "by an older copy", "and put back"])
def test_a_log_is_replaced(replaced: str, folder: Path, engine: Engine, tmp_path: Path) -> None:
    log, other = folder / "20261120", tmp_path / "other"
    follower = Follower(folder)
    follower.poll(engine)
    older = Path(shutil.copy2(log, tmp_path / "older"))
    append(log, ended(101))
    assert follower.poll(engine) == 1
    match replaced:
        case "by another log":
            other.write_bytes(ended(*range(200, 700)))
            other.replace(log)
            assert follower.poll(engine) == 500
        case "by itself":
            shutil.copy2(log, other)
            other.replace(log)
            lines = follower.tally.lines
            assert follower.poll(engine) == 0
            assert follower.tally.lines == lines
        case "by an older copy":
            older.replace(log)
            assert follower.poll(engine) == 0
            append(log, ended(102, 103))
            assert follower.poll(engine) == 2
        case _:
            log.rename(tmp_path / "away")
            with pytest.raises(SourceError, match="holds no accounting log"):
                follower.poll(engine)
            (tmp_path / "away").rename(log)
            assert follower.poll(engine) == 0
    append(log, ended(900))
    assert follower.poll(engine) == 1


@pytest.mark.parametrize("place", ["20261120.old", "20261119", "../old/20261120", "../old/log"])
@pytest.mark.parametrize("again", ["nothing", "another log", "an empty log"])
def test_the_rest_of_a_log_that_is_renamed_right_after_its_last_write_is_read(
    folder: Path, engine: Engine, tmp_path: Path, place: str, again: str
) -> None:
    log = folder / "20261120"
    (folder.parent / "old").mkdir()
    (folder / "20261118").write_bytes(ended(77))
    follower = Follower(folder)
    assert follower.poll(engine) == 43
    append(log, ended(101))
    assert follower.poll(engine) == 1
    lines = follower.tally.lines
    append(log, ended(102))
    log.rename(folder / place)
    if again != "nothing":
        log.write_bytes(ended(200) if again == "another log" else b"")
    new = again == "another log"
    assert follower.poll(engine) == 1 + new
    assert follower.tally.lines == lines + 1 + new
    assert follower.behind_bytes == 0
    # The writer may still have the renamed file open.
    append(folder / place, ended(103))
    assert follower.poll(engine) == 1
    assert follower.tally.lines == lines + 2 + new
    assert follower.poll(engine) == 0
    assert (follower.behind_bytes, follower.behind_seconds, follower.tally.broken) == (0, 0, [])


def test_a_deleted_log_is_closed(folder: Path, engine: Engine) -> None:
    log = folder / "20261120"
    (folder / "20261118").write_bytes(ended(77))
    follower = Follower(folder)
    follower.poll(engine)
    log.unlink()
    for number in range(MAX_OPEN_LOGS):
        assert follower.poll(engine) == 0
        (folder / f"2026112{number}").write_bytes(ended(100 + number))
        assert follower.poll(engine) == 1
    assert f"{log} (deleted)" not in subprocess.check_output(["ls", "-l", f"/proc/{os.getpid()}/fd"], text=True)


def test_a_log_that_grows_and_is_renamed_while_it_is_read_is_read_to_its_end(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 5000)
    log, tally = folder / "20261120", Tally()
    blocks = new_blocks(KnownPositions(engine), [log], tally, "", lambda _: None)
    read = [next(blocks)]
    append(log, ended(101))
    log.rename(folder.parent / "rotated")
    (folder / "20261120").write_bytes(b"another")
    read += blocks
    content = b"".join(line + b"\n" for block, _ in read for line in block.lines)
    assert content == RECORDED + ended(101)
    assert (tally.files, tally.broken, tally.unfinished) == (1, [], [])


def test_a_log_that_is_deleted_before_it_is_read_is_reported_without_an_error(engine: Engine, folder: Path) -> None:
    tally = Tally()
    assert ingest_logs(engine, [folder / "20261101", folder / "20261120"], tally) == (42, 0)
    assert [str(error) for error in tally.broken] == [f"{folder}/20261101: No such file or directory"]
