"""The statements of sql/queries: named, described, used, and accepted by PostgreSQL."""

import re
from itertools import takewhile
from pathlib import Path

import pytest
from sqlalchemy import Connection

from softwalltime.store.queries import named, query
from tests.samples import ROOT

NAMES = [name for name, _ in named("queries")]
PACKAGE = ROOT / "daemon" / "softwalltime"


def test_each_statement_has_a_unique_name() -> None:
    assert len(NAMES) > 20
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("name", "statement"), list(named("queries")), ids=NAMES)
def test_each_statement_is_described(name: str, statement: str) -> None:
    comments = list(takewhile(lambda line: line.startswith("-- "), statement.strip().splitlines()))
    assert comments[0][3].isupper()
    assert comments[-1].endswith(".")
    assert statement.rstrip().endswith(";")
    assert not set(comments) & set(query(name).text.splitlines()), "the description is not sent to PostgreSQL"


@pytest.mark.parametrize("name", NAMES)
def test_each_statement_is_used(name: str) -> None:
    assert any(f'"{name}"' in path.read_text() for path in PACKAGE.rglob("*.py"))


@pytest.mark.postgres
@pytest.mark.parametrize("name", NAMES)
def test_postgres_accepts_each_statement(connection: Connection, name: str) -> None:
    statement = query(name).compile(dialect=connection.dialect)
    values = dict.fromkeys(statement.params)
    connection.exec_driver_sql(f"EXPLAIN {statement}", values)


def _sources() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if path.name != "migrations.py"]


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_contains_sql(path: Path) -> None:
    source = path.read_text()
    assert "S608" not in source
    assert not re.search(r"""["'\n ](SELECT|INSERT INTO|DELETE FROM|UPDATE) [^.]*?\b(FROM|INTO|SET|VALUES)\b""", source)
