"""deploy/USERS.md: a page that a site gives to its users as it is, but for two names."""

import re

from tests.samples import ROOT

PAGE = (ROOT / "deploy" / "USERS.md").read_text()
SOURCES = " ".join(
    path.read_text()
    for folder in ("service/users", "cli")
    for path in (ROOT / "daemon" / "softwalltime" / folder).glob("*.py")
)


def test_two_names_are_the_sites_and_nothing_leads_away_from_the_page() -> None:
    assert set(re.findall(r"\b[A-Z]{4,}\b", PAGE)) - {"JSON"} == {"SITE", "HELP"}
    assert "](" not in PAGE
    assert not re.search(r"\b(root|administrator|daemon\.|systemctl|psql)", PAGE)


def test_the_messages_that_it_explains_are_printed() -> None:
    rows = PAGE.partition("| message |")[2].splitlines()[2:]
    messages = [part for row in rows for part in re.split(r"; | \.\.\. |: \.\.\.", row.split("|")[1].strip()) if part]
    assert len(messages) >= 6
    assert [message for message in messages if message not in SOURCES] == []
