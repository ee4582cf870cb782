"""Reading of whole logs: the recorded log, malformed lines, and damaged files."""

import gzip
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting import daily_files
from softwalltime.accounting.daily_files import Block, blocks, log_files
from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import opened
from softwalltime.accounting.reader import pbs_batch, read_jobs
from softwalltime.accounting.recognition import trace_format
from softwalltime.accounting.tally import MAX_KEPT_LINES, Tally
from softwalltime.core.errors import SourceError
from tests.samples import RECORDED_LOG


def read(*paths: Path) -> tuple[list[str], Tally]:
    tally = Tally()
    return [job.submission.job_id for job in read_jobs(paths, tally)], tally


def test_the_recorded_log_is_read_to_the_last_record() -> None:
    tally = Tally()
    jobs = list(read_jobs([RECORDED_LOG], tally))
    assert (tally.lines, tally.malformed, tally.array_parents) == (168, 0, 4)
    assert tally.other == Counter({"S": 47, "Q": 46, "a": 15, "D": 9, "B": 1, "K": 1, "U": 1, "Y": 1})
    assert tally.interrupted == 1
    assert len(jobs) == tally.jobs == 42
    by_id = {job.submission.job_id: job for job in jobs}
    assert by_id["6.pbs1"].submission.account == 'chem grant; 2026 "x=1"'
    assert by_id["7.pbs1"].submission.shrink_to_fit
    assert by_id["1.pbs1"].submission.walltime is None
    assert by_id["32.pbs1"].soft_walltime == 9_999_999
    rerun = [job for job in jobs if (job.run_count or 0) > 1]
    assert rerun, "the log holds a job that was run again"


@pytest.mark.parametrize(
    ("job_id", "jobs"),
    [("1166970[].srv", 0), ("5[].pbs1", 0), ("12[]", 0), ("5[4].pbs1", 1), ("5.pbs1", 1), ("12", 1)],
)
def test_job_arrays_are_recognised_by_their_id(tmp_path: Path, job_id: str, jobs: int) -> None:
    log = tmp_path / "20261120"
    log.write_text(f"11/20/2026 10:16:10;E;{job_id};user=bob ctime=100 qtime=100 etime=100 start=110 end=200\n")
    _, tally = read(log)
    assert (tally.jobs, tally.array_parents) == (jobs, 1 - jobs)


def test_the_logs_of_a_folder_are_its_daily_files_in_order_gzipped_or_not(tmp_path: Path) -> None:
    first, second = RECORDED_LOG.read_bytes().split(b"11/20/2026 10:21", 1)
    (tmp_path / "20261121").write_bytes(b"11/20/2026 10:21" + second)
    (tmp_path / "20261120.gz").write_bytes(gzip.compress(first))
    (tmp_path / "20261121.gz").write_bytes(b"half written by gzip, beside its plain file")
    (tmp_path / "notes.txt").write_text("not a log")
    assert [file.name for file in log_files(tmp_path)] == ["20261120.gz", "20261121"]
    assert read(*log_files(tmp_path))[0] == read(RECORDED_LOG)[0]


def test_the_paths_of_a_folder_are_made_once(tmp_path: Path) -> None:
    # For thousands of logs new paths at each poll took 80 ms of processor time, kept ones 20 ms.
    (tmp_path / "20261120").touch()
    assert log_files(tmp_path)[0] is log_files(tmp_path)[0]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    assert find_logs([RECORDED_LOG, RECORDED_LOG.parent]).files == [RECORDED_LOG]


def test_malformed_lines_are_kept_with_file_line_and_reason_and_other_lines_are_read(tmp_path: Path) -> None:
    good = RECORDED_LOG.read_bytes().splitlines(keepends=True)
    log = tmp_path / "20261120"
    log.write_bytes(b"".join([*good[:10], b"\xff\xfe rubbish\n", b"\n", *good[10:]]))
    jobs, tally = read(log)
    assert len(jobs) == 42
    assert (tally.malformed, tally.blank, tally.lines) == (1, 1, 170)
    kept = tally.kept[0]
    assert (kept.line, kept.offset, kept.content) == (11, sum(map(len, good[:10])), b"\xff\xfe rubbish")
    assert str(kept).startswith(f"{log}:11: not an accounting record")


