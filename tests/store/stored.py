"""Queries for tests: completed jobs as objects, their number, single positions."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from softwalltime.core.jobs import CompletedJob, values_of
from softwalltime.store.completed_jobs import add_prepared_jobs, prepare_jobs
from softwalltime.store.encoding import storable_text
from softwalltime.store.logs import Position, move_positions, read_positions
from softwalltime.store.tables import completed_jobs


def add_jobs(connection: Connection, jobs: Sequence[CompletedJob]) -> int:
    """Store the jobs that are not known yet, as an ingest does; return how many were stored."""
    return add_prepared_jobs(connection, [prepare_jobs([values_of(job) for job in jobs])])


def count_jobs(connection: Connection) -> int:
    """Return the number of stored jobs."""
    return connection.execute(select(func.count()).select_from(completed_jobs)).scalar_one()


def read_position(connection: Connection, server: str, path: str) -> Position | None:
    """Return how far the log at ``path`` has been read, ``None`` if it never was."""
    found = {position.path: position for position in read_positions(connection, server)}
    return found.get(storable_text(path))


def save_position(connection: Connection, position: Position) -> None:
    """Set how far a log has been read, whatever it was before."""
    move_positions(connection, [(read_position(connection, position.server, position.path), position)])
