"""Install, remove and list the SQL functions of sql/functions, the views of sql/views, and all comments.

They are installed after the migrations, so they can change without one.  Views are dropped before a migration, because
PostgreSQL refuses to alter a table that a view reads.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cache

from psycopg import errors
from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.schema import SetColumnComment
from sqlalchemy.types import NullType

from softwalltime.core import resources
from softwalltime.store.connections import run_script
from softwalltime.store.queries import named, query
from softwalltime.store.tables import SCHEMA

_SIGNATURE = re.compile(r"COMMENT ON FUNCTION\s+(.*?)\s+IS\b", re.DOTALL)
"""A function's name and parameter types, such as ``softwalltime.last2(text, bigint)``, in its COMMENT."""


def functions() -> dict[str, str]:
    """Return the CREATE and COMMENT statements of the functions of sql/functions, by name."""
    return dict(named("functions"))


def install_functions(connection: Connection) -> None:
    """Create or replace all functions, and drop functions with their names and other signatures."""
    ours = functions()
    for name, statements in ours.items():
        try:
            with connection.begin_nested():
                run_script(connection, statements)
        except errors.InvalidFunctionDefinition:
            # CREATE OR REPLACE refuses a changed result type or changed parameter names.
            _drop_functions(connection, [name])
            run_script(connection, statements)
    _drop_functions(connection, ours, but=_SIGNATURE.findall("".join(ours.values())))


def remove_functions(connection: Connection) -> None:
    _drop_functions(connection, functions())


def installed_functions(connection: Connection) -> dict[str, str]:
    """Return the definitions of the functions in the database, by signature."""
    rows = connection.execute(query("installed_functions"), {"schema": SCHEMA, "names": list(functions())})
    return {row.signature: row.definition for row in rows}


def _drop_functions(connection: Connection, names: Collection[str], but: Collection[str] = ()) -> None:
    values = {"schema": SCHEMA, "names": list(names), "signatures": list(but)}
    for signature in connection.execute(query("outdated_functions"), values).scalars().all():
        run_script(connection, f"DROP FUNCTION {signature}")


def views() -> dict[str, str]:
    """Return the CREATE and COMMENT statements of the views of sql/views, by name, in the order of their creation."""
    return dict(named("views"))


def install_views(connection: Connection) -> None:
    """Create or replace all views, and drop views that are no longer in sql/views.

    If columns have changed, which CREATE OR REPLACE refuses, drop and create all views; only the privileges of the
    monitoring roles are restored.
    """
    try:
        with connection.begin_nested():
            _drop_views(connection, installed_views(connection).keys() - views())
            _create_views(connection)
    except (errors.InvalidTableDefinition, errors.DependentObjectsStillExist):
        remove_views(connection)
        _create_views(connection)
    # Dropped views have lost their privileges.
    run_script(connection, f"SELECT {SCHEMA}.grant_monitoring()")


def remove_views(connection: Connection) -> None:
    """Drop all views of the schema, and everything that depends on them."""
    _drop_views(connection, installed_views(connection), "CASCADE")


def installed_views(connection: Connection) -> dict[str, str]:
    return {row.name: row.definition for row in connection.execute(query("installed_views"), {"schema": SCHEMA})}


def _drop_views(connection: Connection, names: Iterable[str], how: str = "RESTRICT") -> None:
    for name in names:
        run_script(connection, f"DROP VIEW IF EXISTS {SCHEMA}.{name} {how}")


def _create_views(connection: Connection) -> None:
    """Create the views; columns without a comment in the view's statements get the shared one, where it differs."""
    own: set[tuple[str, str]] = set()
    for statements in views().values():
        run_script(connection, statements)
        own.update(_OWN.findall(statements))
    for name, column, comment in connection.execute(query("view_columns"), {"schema": SCHEMA}).all():
        wanted = column_comments().get(column)
        if (name, column) not in own and wanted != comment:
            commented = Column(column, NullType(), comment=wanted)
            Table(name, MetaData(schema=SCHEMA), commented)
            connection.execute(SetColumnComment(commented))


_COLUMN = re.compile(r"COMMENT ON COLUMN softwalltime\.\w+\.(\w+) IS\s+'((?:[^']|'')*)';")
_OWN = re.compile(r"COMMENT ON COLUMN\s+softwalltime\.(\w+)\.(\w+)\s+IS\b")


def view_columns() -> dict[str, str]:
    """Return the comments of sql/view_columns.toml, by column name."""
    return tomllib.loads((resources.folder("sql") / "view_columns.toml").read_text(encoding="utf-8"))


@cache
def column_comments() -> dict[str, str]:
    """Return comments by column name: of view_columns.toml, else the one that all table columns of this name share."""
    comments: dict[str, set[str]] = defaultdict(set)
    for name, comment in _COLUMN.findall((resources.folder("sql") / "comments.sql").read_text(encoding="utf-8")):
        comments[name].add(comment.replace("''", "'"))
    return {name: next(iter(texts)) for name, texts in comments.items() if len(texts) == 1} | view_columns()
