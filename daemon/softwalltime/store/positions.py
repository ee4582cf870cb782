"""How far each accounting log has been read."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from sqlalchemy import Connection, Executable, Row, Select, func, select, update
from sqlalchemy.dialects.postgresql import insert

from softwalltime.errors import StoreError
from softwalltime.store.encoding import storable_text
from softwalltime.store.locks import lock
from softwalltime.store.tables import log_positions

HEAD_BYTES = 4096
"""How many of a file's first bytes tell it from others."""
TAIL_BYTES = 1024
"""How many of the last bytes read tell that what was read is still there."""

_columns = log_positions.columns


class OvertakenError(StoreError):
    """Another process has read the same log meanwhile: go on from where the store says."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a file begins with: by this it is known again when it has grown, moved, been copied or compressed.

    An inode would not do: copies and other hosts' mounts have others, and a new file may get an old one's.
    """

    length: int
    digest: bytes

    @classmethod
    def of(cls, first_bytes: bytes) -> Self:
        """The head of a file whose contents, decompressed, begin with ``first_bytes``."""
        head = first_bytes[:HEAD_BYTES]
        return cls(len(head), sha256(head).digest())

    def matches(self, first_bytes: bytes) -> bool:
        """Whether a file that now begins with ``first_bytes`` may be the one that this head was taken of."""
        return len(first_bytes) >= self.length and sha256(first_bytes[: self.length]).digest() == self.digest


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes read of a file: a file that was cut off, or copied back, and written on may begin as it did."""

    length: int
    digest: bytes

    @classmethod
    def of(cls, last_bytes: bytes) -> Self:
        """The tail of what was read, which ends with ``last_bytes``."""
        tail = last_bytes[-TAIL_BYTES:]
        return cls(len(tail), sha256(tail).digest())

    def matches(self, bytes_there: bytes) -> bool:
        """Whether these, as many as the tail has, are still the same."""
        return len(bytes_there) == self.length and sha256(bytes_there).digest() == self.digest


@dataclass(frozen=True, slots=True)
class Position:
    """How far a log has been read: ``offset`` bytes (of the decompressed contents), ``line_number`` whole lines."""

    server: str
    path: str
    offset: int
    line_number: int
    head: Head
    tail: Tail


def read_position(connection: Connection, server: str, path: str) -> Position | None:
    """How far the log at ``path`` has been read, or ``None`` if it never was."""
    wanted = _positions(server).where(_columns.path == storable_text(path))
    row = connection.execute(wanted).first()
    return None if row is None else _position(row)


def read_positions(connection: Connection, server: str | None = None) -> list[Position]:
    """Return the positions in all logs of ``server``, or of all servers, ordered by path."""
    return [_position(row) for row in connection.execute(_positions(server).order_by(_columns.path))]


def save_position(connection: Connection, position: Position) -> None:
    """Set how far a log has been read, in the transaction that stores what was read."""
    lock(connection)
    key, place = _row(position)
    connection.execute(
        insert(log_positions)
        .values(**key, **place)
        .on_conflict_do_update(index_elements=["server", "path"], set_={**place, "updated_at": func.now()})
    )


def move_position(connection: Connection, since: Position | None, position: Position) -> None:
    """As :func:`save_position`, if the log's position is still ``since``; ``None``: if it has none.

    :raises OvertakenError: if it is not, since another process reads the same log.
    """
    lock(connection)
    key, place = _row(position)
    moving: Executable
    if since is None:
        moving = insert(log_positions).values(**key, **place).on_conflict_do_nothing().returning(_columns.path)
    else:
        before = {**key, **_row(since)[1]}
        there = update(log_positions).where(*(_columns[name] == value for name, value in before.items()))
        moving = there.values(**place, updated_at=func.now()).returning(_columns.path)
    if connection.execute(moving).first() is None:
        raise OvertakenError(f"{position.path}: another softwalltime has read it meanwhile; read on from there")


def _row(position: Position) -> tuple[dict[str, Any], dict[str, Any]]:
    """The key of a position, and the rest of it."""
    key = {"server": storable_text(position.server), "path": storable_text(position.path)}
    return key, {
        "byte_offset": position.offset,
        "line_number": position.line_number,
        "head_length": position.head.length,
        "head_digest": position.head.digest,
        "tail_length": position.tail.length,
        "tail_digest": position.tail.digest,
    }


def _positions(server: str | None) -> Select[str, str, int, int, int, bytes, int, bytes]:
    wanted = select(
        _columns.server,
        _columns.path,
        _columns.byte_offset,
        _columns.line_number,
        _columns.head_length,
        _columns.head_digest,
        _columns.tail_length,
        _columns.tail_digest,
    )
    return wanted if server is None else wanted.where(_columns.server == storable_text(server))


def _position(row: Row[str, str, int, int, int, bytes, int, bytes]) -> Position:
    server, path, offset, line_number, head, head_digest, tail, tail_digest = row
    return Position(server, path, offset, line_number, Head(head, head_digest), Tail(tail, tail_digest))
