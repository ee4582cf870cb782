"""Read what the staff page of ``softwalltime web`` shows: jobs and decisions of all users.  Times are epoch seconds."""

from typing import NamedTuple

from sqlalchemy import Connection

from softwalltime.store.queries import query


class WaitingRow(NamedTuple):
    """A waiting job; ``latest``: its latest start, ``None`` if it has none."""

    job: str
    user: str
    queue: str
    ncpus: int | None
    walltime: int | None
    submitted: int
    expected: int | None
    latest: int | None


class PromisesRow(NamedTuple):
    """Promised starts of the last seven days, of jobs of a size; ``longest_late`` in seconds."""

    processors: str
    promises: int
    kept: int
    broken: int
    longest_late: int


class DecisionRow(NamedTuple):
    """A decision; ``action``: set, late, shadow or none; walltimes in seconds."""

    decided: int
    event: str
    job: str
    user: str
    queue: str
    walltime: int | None
    soft_walltime: int | None
    action: str
    basis: str


class StaffRows(NamedTuple):
    waiting: tuple[WaitingRow, ...]
    promises: tuple[PromisesRow, ...]
    decisions: tuple[DecisionRow, ...]


def read_staff(connection: Connection, now: int, most: int) -> StaffRows:
    """Return the rows.

    :param now: epoch seconds.
    :param most: maximum waiting jobs, and decisions.
    """
    waiting = connection.execute(query("staff_waiting"), {"now": now, "most": most})
    promises = connection.execute(query("staff_promises"))
    decisions = connection.execute(query("staff_decisions"), {"most": most})
    return StaffRows(
        tuple(WaitingRow(*row) for row in waiting), tuple(PromisesRow(*row) for row in promises),
        tuple(DecisionRow(*row) for row in decisions),
    )  # fmt: skip
