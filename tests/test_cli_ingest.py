"""``softwalltime ingest`` as an administrator types it."""

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.cli import run
from softwalltime.store import logs
from tests.samples import RECORDED_LOG
from tests.service.running import PATIENT, until
from tests.store.stored import count_jobs

pytestmark = pytest.mark.postgres

RECORDED = RECORDED_LOG.read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "accounting"
    folder.mkdir()
    (folder / "20261120").write_bytes(RECORDED)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PATH...'"),
        (["--follow"], "--follow takes one PATH, or the accounting folder of the settings file"),
        (["--follow", "/tmp", "/"], "--follow takes one PATH"),
        (["--follow", "--again", "/tmp"], "exclude each other"),
        (["--malformed", "--again"], "exclude each other"),
        (["--malformed", "/tmp"], "--malformed takes no PATH"),
        (["/proc/version", "/etc/nowhere"], "Path '/etc/nowhere' does not exist"),
    ],
)
def test_wrong_use_does_nothing_and_prints_the_reason(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nobody answers there: nothing is reached.
    assert run(["ingest", *arguments, "--dsn", "postgresql://127.0.0.1:1/none"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def figures(output: str) -> dict[str, int]:
    return {line[:20].strip(): int(line[20:].replace(",", "")) for line in output.splitlines()}


def test_ingest_counts_each_line_in_one_figure(folder: Path, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (folder / "20261120").open("ab") as log:
        log.write(b"rubbish\n\n11/20/2026 11:00:00;S;900.pbs1;start=soon\n11/20/2026 11:00:00;E;901.pbs1;half")
    assert run(["ingest", str(folder), "--dsn", database]) == 0
    captured = capsys.readouterr()
    met = figures(captured.out)
    assert met == {
        "records read": 170, "jobs stored": 42, "already known": 0, "array parents": 4, "interrupted runs": 1,
        "other records": 121, "malformed": 2, "runtime in doubt": 0,
    }  # fmt: skip
    assert met["records read"] == sum(met.values()) - met["records read"]
    assert captured.err.splitlines() == [
        f"{folder}/20261120:169: not an accounting record: fewer than 3 semicolons ('rubbish')",
        f"{folder}/20261120:171: user: is missing",
        f"{folder}/20261120: the last line has no line end and was not read: PBS may still be writing it",
    ]
    assert run(["ingest", str(folder), "--dsn", database]) == 0
    assert set(figures(capsys.readouterr().out).values()) == {0}
    assert run(["ingest", str(folder), "--again", "--dsn", database]) == 0
    again = figures(capsys.readouterr().out)
    assert (again["jobs stored"], again["already known"], again["malformed"]) == (0, 42, 1)


def test_an_unreadable_file_fails_after_all_others_are_read(
    folder: Path, database: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "20261119.gz").write_bytes(gzip.compress(RECORDED)[:50])
    (folder / "20261121").mkdir()
    assert run(["ingest", str(folder), "--dsn", database]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"{folder}/20261119.gz: damaged gzip file")
    assert errors[1] == f"{folder}/20261121: a folder, not a regular file; it is not read"
    with engine.connect() as connection:
        assert count_jobs(connection) == 42


def test_malformed_lines_are_printed_newest_first_without_control_characters(
    folder: Path, database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "20261120").write_bytes(
        b"rubbish \xff\0\x1b[2J\n" + RECORDED + b"11/20/2026 11:00:00;E;9.pbs1;user=x end=soon\n"
    )
    other = folder.parent / "other"
    other.mkdir()
    (other / "20261120").write_bytes(b"caf\xc3\xa9 " + b"x" * 5000 + b"\n")
    assert run(["ingest", str(folder), "--dsn", database]) == 0
    assert run(["ingest", str(other), "--server", "other", "--dsn", database]) == 0
    capsys.readouterr()
    options = ["--malformed", "--dsn", database]
    assert run(["ingest", *options]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith(f"{other}/20261120:1: byte 0: not an accounting record: fewer than 3 semicolons: café x")
    assert len(lines[0]) < 400
    assert lines[1].startswith(f"{folder}/20261120:170: byte ")
    assert ": end: not a time in epoch seconds: 11/20/2026 11:00:00;E;9.pbs1;" in lines[1]
    assert lines[2].endswith("rubbish \\xff??[2J")
    assert captured.err == "3 malformed lines are kept, 0 older ones were dropped\n"
    assert run(["ingest", *options, "--server", "other"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    # Their number is bounded, and how many were dropped is told.
    monkeypatch.setattr(logs, "MAX_STORED_LINES", 2)
    (other / "20261121").write_bytes(b"more\n" * 3)
    assert run(["ingest", str(other), "--server", "other", "--dsn", database]) == 0
    capsys.readouterr()
    assert run(["ingest", *options]) == 0
    captured = capsys.readouterr()
    assert [line[-12:] for line in captured.out.splitlines()] == ["colons: more"] * 2
    assert captured.err == "2 malformed lines are kept, 4 older ones were dropped\n"


def test_follow_stops_on_sigterm_and_sigint_with_status_0(folder: Path, database: str, engine: Engine) -> None:
    command = [sys.executable, "-m", "softwalltime", "ingest", "--follow", folder, "--dsn", database]
    for number in (signal.SIGTERM, signal.SIGINT):
        with (folder / "20261121").open("ab") as log:
            log.write(RECORDED.replace(b".pbs1", b".pbs%d" % number))
        with engine.connect() as connection:
            expected = count_jobs(connection) + (84 if number == signal.SIGTERM else 42)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:

            def stored(expected: int = expected) -> bool:
                with engine.connect() as connection:
                    return count_jobs(connection) == expected

            until(stored)
            process.send_signal(number)
            assert process.wait(PATIENT) == 0
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
