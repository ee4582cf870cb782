"""Positions in logs: kept by server and path, moved together with what was read, known again by the log's head."""

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.store.logs import HEAD_BYTES, LogDigest, Position, read_positions
from tests.store.stored import read_position, save_position

pytestmark = pytest.mark.postgres


def _position(path: str = "/log/20261120", server: str = "srv", offset: int = 100) -> Position:
    return Position(server, path, offset, 3, LogDigest.of(b"11/20/2026 ..."), LogDigest.of(b"... walltime=00:00:02\n"))


def test_a_position_is_read_as_it_was_saved(connection: Connection) -> None:
    assert read_position(connection, "srv", "/log/20261120") is None
    for offset in (100, 2**62):
        save_position(connection, _position(offset=offset))
        assert read_position(connection, "srv", "/log/20261120") == _position(offset=offset)


def test_servers_have_positions_of_their_own(connection: Connection) -> None:
    positions = [_position("/a"), _position("/b", offset=7)]
    for position in (*positions[::-1], _position("/a", server="other", offset=9)):
        save_position(connection, position)
    assert read_positions(connection, "srv") == positions
    assert read_position(connection, "other", "/a") == _position("/a", server="other", offset=9)


def test_a_path_that_is_no_text_is_found_again(connection: Connection) -> None:
    save_position(connection, _position("/log/\udcff"))
    found = read_position(connection, "srv", "/log/\udcff")
    assert found is not None
    assert found.path == r"/log/\udcff"


def test_a_position_is_not_moved_by_a_transaction_that_is_rolled_back(engine: Engine) -> None:
    with engine.begin() as connection:
        save_position(connection, _position(offset=1))
    with engine.connect() as connection:
        save_position(connection, _position(offset=2))
        connection.rollback()
        assert read_position(connection, "srv", "/log/20261120") == _position(offset=1)


def test_when_it_moved_is_noted(engine: Engine) -> None:
    moved = []
    for offset in (1, 2):
        with engine.begin() as connection:
            save_position(connection, _position(offset=offset))
        with engine.connect() as connection:
            moved.append(connection.execute(text("SELECT updated_at FROM softwalltime.log_positions")).scalar_one())
    assert moved[0] < moved[1]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (b"abc", b"abc", True),
        (b"abc", b"abcdef", True),
        (b"", b"anything", True),
        (b"abc", b"ab", False),
        (b"abc", b"abd", False),
        (b"x" * 5000, b"x" * 4096, True),
        (b"x" * 4096 + b"a", b"x" * 4096 + b"b", True),
    ],
)
def test_a_log_is_the_same_while_it_begins_the_same(before: bytes, after: bytes, same: bool) -> None:
    assert LogDigest.of(before[:HEAD_BYTES]).matches(after) is same
