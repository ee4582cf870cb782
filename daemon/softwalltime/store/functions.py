"""The SQL functions of sql/functions: installed after the migrations, so that they may change without one."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from psycopg import errors
from sqlalchemy import Connection

from softwalltime.store.engine import run_script
from softwalltime.store.queries import named, query
from softwalltime.store.tables import SCHEMA

_SIGNATURE = re.compile(r"COMMENT ON FUNCTION\s+(.*?)\s+IS\b", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its statements, CREATE and COMMENT, and its signature, ``softwalltime.last2(text, bigint)``."""

    name: str
    statements: str
    signature: str


def functions() -> Iterator[Function]:
    """What sql/functions holds, each with a COMMENT."""
    for name, statements in named("functions"):
        signature = _SIGNATURE.search(statements)
        if signature is None:
            raise ValueError(f"sql/functions: function {name} has no COMMENT ON FUNCTION")
        yield Function(name, statements, signature[1])


def install(connection: Connection) -> None:
    """Create or replace all functions, and drop those of their names that have another signature."""
    ours = list(functions())
    for function in ours:
        try:
            with connection.begin_nested():
                run_script(connection, function.statements)
        except errors.InvalidFunctionDefinition:
            # Its result or the names of its parameters have changed, which CREATE OR REPLACE refuses.
            _drop(connection, [function.name])
            run_script(connection, function.statements)
    _drop(connection, [function.name for function in ours], but=[function.signature for function in ours])


def remove(connection: Connection) -> None:
    """Drop all functions."""
    _drop(connection, [function.name for function in functions()])


def definitions(connection: Connection) -> dict[str, str]:
    """What the database has under the functions' names: by signature, all that defines it."""
    names = [function.name for function in functions()]
    found = connection.execute(query("installed_functions"), {"schema": SCHEMA, "names": names})
    return {row.signature: row.definition for row in found}


def _drop(connection: Connection, names: Collection[str], but: Collection[str] = ()) -> None:
    values = {"schema": SCHEMA, "names": list(names), "signatures": list(but)}
    for signature in connection.execute(query("outdated_functions"), values).scalars().all():
        run_script(connection, f"DROP FUNCTION {signature}")
