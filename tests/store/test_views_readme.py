"""sql/README.md asks every view something, and what it asks can be asked."""

import re

import pytest
from sqlalchemy import Connection

from softwalltime.store.definitions import views
from tests.samples import ROOT

README = (ROOT / "sql" / "README.md").read_text()
# Each question with the header of its answer.
EXAMPLES = re.findall(r"```sql\n(select.*?;)\n```\n\n```\n(.*?)\n", README, re.DOTALL)


def test_every_view_has_a_heading_and_a_question() -> None:
    headings = {name for line in re.findall(r"^### (.*)$", README, re.MULTILINE) for name in line.split(", ")}
    assert headings == views().keys()
    asked = set(re.findall(r"softwalltime\.(\w+)", " ".join(question for question, _ in EXAMPLES)))
    assert asked == headings
    assert README.count("```sql") == len(EXAMPLES), "each question has its answer"


@pytest.mark.postgres
@pytest.mark.parametrize(("question", "header"), EXAMPLES, ids=[question.split("\n")[0] for question, _ in EXAMPLES])
def test_the_question_is_answered_with_these_columns(connection: Connection, question: str, header: str) -> None:
    columns = list(connection.exec_driver_sql(question.replace("%", "%%")).keys())
    assert columns == [name.strip() for name in header.split("|")]
