"""Ingestion of accounting logs: each completed job is stored once, for any earlier reading and any contents."""

import gzip
import shutil
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import end_record
from softwalltime.core.jobs import CompletedJob
from softwalltime.service import reading
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.completed_jobs import PreparedJobs
from softwalltime.store.completed_jobs import read_jobs as read_stored
from softwalltime.store.logs import read_malformed
from tests.samples import RECORDED_LOG, completed_jobs
from tests.store.stored import count_jobs

RECORDED = 42


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A copy of the recorded log that tests may change."""
    return Path(shutil.copy(RECORDED_LOG, tmp_path / "20261120"))


def ingest(engine: Engine, *paths: Path, server: str = "", again: bool = False) -> tuple[int, int, Tally]:
    tally = Tally()
    stored, known = ingest_logs(
        engine, [file for path in paths for file in log_files(path)], tally, server, again=again
    )
    return stored, known, tally


def stored_jobs(engine: Engine) -> list[CompletedJob]:
    with engine.connect() as connection:
        return list(read_stored(connection))


def test_completed_jobs_are_stored_unchanged(engine: Engine, log: Path) -> None:
    stored, known, tally = ingest(engine, log)
    assert (stored, known, tally.malformed, tally.array_parents) == (RECORDED, 0, 0, 4)
    assert stored_jobs(engine) == sorted(read_jobs([log], Tally()), key=lambda job: job.end)


def test_a_second_run_reads_nothing_again(engine: Engine, log: Path) -> None:
    ingest(engine, log)
    stored, known, tally = ingest(engine, log)
    assert (stored, known, tally.lines) == (0, 0, 0)


def test_only_appended_lines_are_read_and_a_last_line_once_it_is_complete(engine: Engine, log: Path) -> None:
    content = RECORDED_LOG.read_bytes()
    lines = content.splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:100]) + lines[100][:30])
    first, _, tally = ingest(engine, log)
    assert tally.unfinished == [str(log)]
    log.write_bytes(content)
    second, known, tally = ingest(engine, log)
    assert (first + second, known, tally.unfinished) == (RECORDED, 0, [])
    assert tally.lines == len(lines) - 100


def test_reading_a_log_again_stores_no_job_twice(engine: Engine, log: Path) -> None:
    ingest(engine, log)
    # A log with another first line is another log, here with the same jobs.
    log.write_bytes(b"11/20/2026 00:00:00;L;license;floating license hour:1\n" + RECORDED_LOG.read_bytes())
    stored, known, _ = ingest(engine, log)
    assert (stored, known) == (0, RECORDED)
    with engine.connect() as connection:
        assert count_jobs(connection) == RECORDED


def test_again_reads_a_log_from_its_start(engine: Engine, log: Path) -> None:
    ingest(engine, log)
    stored, known, tally = ingest(engine, log, again=True)
    assert (stored, known, tally.lines) == (0, RECORDED, 168)


def test_a_gzipped_or_moved_log_is_recognised(engine: Engine, log: Path, tmp_path: Path) -> None:
    ingest(engine, log)
    packed = tmp_path / "20261120.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    assert ingest(engine, packed)[2].lines == 0
    moved = tmp_path / "old" / "20261120"
    moved.parent.mkdir()
    shutil.copy(RECORDED_LOG, moved)
    assert ingest(engine, moved)[2].lines == 0


def test_a_log_that_was_replaced_by_a_shorter_or_another_one_is_read_from_its_start(engine: Engine, log: Path) -> None:
    ingest(engine, log)
    lines = RECORDED_LOG.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:90]))
    assert ingest(engine, log)[2].lines == 90
    log.write_bytes(b"".join(line.replace(b".pbs1", b".pbs2") for line in lines))
    stored, known, _ = ingest(engine, log)
    assert (stored, known) == (RECORDED, 0)


def test_malformed_lines_are_kept_with_file_line_and_reason_once(engine: Engine, log: Path) -> None:
    log.write_bytes(b"rubbish \xff\0\n" + RECORDED_LOG.read_bytes() + b"11/20/2026 10:00:00;E;9.pbs1;user=x end=soon\n")
    stored, _, tally = ingest(engine, log)
    assert (stored, tally.malformed) == (RECORDED, 2)
    with engine.connect() as connection:
        kept = {line.line_number: line for line in read_malformed(connection)}
    assert set(kept) == {1, 170}
    assert kept[1].line == b"rubbish \xff\0"
    assert (kept[170].field, kept[170].reason) == ("end", "not a time in epoch seconds")


def test_other_files_are_read_if_one_is_damaged(engine: Engine, log: Path, tmp_path: Path) -> None:
    broken = tmp_path / "20261119.gz"
    broken.write_bytes(gzip.compress(RECORDED_LOG.read_bytes().replace(b".pbs1", b".pbs0"))[:-20])
    stored, _, tally = ingest(engine, tmp_path)
    assert stored >= RECORDED
    assert [error.args[0].startswith(str(broken)) for error in tally.broken] == [True]


def test_a_trace_is_rejected(engine: Engine, tmp_path: Path) -> None:
    trace = tmp_path / "t.swf"
    trace.write_text("; UnixStartTime: 0\n" + "1 " * 18 + "\n")
    stored, _, tally = ingest(engine, trace)
    assert stored == 0
    assert "softwalltime convert" in str(tally.broken[0])


def test_jobs_of_two_servers_with_the_same_ids_are_separate(engine: Engine, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "b" / "20261120"
    other.parent.mkdir()
    shutil.copy(log, other)
    assert ingest(engine, log, server="a")[0] == RECORDED
    assert ingest(engine, other, server="b")[0] == RECORDED
    assert {job.server for job in stored_jobs(engine)} == {"a", "b"}


class AtOnce(Thread):
    """A thread that is joined as soon as it is started."""

    def start(self) -> None:
        super().start()
        self.join()


def test_many_processes_store_the_same_as_one(
    engine: Engine, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from softwalltime.accounting import daily_files

    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(reading, "MIN_PARALLEL_BYTES", 0)
    # Wait for the processes: otherwise these few lines are read before they start.
    monkeypatch.setattr(reading, "Thread", AtOnce)
    log.write_bytes(b"rubbish\n" + RECORDED_LOG.read_bytes())
    second = tmp_path / "20261121"
    second.write_bytes(RECORDED_LOG.read_bytes().replace(b".pbs1", b".pbs2"))
    stored, known, tally = ingest(engine, tmp_path)
    assert (stored, known, tally.jobs, tally.malformed, tally.lines) == (2 * RECORDED, 0, 2 * RECORDED, 1, 337)
    assert str(tally.kept[0]).startswith(f"{log}:1: ")
    both = [*read_jobs([log], Tally()), *read_jobs([second], Tally())]
    assert stored_jobs(engine) == sorted(both, key=lambda job: job.end)


def test_a_failed_run_continues_from_its_last_commit(
    engine: Engine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from softwalltime.accounting import daily_files
    from softwalltime.service import ingest as module

    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(module, "MAX_BATCH_ROWS", 5)
    real, calls = module.add_prepared_jobs, []

    def failing(connection: Connection, jobs: list[PreparedJobs]) -> int:
        calls.append(len(jobs))
        if len(calls) == 4:
            raise RuntimeError("the power went")
        return real(connection, jobs)

    monkeypatch.setattr(module, "add_prepared_jobs", failing)
    with pytest.raises(RuntimeError, match="the power went"):
        ingest(engine, log)
    before = len(stored_jobs(engine))
    assert 0 < before < RECORDED
    monkeypatch.undo()
    stored, known, _ = ingest(engine, log)
    assert (before + stored, known) == (RECORDED, 0)


@given(st.lists(completed_jobs(), max_size=20))
@settings(max_examples=25)
def test_the_store_accepts_every_job_that_the_parser_reads(
    module_engine: Engine, tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob]
) -> None:
    log = tmp_path_factory.mktemp("any") / "20261120"
    lines = [f"11/20/2026 10:16:10;E;{job.submission.job_id};{end_record(job)}\n" for job in jobs]
    log.write_text("".join(lines), encoding="utf-8", newline="\n")
    # Two examples may be equal: they would be recognised as the same log.
    _, _, tally = ingest(module_engine, log, again=True)
    assert (tally.jobs, tally.malformed) == (len(jobs), 0)
    in_store = {(job.server, job.submission.job_id, job.start): job for job in stored_jobs(module_engine)}
    for job in jobs:
        assert (job.server, job.submission.job_id, job.start) in in_store
