"""Store the positions up to which accounting logs were read, and malformed lines."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Self

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from softwalltime.core.errors import StoreError
from softwalltime.store.connections import lock
from softwalltime.store.encoding import storable_row, storable_text
from softwalltime.store.tables import log_positions, malformed_dropped, malformed_lines

HEAD_BYTES = 4096
"""Number of the first bytes by which a file is identified."""
TAIL_BYTES = 1024
"""Number of the last bytes read by which a rewritten file is detected."""

_logs = log_positions.columns
_COLUMNS = (
    "server", "path", "byte_offset", "line_number", "head_length", "head_digest", "tail_length", "tail_digest",
)  # fmt: skip
"""Columns of a position, in the order of its fields."""


class OvertakenError(StoreError):
    """A stored position is not where it was left: another process has moved it, or the store has lost commits."""


@dataclass(frozen=True, slots=True)
class LogDigest:
    """Digest of the first bytes of a log, or of the last bytes read.

    The first bytes identify a log after it has grown, moved, or been copied or compressed.  An inode does not: copies
    and mounts on other hosts have other inodes, and a new file may reuse one.  A file that was truncated and rewritten
    may have the same first bytes, but not the same last ones.
    """

    length: int
    digest: bytes

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(len(content), sha256(content).digest())

    def matches(self, content: bytes) -> bool:
        """Return whether the content begins with these bytes."""
        return len(content) >= self.length and sha256(content[: self.length]).digest() == self.digest


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a log: ``offset`` bytes (of the decompressed contents), ``line_number`` complete lines."""

    server: str
    path: str
    offset: int
    line_number: int
    head: LogDigest
    tail: LogDigest


def read_positions(connection: Connection, server: str | None = None) -> list[Position]:
    """Return the positions in all logs of ``server``, or of all servers, ordered by path."""
    wanted = select(*(_logs[name] for name in _COLUMNS)).order_by(_logs.path)
    if server is not None:
        wanted = wanted.where(_logs.server == storable_text(server))
    return [
        Position(name, path, offset, line, LogDigest(head, head_digest), LogDigest(tail, tail_digest))
        for name, path, offset, line, head, head_digest, tail, tail_digest in connection.execute(wanted)
    ]


def move_positions(connection: Connection, moves: Iterable[tuple[Position | None, Position]]) -> None:
    """Set the positions of logs, in the transaction that stores their rows.

    :param moves: for each log the stored position expected (``None``: none), and the new one.
    :raises OvertakenError: if a stored position differs, because another process reads the same log.
    """
    lock(connection)
    new = []
    for since, position in moves:
        key, place = _row(position)
        if since is None:
            new.append(key | place)
            continue
        before = {**key, **_row(since)[1]}
        there = update(log_positions).where(*(_logs[name] == value for name, value in before.items()))
        if connection.execute(there.values(**place, updated_at=func.now()).returning(_logs.path)).first() is None:
            raise _overtaken(position.path)
    if new:
        inserting = insert(log_positions).on_conflict_do_nothing().returning(_logs.path)
        moved = set(connection.execute(inserting, new).scalars())
        for row in new:
            if row["path"] not in moved:
                raise _overtaken(row["path"])


def _overtaken(path: str) -> OvertakenError:
    return OvertakenError(f"{path}: another softwalltime process has read it; continue from its position")


def confirm_position(connection: Connection, position: Position) -> None:
    """Make sure that a committed position is still stored.  Then all earlier commits are, too.

    A standby that is promoted may lack the newest commits.

    :raises OvertakenError: if it is not.
    """
    key, place = _row(position)
    there = select(_logs.path).where(*(_logs[name] == value for name, value in (key | place).items()))
    if connection.execute(there).first() is None:
        raise OvertakenError(f"{position.path}: the store has another position than the one last committed")


def _row(position: Position) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the key columns and the other columns of a position."""
    head, tail = position.head, position.tail
    values = position.offset, position.line_number, head.length, head.digest, tail.length, tail.digest
    key = {"server": storable_text(position.server), "path": storable_text(position.path)}
    return key, dict(zip(_COLUMNS[2:], values, strict=True))


MAX_STORED_LINES = 10_000
"""Maximum number of stored malformed lines."""

LINE_BYTES = 4096
"""Maximum stored bytes of a malformed line."""

_malformed = malformed_lines.columns


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A malformed line: its position (``byte_offset``, and ``line_number`` from 1) and the reason.

    ``field`` is empty if the whole line is malformed.  The store sets ``seen_at``.
    """

    server: str
    path: str
    line_number: int
    byte_offset: int
    reason: str
    field: str
    line: bytes
    seen_at: datetime | None = None


def record_malformed(connection: Connection, lines: Sequence[MalformedLine]) -> int:
    """Store the lines that are not stored yet; return how many were stored.

    The same bytes at the same offset of the same path are stored once.
    """
    if not lines:
        return 0
    lock(connection)
    rows = [storable_row(asdict(line)) | {"line": line.line[:LINE_BYTES]} for line in lines]
    for row in rows:
        del row["seen_at"]
    statement = insert(malformed_lines).on_conflict_do_nothing().returning(_malformed.id)
    new = len(connection.execute(statement, rows).all())
    _drop_oldest(connection)
    return new


def read_malformed(connection: Connection, *, server: str | None = None) -> list[MalformedLine]:
    """Return the stored lines of ``server``, or of all servers, the newest first."""
    wanted = select(*(_malformed[field.name] for field in fields(MalformedLine))).order_by(_malformed.id.desc())
    if server is not None:
        wanted = wanted.where(_malformed.server == storable_text(server))
    return [MalformedLine(*row) for row in connection.execute(wanted)]


def dropped_malformed(connection: Connection, *, server: str | None = None) -> int:
    """Return how many lines of ``server``, or of all servers, were deleted because newer ones arrived."""
    wanted = select(func.coalesce(func.sum(malformed_dropped.c.lines), 0))
    if server is not None:
        wanted = wanted.where(malformed_dropped.c.server == storable_text(server))
    return int(connection.execute(wanted).scalar_one())


def _drop_oldest(connection: Connection) -> None:
    newest_to_drop = (
        select(_malformed.id).order_by(_malformed.id.desc()).offset(MAX_STORED_LINES).limit(1).scalar_subquery()
    )
    dropped = delete(malformed_lines).where(_malformed.id <= newest_to_drop).returning(_malformed.server).cte("dropped")
    counted = select(dropped.c.server, func.count()).group_by(dropped.c.server)
    counting = insert(malformed_dropped).from_select(["server", "lines"], counted)
    connection.execute(
        counting.on_conflict_do_update(
            index_elements=["server"], set_={"lines": malformed_dropped.c.lines + counting.excluded.lines}
        )
    )
