"""Lines of logs that could not be read, kept for the administrator: the newest of them, and how many were dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from softwalltime.store.encoding import storable_text
from softwalltime.store.locks import lock
from softwalltime.store.tables import malformed_dropped, malformed_lines

KEPT = 10_000
"""How many lines are kept."""

LINE_BYTES = 4096
"""How much of a line is kept."""

_columns = malformed_lines.columns


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that could not be read: where it stands (``offset`` in bytes, ``line_number`` from 1), and why.

    ``field`` is empty where the line as a whole is wrong.  ``seen_at`` is filled in by the store.
    """

    server: str
    path: str
    line_number: int
    offset: int
    reason: str
    field: str
    line: bytes
    seen_at: datetime | None = None


def record_malformed(connection: Connection, lines: Sequence[MalformedLine]) -> int:
    """Keep those of ``lines`` that are not kept yet; returns how many those were.

    The same bytes at the same place of the same path are kept once.
    """
    if not lines:
        return 0
    lock(connection)
    rows = [
        {
            "server": storable_text(line.server),
            "path": storable_text(line.path),
            "line_number": line.line_number,
            "byte_offset": line.offset,
            "reason": storable_text(line.reason),
            "field": storable_text(line.field),
            "line": line.line[:LINE_BYTES],
        }
        for line in lines
    ]
    statement = insert(malformed_lines).on_conflict_do_nothing().returning(_columns.id)
    new = len(connection.execute(statement, rows).all())
    _drop_oldest(connection)
    return new


def read_malformed(
    connection: Connection, *, server: str | None = None, limit: int | None = None
) -> list[MalformedLine]:
    """The lines kept of ``server``, or of all; the newest first, at most ``limit``."""
    wanted = select(
        _columns.server,
        _columns.path,
        _columns.line_number,
        _columns.byte_offset,
        _columns.reason,
        _columns.field,
        _columns.line,
        _columns.seen_at,
    )
    if server is not None:
        wanted = wanted.where(_columns.server == storable_text(server))
    return [MalformedLine(*row) for row in connection.execute(wanted.order_by(_columns.id.desc()).limit(limit))]


def dropped_malformed(connection: Connection, *, server: str | None = None) -> int:
    """How many lines of ``server``, or of all, were dropped because newer ones came."""
    wanted = select(func.coalesce(func.sum(malformed_dropped.c.lines), 0))
    if server is not None:
        wanted = wanted.where(malformed_dropped.c.server == storable_text(server))
    return int(connection.execute(wanted).scalar_one())


def _drop_oldest(connection: Connection) -> None:
    newest_to_drop = select(_columns.id).order_by(_columns.id.desc()).offset(KEPT).limit(1).scalar_subquery()
    dropped = delete(malformed_lines).where(_columns.id <= newest_to_drop).returning(_columns.server).cte("dropped")
    counted = select(dropped.c.server, func.count()).group_by(dropped.c.server)
    counting = insert(malformed_dropped).from_select(["server", "lines"], counted)
    connection.execute(
        counting.on_conflict_do_update(
            index_elements=["server"], set_={"lines": malformed_dropped.c.lines + counting.excluded.lines}
        )
    )
