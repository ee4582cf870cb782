"""The staff page of ``softwalltime web``: the daemon's status, promises, who waits longest, the latest decisions."""

import grp
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from sqlalchemy import Row

from softwalltime.core.errors import StoreError
from softwalltime.core.formatting import duration, number, percent, printable, walltime
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column, time_cell
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.queries import query

MAX_ROWS = 20
"""Maximum waiting jobs, and decisions, on the page."""
STATEMENT_TIMEOUT_S = 10.0
STAFF_CACHE_S = 60.0
"""Seconds for which the members of groups are cached."""
Columns = dict[TextColumn, Callable[[Row[Any]], Cell | str]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a page with its caption.

    ``kind``: cards (on a narrow screen each row is a card), heat, or plain.  ``query``: the parameter of the address
    that chooses one of its pages.
    """

    caption: str
    table: TextTable
    kind: str = "cards"
    query: str = ""
    page: int = 1
    pages: int = 1


class Staff:
    """Who sees the staff page: users, and the members that this host knows of ``@groups``; separated by commas."""

    def __init__(self, names: str) -> None:
        self._names = [name.strip() for name in names.split(",") if name.strip()]
        self._users: frozenset[str] = frozenset()
        self._until = 0.0

    def __contains__(self, user: str) -> bool:
        if monotonic() >= self._until:
            groups = [name.removeprefix("@") for name in self._names if name.startswith("@")]
            members = (member for group in groups for member in _members(group))
            self._users = frozenset((*(name for name in self._names if not name.startswith("@")), *members))
            self._until = monotonic() + STAFF_CACHE_S
        return user in self._users


def _members(group: str) -> Sequence[str]:
    with suppress(KeyError, ValueError):
        return grp.getgrnam(group).gr_mem
    log.warning("web_staff: no group %s on this host", printable(group))
    return ()


def staff_sections(dsn: str | None, now: int) -> Iterator[Section]:
    """Yield the tables of the page.

    :param now: epoch seconds.
    :raises StoreError: if the store cannot be read; says what to do.
    """
    if dsn is None:
        raise StoreError("no store is named: set SOFTWALLTIME_DSN in softwalltime-web.service")
    engine = connect(dsn, StatementMonitor(STATEMENT_TIMEOUT_S))
    try:
        with engine.connect() as connection:
            values = {"now": now, "most": MAX_ROWS}
            logs, promises, waiting, decisions = (
                connection.execute(query(name), values).all()
                for name in ("staff_logs", "staff_promises", "staff_waiting", "staff_decisions")
            )
    finally:
        engine.dispose()
    columns: Columns = {
        TextColumn("server", left=True): lambda row: Cell(printable(row.server) or "not known", "strong"),
        TextColumn("last record stored"): lambda row: time_cell(row.last_read, now),
        TextColumn("newest job ended"): lambda row: time_cell(row.newest_job, now),
        TextColumn("malformed lines"): lambda row: number(row.malformed_lines),
    }
    yield Section("Accounting logs in the store", TextTable.by_column(logs, columns), "plain")
    columns = {
        TextColumn("processors", left=True): lambda row: Cell(row.processors, "strong"),
        TextColumn("promised starts"): lambda row: number(row.promises),
        TextColumn("kept"): lambda row: f"{number(row.kept)} ({percent(row.kept / row.promises, 0)})",
        TextColumn("broken"): lambda row: Cell(number(row.broken), "warning" if row.broken else ""),
        TextColumn("longest delay"): lambda row: duration(row.longest_late),
    }
    yield Section("Promises of the last seven days", TextTable.by_column(promises, columns), "plain")
    columns = {
        sentence_column("job"): lambda row: Cell(printable(row.job_id), "strong"),
        TextColumn("user", 1, left=True): lambda row: printable(row.user_name),
        TextColumn("queue", 2, left=True): lambda row: printable(row.queue),
        TextColumn("processors", 2): lambda row: number(row.ncpus),
        TextColumn("walltime", 2): lambda row: walltime(row.walltime),
        TextColumn("waits since", 1): lambda row: time_cell(row.ctime, now),
        TextColumn("starts"): lambda row: time_cell(row.expected, now),
        TextColumn("latest start", 1): lambda row: time_cell(row.latest_start, now),
        TextColumn("time used", 1): lambda row: _used(row.ctime, row.latest_start, now),
    }
    yield Section("Who waits longest", TextTable.by_column(waiting, columns))
    columns = {
        sentence_column("job"): lambda row: Cell(printable(row.job_id) or "not known yet", "strong"),
        TextColumn("user", 1, left=True): lambda row: printable(row.user_name),
        TextColumn("decided", 1): lambda row: time_cell(row.predicted_at, now),
        TextColumn("event", 1, left=True): lambda row: row.event,
        TextColumn("walltime", 1): lambda row: walltime(row.walltime),
        TextColumn("soft walltime", 1): lambda row: walltime(row.soft_walltime),
        TextColumn("action", 1, left=True): lambda row: row.action,
        sentence_column("reason"): lambda row: printable(row.basis),
    }
    yield Section("Latest decisions", TextTable.by_column(decisions, columns))


def _used(submitted: int, latest: int | None, now: int) -> Cell:
    """Return the share of the time from submission to the latest start that has passed."""
    used = None if latest is None else (now - submitted) / max(latest - submitted, 1)
    return Cell(percent(used, 0), "bad" if (used or 0) >= 1 else "warning" if (used or 0) >= 0.8 else "")
