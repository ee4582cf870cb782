"""Read the jobs that each user may see, for all users at once; the rows are complete JSON.

``server`` selects the jobs of one PBS server; empty: of all servers of the store.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from softwalltime.store.queries import query


class OwnRows(NamedTuple):
    """A user's waiting, running or ended jobs: their number, and the first of them as the text of a JSON array."""

    user: str
    jobs: int
    rows: str


class PastRuntimes(NamedTuple):
    """Runtimes of a user's jobs that requested one walltime, in seconds, in order of submission."""

    user: str
    walltime: int
    runtimes: Sequence[int]


class LiveRows(NamedTuple):
    """The waiting and running jobs of all users, and the time of the last forecast by server (epoch seconds).

    ``probes``: expected starts of jobs that are not submitted yet, the same for all users, as the text of a JSON array.
    """

    forecasts: tuple[tuple[str, int], ...]
    waiting: tuple[OwnRows, ...]
    running: tuple[OwnRows, ...]
    probes: str = "[]"


def read_live(connection: Connection, most: int, server: str = "") -> LiveRows:
    """Return the waiting and running jobs of each user, and the expected starts of jobs that are not submitted yet.

    :param most: maximum waiting, and running, jobs of one user.
    """
    forecasts = connection.execute(query("own_forecasts"), {"server": server}).all()
    return LiveRows(
        tuple((row.server, row.forecast_at) for row in forecasts),
        tuple(_rows(connection, "own_waiting", most=most, server=server)),
        tuple(_rows(connection, "own_running", most=most, server=server)),
        connection.execute(query("own_probes"), {"server": server}).scalar_one(),
    )


def read_ended(connection: Connection, since: int, most: int, server: str = "") -> Iterator[OwnRows]:
    """Yield the last ended jobs of each user.

    :param since: epoch seconds.
    :param most: maximum jobs of one user.
    """
    yield from _rows(connection, "own_ended", since=since, most=most, server=server)


def read_requests(connection: Connection, since: int, least: int, server: str = "") -> Iterator[PastRuntimes]:
    """Yield the past runtimes by user and requested walltime.

    :param since: of jobs that ended at that time or later, epoch seconds.
    :param least: minimum number of jobs of a user with the same walltime.
    """
    for row in connection.execute(query("own_requests"), {"since": since, "least": least, "server": server}):
        yield PastRuntimes(row.user_name, row.walltime, row.runtimes)


def _rows(connection: Connection, name: str, **values: int | str) -> Iterator[OwnRows]:
    for user, jobs, rows in connection.execute(query(name), values):
        yield OwnRows(user, jobs, rows)
