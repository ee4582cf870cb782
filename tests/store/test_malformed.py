"""Malformed lines are stored once and unchanged, up to a number of newest ones."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from softwalltime.store import logs
from softwalltime.store.logs import MalformedLine, dropped_malformed, read_malformed, record_malformed

pytestmark = pytest.mark.postgres


def _line(number: int = 1, server: str = "srv", line: bytes = b"\xff\0 not a record") -> MalformedLine:
    return MalformedLine(server, "/log/20261120", number, number * 100, "not a record", "walltime", line)


def _read(connection: Connection, **limits: object) -> list[MalformedLine]:
    return [replace(line, seen_at=None) for line in read_malformed(connection, **limits)]


def test_lines_come_back_byte_by_byte_the_newest_first(connection: Connection) -> None:
    lines = [_line(number) for number in range(5)]
    assert record_malformed(connection, lines) == 5
    assert _read(connection) == lines[::-1]
    assert read_malformed(connection)[0].seen_at is not None


def test_no_lines_are_no_work(connection: Connection) -> None:
    assert record_malformed(connection, []) == 0


def test_a_line_that_is_met_again_is_kept_once(connection: Connection) -> None:
    assert record_malformed(connection, [_line(1), _line(1), _line(2)]) == 2
    assert record_malformed(connection, [_line(2), _line(3)]) == 1
    assert len(_read(connection)) == 3


def test_another_line_at_the_same_place_is_another(connection: Connection) -> None:
    assert record_malformed(connection, [_line(), _line(line=b"other"), _line(server="other")]) == 3


def test_a_long_line_is_cut(connection: Connection) -> None:
    record_malformed(connection, [_line(line=b"x" * 100_000)])
    assert len(_read(connection)[0].line) == 4096


def test_texts_that_postgresql_cannot_hold_are_written_out(connection: Connection) -> None:
    record_malformed(connection, [replace(_line(), path="/log/\udcff", reason="a\0b", field="\ud800")])
    (line,) = _read(connection)
    assert (line.path, line.reason, line.field) == (r"/log/\udcff", r"a\x00b", r"\ud800")


def test_only_the_newest_are_kept_and_the_others_counted(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_STORED_LINES", 10)
    record_malformed(connection, [_line(number, server="old") for number in range(8)])
    assert dropped_malformed(connection) == 0
    record_malformed(connection, [_line(number) for number in range(6)])
    assert dropped_malformed(connection) == dropped_malformed(connection, server="old") == 4
    record_malformed(connection, [_line(number) for number in range(100, 115)])
    assert _read(connection) == [_line(number) for number in range(114, 104, -1)]
    assert dropped_malformed(connection) == 19
    assert dropped_malformed(connection, server="srv") == 11
    assert _read(connection, server="old") == []
