"""Read what the staff page of ``softwalltime web`` shows: jobs and decisions of all users.

The columns are those of the statements in sql/queries/staff.sql; times are epoch seconds, durations seconds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from softwalltime.store.queries import query


class StaffRows(NamedTuple):
    logs: Sequence[Row[Any]]
    promises: Sequence[Row[Any]]
    waiting: Sequence[Row[Any]]
    decisions: Sequence[Row[Any]]


def read_staff(connection: Connection, now: int, most: int) -> StaffRows:
    """Return the rows.

    :param now: epoch seconds.
    :param most: maximum waiting jobs, and decisions.
    """
    return StaffRows(
        connection.execute(query("staff_logs")).all(),
        connection.execute(query("staff_promises")).all(),
        connection.execute(query("staff_waiting"), {"now": now, "most": most}).all(),
        connection.execute(query("staff_decisions"), {"most": most}).all(),
    )
