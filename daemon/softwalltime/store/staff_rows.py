"""Read what the staff page of ``softwalltime web`` shows: jobs and decisions of all users.

The columns are those of the statements in sql/queries/staff.sql; times are epoch seconds, durations seconds.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from softwalltime.store.queries import query


def read_staff(connection: Connection, now: int, most: int) -> list[Sequence[Row[Any]]]:
    """Return the rows of logs, promises, waiting jobs and decisions.

    :param now: epoch seconds.
    :param most: maximum waiting jobs, and decisions.
    """
    values = {"now": now, "most": most}
    names = ("staff_logs", "staff_promises", "staff_waiting", "staff_decisions")
    return [connection.execute(query(name), values).all() for name in names]
