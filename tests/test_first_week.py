"""deploy/FIRST_WEEK.md: it is short, and PostgreSQL accepts its queries; tests/test_readme.py checks its commands."""

import re

import pytest
from sqlalchemy import Connection

from tests.samples import ROOT

TEXT = (ROOT / "deploy" / "FIRST_WEEK.md").read_text()
GUIDES = "".join((ROOT / "deploy" / name).read_text() for name in ("GUIDE.md", "LIVE.md", "POLICIES.md"))
LINES = [line.strip() for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
QUERIES = re.findall(r"psql softwalltime -c '(.*?)'", TEXT, re.DOTALL)


def test_it_has_at_most_800_words() -> None:
    assert len(TEXT.split()) <= 800


def test_what_changes_the_host_or_pbs_is_as_in_the_guides_that_were_walked_on_a_server() -> None:
    commands = re.compile(r"su |runuser.*upgrade|systemctl|qmgr|qselect")
    changes = [line.partition("  #")[0].strip() for line in LINES if commands.match(line)]
    assert len(changes) == 6
    assert [change for change in changes if change not in GUIDES] == []


def test_it_asks_for_the_accuracy_of_the_order_and_for_waits() -> None:
    assert re.findall(r"softwalltime\.(\w+)", " ".join(QUERIES)) == ["ordering_by_day", "waits_by_day"]


@pytest.mark.postgres
@pytest.mark.parametrize("query", QUERIES)
def test_postgresql_accepts_a_query(connection: Connection, query: str) -> None:
    assert connection.exec_driver_sql(query).keys()
