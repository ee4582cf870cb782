"""The views of sql/views: installed after the tables and functions that they look at, so that they change without a
migration, and taken away before a migration, which could not change a table that a view looks at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap

from psycopg import errors
from sqlalchemy import Connection

from softwalltime.store.engine import run_script
from softwalltime.store.queries import named, query
from softwalltime.store.tables import SCHEMA


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name, and its statements, CREATE and COMMENTs."""

    name: str
    statements: str


def views() -> Iterator[View]:
    """What sql/views holds, in the order of the files and within them."""
    yield from starmap(View, named("views"))


def install(connection: Connection) -> None:
    """Create or replace all views, and drop those that are no longer among them.

    Only where columns have changed, which PostgreSQL does not replace, all are made anew, without privileges but those
    of the monitoring roles.
    """
    ours = {view.name for view in views()}
    try:
        with connection.begin_nested():
            _drop(connection, definitions(connection).keys() - ours)
            _create(connection)
    except (errors.InvalidTableDefinition, errors.DependentObjectsStillExist):
        remove(connection)
        _create(connection)
    # Views that were made anew have lost who may read them.
    run_script(connection, f"SELECT {SCHEMA}.grant_monitoring()")


def remove(connection: Connection) -> None:
    """Drop all views in our schema, with what others have built on them."""
    _drop(connection, definitions(connection), "CASCADE")


def definitions(connection: Connection) -> dict[str, str]:
    """The views that our schema has: by name, all that defines each."""
    return {row.name: row.definition for row in connection.execute(query("installed_views"), {"schema": SCHEMA})}


def _drop(connection: Connection, names: Iterable[str], how: str = "RESTRICT") -> None:
    for name in names:
        run_script(connection, f"DROP VIEW IF EXISTS {SCHEMA}.{name} {how}")


def _create(connection: Connection) -> None:
    for view in views():
        run_script(connection, view.statements)
