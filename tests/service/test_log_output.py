"""Log output of long-running commands on standard error."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.service.log_output import set_up_logging
from tests.samples import RECORDED_LOG
from tests.service.running import until


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def fail() -> None:
    raise RuntimeError("a bug\nin two lines")


def log_all() -> None:
    """Log one record of each level."""
    log = logging.getLogger("softwalltime.test")
    log.debug("not shown")
    log.info("stored", extra={"jobs": 3, "behind_bytes": 0, "path": Path("/x/y")})
    log.warning("malformed: %s", 'caf\udce9 "quoted" \x1b[2J and\na new line')
    try:
        fail()
    except RuntimeError:
        log.exception("unexpected error; trying again")


def test_each_line_has_level_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    log_all()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "INFO stored jobs=3 behind_bytes=0 path=/x/y"
    assert lines[1].startswith("WARNING malformed: caf")
    # Line breaks and control characters of an accounting log are escaped.
    assert lines[1].endswith('"quoted" \\x1b[2J and\\na new line')
    assert lines[2] == "ERROR unexpected error; trying again"
    assert lines[3] == "Traceback (most recent call last):"
    assert all(line[:1] != "E" for line in lines[3:])


@pytest.mark.postgres
def test_ingest_logs_stored_jobs_and_malformed_lines(tmp_path: Path, database: str, engine: Engine) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(b"rubbish \xff\0\n" + RECORDED_LOG.read_bytes())
    output = tmp_path / "output"
    command = ["ingest", "--follow", log, "--dsn", database]
    with (
        output.open("w") as stream,
        subprocess.Popen([sys.executable, "-m", "softwalltime", *command], stderr=stream) as process,
    ):
        until(lambda: output.read_text().count("\n") >= 2)
        process.terminate()
    lines = output.read_text().splitlines()
    assert lines[0].startswith(f"WARNING malformed: {log}:1: not an accounting record")
    assert lines[1] == "INFO stored jobs=42 lines=169 malformed=1 behind_bytes=0"
