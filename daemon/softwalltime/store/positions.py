"""How far each accounting log has been read."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from softwalltime.store.tables import log_positions
from softwalltime.store.texts import storable_text
from softwalltime.store.turns import take_turn

HEAD_BYTES = 4096
"""How many of a file's first bytes tell it from others."""

_columns = log_positions.columns


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
class Position:
    """How far a log has been read: ``offset`` bytes (of the decompressed contents), ``line_number`` whole lines."""

    server: str
    path: str
    offset: int
    line_number: int
    head: Head


def read_position(connection: Connection, server: str, path: str) -> Position | None:
    """How far the log at ``path`` has been read, or ``None`` if it never was."""
    wanted = _positions(server).where(_columns.path == storable_text(path))
    row = connection.execute(wanted).first()
    return None if row is None else _position(row)


def read_positions(connection: Connection, server: str) -> list[Position]:
    """The positions in all of a server's logs, by path."""
    return [_position(row) for row in connection.execute(_positions(server).order_by(_columns.path))]


def save_position(connection: Connection, position: Position) -> None:
    """Set how far a log has been read, in the transaction that stores what was read."""
    take_turn(connection)
    row = {
        "server": storable_text(position.server),
        "path": storable_text(position.path),
        "byte_offset": position.offset,
        "line_number": position.line_number,
        "head_length": position.head.length,
        "head_digest": position.head.digest,
    }
    changed = {key: value for key, value in row.items() if key not in ("server", "path")}
    connection.execute(
        insert(log_positions)
        .values(row)
        .on_conflict_do_update(index_elements=["server", "path"], set_={**changed, "updated_at": func.now()})
    )


def _positions(server: str) -> Select[str, str, int, int, int, bytes]:
    return select(
        _columns.server,
        _columns.path,
        _columns.byte_offset,
        _columns.line_number,
        _columns.head_length,
        _columns.head_digest,
    ).where(_columns.server == storable_text(server))


def _position(row: Row[str, str, int, int, int, bytes]) -> Position:
    server, path, offset, line_number, length, digest = row
    return Position(server, path, offset, line_number, Head(length, digest))
