"""Upgrade, downgrade and check the tables, functions and views of the database.

An upgrade is one transaction with all migrations, comments, functions and views.  Concurrent ones wait for each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateSchema

from softwalltime.core import resources
from softwalltime.core.errors import StoreError, UsageError
from softwalltime.store.connections import blockers_named, run_script
from softwalltime.store.definitions import (
    install_functions,
    install_views,
    installed_functions,
    installed_views,
    remove_functions,
    remove_views,
)
from softwalltime.store.queries import query
from softwalltime.store.tables import SCHEMA

_Parts = dict[tuple[str, str], tuple[str, str]]
"""Objects of the schema: parent and definition, by kind and name."""
_COMMENT = "Jobs, predictions and monitoring figures of softwalltime"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Upgrade the schema to ``revision``, creating it if needed, and install functions and views at the head.

    :raises UsageError: if there is no such revision.
    :raises StoreError: if a newer version of this package was here, a privilege is missing, or another session holds
        locks on the tables for a minute.
    """
    with _changing(engine, create=True) as connection:
        before = _current(connection)
        require_known(before)
        if before != head():
            remove_views(connection)
        _alembic(command.upgrade, connection, revision)
        _complete(connection)


def downgrade(engine: Engine, revision: str) -> None:
    """Downgrade the schema to ``revision``; ``base`` leaves only the schema and its empty version table.

    :raises UsageError: if there is no such revision.
    """
    with _changing(engine) as connection:
        require_known(_current(connection))
        # The head's views may need newer tables; the older version installs its own.
        remove_views(connection)
        remove_functions(connection)
        _alembic(command.downgrade, connection, revision)
        _complete(connection)


def _complete(connection: Connection) -> None:
    """Install comments, functions and views, which change without migrations, if the schema is at the head."""
    if _current(connection) == head():
        run_script(connection, (resources.folder("sql") / "comments.sql").read_text(encoding="utf-8"))
        install_functions(connection)
        install_views(connection)


def head() -> str:
    """Return the revision that this version of the package needs."""
    return _script().get_current_head() or ""


def current(engine: Engine) -> str:
    """Return the revision of the database; ``""`` if it was never upgraded."""
    with engine.connect() as connection:
        return _current(connection)


def require_head(engine: Engine) -> None:
    """Refuse a database with another revision than this version needs.

    :raises StoreError: says what to run.
    """
    revision = current(engine)
    require_known(revision)
    if revision != head():
        state = f"is at revision {revision}" if revision else "has no tables of softwalltime"
        raise StoreError(f"the database {state}, but {head()} is needed; run softwalltime db upgrade")


def check(engine: Engine) -> list[str]:
    """Return the differences between the database and the schema of this version, one line each.

    Changes nothing, but needs the privileges of an upgrade: it creates the schema in a transaction and rolls it back.

    :raises StoreError: if a newer version of this package upgraded the database.
    """
    with engine.connect() as connection, connection.begin() as transaction, blockers_named(connection):
        _lock_schema(connection)
        revision = _current(connection)
        # Refuse a newer schema: its differences are expected.
        require_known(revision)
        installed = _installed(connection)
        if _has_schema(connection):
            connection.execute(text(f"ALTER SCHEMA {SCHEMA} RENAME TO {SCHEMA}_checked"))
        connection.execute(CreateSchema(SCHEMA))
        _alembic(command.upgrade, connection, "head")
        _complete(connection)
        wanted = _installed(connection)
        transaction.rollback()
    lines = list(_differences(installed, wanted))
    tables = [line for line in lines if not line.startswith(("function ", "view "))]
    if revision != head():
        return [f"revision: it is {revision or 'none'}, {head()} is needed", *tables]
    # If a table is missing, omit the views and functions that need it.
    return tables if any(line.endswith(": missing") for line in tables) else lines


def _installed(connection: Connection) -> _Parts:
    """Return tables, their parts, functions and views."""
    rows = connection.execute(query("installed_tables"), {"schema": SCHEMA})
    parts = {(row.kind, row.name): (row.parent, row.definition) for row in rows}
    for kind, definitions in (("function", installed_functions(connection)), ("view", installed_views(connection))):
        parts |= {(kind, name): ("", definition) for name, definition in definitions.items()}
    return parts


@contextmanager
def _changing(engine: Engine, *, create: bool = False) -> Iterator[Connection]:
    with engine.begin() as connection, blockers_named(connection):
        if create:
            _create_schema(connection)
        _lock_schema(connection)
        yield connection


def _create_schema(connection: Connection) -> None:
    """Create the schema if it does not exist; wait for another transaction that is creating it."""
    if _has_schema(connection):
        return
    try:
        with connection.begin_nested():
            connection.execute(CreateSchema(SCHEMA, if_not_exists=True))
    except IntegrityError:
        # The other transaction was first, and has ended.
        if not _has_schema(connection):
            raise


def _has_schema(connection: Connection) -> bool:
    return bool(connection.execute(select(func.to_regnamespace(SCHEMA).is_not(None))).scalar_one())


def _lock_schema(connection: Connection) -> None:
    """Wait for other upgrades, and block later ones until the transaction ends.

    COMMENT is the weakest statement that locks a schema, and only the schema's owner may run it.
    """
    if _has_schema(connection):
        connection.execute(text(f"COMMENT ON SCHEMA {SCHEMA} IS '{_COMMENT}'"))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _alembic(action: Any, connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    try:
        action(config, revision)
    except CommandError as error:
        raise UsageError(f"revision {revision!r}: {error}") from error


def _current(connection: Connection) -> str:
    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    return context.get_current_revision() or ""


def require_known(revision: str) -> None:
    """Refuse a revision of a newer version.

    :raises StoreError: says what to do.
    """
    if not revision or revision in {known.revision for known in _script().walk_revisions()}:
        return
    raise StoreError(
        f"the database is at revision {revision}, which this version of softwalltime does not know, because a "
        f"newer version upgraded it: install that version, or run its softwalltime db downgrade {head()}"
    )


def _differences(installed: _Parts, wanted: _Parts) -> Iterator[str]:
    one_sided = {name for kind, name in installed.keys() ^ wanted.keys() if kind in ("table", "column")}
    for kind, name in sorted(installed.keys() | wanted.keys()):
        there, right = installed.get((kind, name)), wanted.get((kind, name))
        parent = (there or right or ("", ""))[0]
        # Omit the parts of a table or column that exists only on one side.
        if there == right or not one_sided.isdisjoint((parent, parent.partition(".")[0])):
            continue
        differs = "outdated" if kind in ("function", "view") else "differs"
        yield f"{kind} {name}: {'missing' if there is None else 'not wanted' if right is None else differs}"
