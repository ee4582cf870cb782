"""Helpers for tests that follow a log: write to it, count stored jobs, read the log output."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.accounting.writer import end_record
from tests.samples import RECORDED_LOG, job
from tests.store.stored import count_jobs

RECORDED = RECORDED_LOG.read_bytes()


class Clock:
    """A clock that a test sets, in epoch seconds."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now


def ended(*numbers: int) -> bytes:
    """Return E records of jobs with these numbers."""
    return b"".join(
        f"11/20/2026 11:00:00;E;{n}.pbs1;{end_record(job(job_id=f'{n}.pbs1', end=1_795_170_000 + n))}\n".encode()
        for n in numbers
    )


def append(log: Path, content: bytes) -> None:
    with log.open("ab") as stream:
        stream.write(content)


def count_stored(engine: Engine) -> int:
    with engine.connect() as connection:
        return count_jobs(connection)


def logged_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@contextmanager
def command(folder: Path, dsn: str, *options: str) -> Iterator[Path]:
    """Run ``softwalltime ingest --follow`` as a process; the value is its log file."""
    output = folder.parent / "output"
    arguments = ["ingest", "--follow", folder, "--dsn", dsn, *options]
    with (
        output.open("wb") as stream,
        subprocess.Popen([sys.executable, "-m", "softwalltime", *arguments], stderr=stream) as process,
    ):
        try:
            yield output
        finally:
            process.terminate()
