"""The sessions that block a statement which waited too long for a lock."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from softwalltime.errors import StoreError
from softwalltime.store.queries import query

LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of a lock timeout."""
_REMEDY = ": if it does not end, end it with SELECT pg_terminate_backend(PROCESS) as its role or a superuser"


@contextmanager
def blockers_named(connection: Connection, table: str | None = None) -> Iterator[None]:
    """Add the blocking sessions to the error of a lock timeout.

    :param table: the table that was to be locked; ``None``: any of ours, for reading too.
    :raises StoreError: instead of the lock timeout; says which sessions to end.
    """
    try:
        yield
    except StoreError as error:
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        # Another connection: the transaction of this one has failed.
        with connection.engine.connect() as other:
            sessions = other.execute(query("blocking_sessions"), {"table": table}).scalars().all()
        if not sessions:
            raise
        raise StoreError(f"{error}; blocked by {' and '.join(sessions)}{_REMEDY}") from error


def sqlstate(error: Exception) -> str:
    """Return PostgreSQL's code of an error that SQLAlchemy or this package raised from it; ``""`` if it has none."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, DBAPIError):
        cause = cause.orig
    return getattr(cause, "sqlstate", None) or ""