def test_a_last_line_without_a_line_end_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(RECORDED_LOG.read_bytes().rstrip(b"\n"))
    jobs, tally = read(log)
    assert (len(jobs), tally.unfinished, tally.malformed) == (41, [str(log)], 0)


def test_a_damaged_gzip_file_is_reported_and_the_next_file_is_read(tmp_path: Path) -> None:
    broken = tmp_path / "20261119.gz"
    broken.write_bytes(gzip.compress(RECORDED_LOG.read_bytes() * 50)[:-100])
    jobs, tally = read(broken, RECORDED_LOG)
    assert jobs[-42:] == read(RECORDED_LOG)[0]
    (error,) = map(str, tally.broken)
    assert error.startswith(f"{broken}: damaged gzip file, read up to the damage: ")


@pytest.mark.parametrize("name", ["missing", "missing/20261120"])
def test_a_missing_path_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="No such file"):
        log_files(tmp_path / name)


def test_a_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no accounting log"):
        log_files(tmp_path)


def test_a_trace_is_distinguished_from_a_log_by_its_first_line(tmp_path: Path) -> None:
    def trace(path: Path) -> bool:
        with opened(path) as file:
            return trace_format(file) is not None

    headless = tmp_path / "t"
    headless.write_text("\n" + "1 " * 18 + "\n")
    assert trace(headless)
    assert not trace(RECORDED_LOG)
    # A record of 18 words is still a record.
    headless.write_text("11/20/2026 10:16:10;E;1.srv;user=a " + "x=1 " * 15 + "end=2\n")
    assert not trace(headless)


def test_lines_are_complete_with_their_positions_for_any_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = RECORDED_LOG.read_bytes()
    for size in (1, 7, 1000, len(content), 10**7):
        monkeypatch.setattr(daily_files, "BLOCK_BYTES", size)
        with opened(RECORDED_LOG) as file:
            found = list(blocks(file.contents))
        assert b"".join(line + b"\n" for block in found for line in block.lines) == content
        assert found[-1].end == len(content)
        for before, after in pairwise(found):
            assert before.end == after.offset
            assert before.last_line + 1 == after.line


def test_reading_can_begin_at_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 5000)
    with opened(RECORDED_LOG) as file:
        found = list(blocks(file.contents))
    for start in found:
        with opened(RECORDED_LOG) as file:
            rest = list(blocks(file.contents, start.offset, start.line))
        assert [line for block in rest for line in block.lines] == [
            line for block in found[found.index(start) :] for line in block.lines
        ]


def test_a_line_that_is_too_long_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily_files, "MAX_LOG_LINE_BYTES", 10_000)
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 1000)
    log = tmp_path / "20261120"
    log.write_bytes(b"x" * 55_000 + b"\n" + RECORDED_LOG.read_bytes())
    jobs, tally = read(log)
    assert len(jobs) == 42
    assert tally.malformed == 5


def test_the_number_of_malformed_lines_kept_is_limited(tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(b"rubbish\n" * (MAX_KEPT_LINES + 5))
    _, tally = read(log)
    assert (tally.malformed, len(tally.kept)) == (MAX_KEPT_LINES + 5, MAX_KEPT_LINES)


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_every_line_of_a_mutated_log_is_counted(chance: random.Random, mutations: int) -> None:
    content = bytearray(RECORDED_LOG.read_bytes())
    for _ in range(mutations):
        place = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[place] = chance.randrange(256)
            case 1:
                del content[place : place + chance.randrange(200)]
            case 2:
                content[place:place] = chance.choice([b'"', b"'", b"=", b" ", b";", b"\n", b"\xe9", b"\0", b"[]"])
            case _:
                source = chance.randrange(len(content))
                content[place:place] = content[source : source + chance.randrange(300)]
    lines = bytes(content).split(b"\n")
    tally = Tally()
    batch = pbs_batch(Block(bytes(content), 0, 1, len(content)), "log", tally)
    read = tally.jobs + tally.others + tally.array_parents + tally.interrupted
    assert read + tally.malformed + tally.blank == len(lines)
    for malformed in batch.malformed:
        assert bytes(content[malformed.offset :]).startswith(malformed.content)
        assert str(malformed).startswith(f"log:{malformed.line}: ")
