"""Stored positions of logs are found by the logs' heads, in constant time for any number of logs."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import Engine

from softwalltime.service.reading import KnownPositions
from softwalltime.store.logs import HEAD_BYTES, LogDigest, Position
from tests.store.stored import save_position

TAIL = LogDigest.of(b"")


def head_of(number: int) -> bytes:
    return f"log {number}\n".encode() * HEAD_BYTES


def position(number: int, length: int = HEAD_BYTES, offset: int = HEAD_BYTES) -> Position:
    return Position("srv", f"/logs/{number}", offset, 1, LogDigest.of(head_of(number)[:length]), TAIL)


def steps(call: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.postgres
def test_the_work_for_one_log_does_not_grow_with_the_number_of_logs(engine: Engine) -> None:
    def work(logs: range) -> int:
        with engine.begin() as connection:
            for number in logs:
                save_position(connection, position(number))
        known = KnownPositions(engine)
        known.start_of(Path("/logs/new"), "srv", b"another log", None)
        first = head_of(logs[0])[:HEAD_BYTES]
        found: list[Position | None] = []
        count = steps(lambda: found.append(known.start_of(Path("/logs/copy"), "srv", first, None).position))
        assert found == [position(logs[0])]
        count += steps(lambda: known.moved(position(logs[0], offset=2 * HEAD_BYTES)))
        return count

    work(range(5))  # fills caches
    assert work(range(10, 20)) == work(range(1000, 1500))


@pytest.mark.postgres
def test_a_log_is_recognised_by_its_head_of_any_length(engine: Engine) -> None:
    with engine.begin() as connection:
        for number, length in enumerate((1, 5, 300, 301, HEAD_BYTES)):
            save_position(connection, position(number, length, offset=length))
    known = KnownPositions(engine)

    def found(number: int, length: int = HEAD_BYTES) -> Position | None:
        return known.start_of(Path("/logs/copy"), "srv", head_of(number)[:length], None).position

    lengths = {1: 5, 2: 300, 3: 301, 4: HEAD_BYTES}
    assert {n: found(n) for n in lengths} == {n: position(n, length, length) for n, length in lengths.items()}
    assert found(2, 299) == position(0, 1, 1)
    moved = position(2, 300, 1000)
    known.moved(moved)
    assert found(2) == moved
    known.moved(Position("srv", moved.path, 2000, 1, LogDigest.of(head_of(9)[:HEAD_BYTES]), TAIL))
    assert found(2) == position(0, 1, 1)
    assert found(9) == Position("srv", moved.path, 2000, 1, LogDigest.of(head_of(9)[:HEAD_BYTES]), TAIL)


@pytest.mark.postgres
def test_a_log_is_late_if_one_of_a_later_day_was_read_before(engine: Engine) -> None:
    known = KnownPositions(engine)

    def late(name: str, server: str = "srv") -> bool:
        return known.start_of(Path("/logs", name), server, f"{name}\n".encode() * HEAD_BYTES, None).late

    days = ["20261119", "20261119", "20261120", "20261119.gz", "20261118", "20261120", "20261121", "other", "20261120"]
    assert [late(day) for day in days] == [False, False, False, True, True, False, False, False, True]
    assert not late("20261101", "another server")
    begin = known.start_of(Path("/logs/20261118"), "srv", b"x", None)
    assert begin.over == 1_795_132_800, "two days later: the day is over in every time zone"
