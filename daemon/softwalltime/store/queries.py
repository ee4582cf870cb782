"""Load the statements of the SQL files in sql/ by name.

``-- name: NAME`` begins a statement, comment lines below it describe it, and what precedes the first name in a file
describes the file.
"""

import re
from collections.abc import Iterator
from functools import cache

from sqlalchemy import TextClause, text

from softwalltime.core import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_DESCRIPTION = re.compile(r"\A\s*((?:--.*\n)+)")


def named(folder: str) -> Iterator[tuple[str, str]]:
    """Yield names and statements of a folder of sql/, in the order of the files and within them."""
    for file in sorted((resources.folder("sql") / folder).glob("*.sql")):
        _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
        yield from zip(parts[::2], parts[1::2], strict=True)


def query(name: str) -> TextClause:
    """Return the statement of sql/queries with this name; ``:parameter`` in it is a bound parameter."""
    return _queries()[name]


@cache
def _queries() -> dict[str, TextClause]:
    # Remove the description: SQLAlchemy would bind a :parameter mentioned there.
    return {name: text(_DESCRIPTION.sub("", statement).strip().rstrip(";")) for name, statement in named("queries")}
