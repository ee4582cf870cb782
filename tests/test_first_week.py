"""deploy/FIRST_WEEK.md: it is short, and PostgreSQL accepts its queries; tests/test_readme.py checks its commands."""

import re

import pytest
from sqlalchemy import Connection

from tests.samples import ROOT

TEXT = (ROOT / "deploy" / "FIRST_WEEK.md").read_text()
QUERIES = re.findall(r"psql softwalltime -c '(.*?)'", TEXT, re.DOTALL)


def test_it_has_at_most_800_words() -> None:
    assert len(TEXT.split()) <= 800


def test_it_asks_for_scores_and_waits() -> None:
    assert re.findall(r"softwalltime\.(\w+)", " ".join(QUERIES)) == ["scores_by_day", "waits_by_day"]


@pytest.mark.postgres
@pytest.mark.parametrize("query", QUERIES)
def test_postgresql_accepts_a_query(connection: Connection, query: str) -> None:
    assert connection.exec_driver_sql(query).keys()
