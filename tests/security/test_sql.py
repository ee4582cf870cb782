"""No text from outside becomes part of an SQL statement."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import end_record
from softwalltime.core.jobs import DecisionRecord, Submission
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.completed_jobs import read_jobs
from softwalltime.store.connections import connect
from softwalltime.store.predictions import add_decisions
from tests.samples import ROOT, job
from tests.store.stored import add_jobs

STATEMENT = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|DROP|CREATE|ALTER|TRUNCATE|VACUUM|GRANT|REVOKE|COPY|EXECUTE)\s"
)
FILES = sorted([*(ROOT / "daemon" / "softwalltime").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")])
ALLOWED = {
    # Values formatted into statements that are neither constants of the module nor names of tables, with the reason.
    ("definitions.py", "signature"): "PostgreSQL's own words for a function of ours: oid::regprocedure, quoted by it",
    ("definitions.py", "name"): "of a view in our own schema, which only its owner can make",
    ("definitions.py", "how"): "RESTRICT or CASCADE, by the two callers",
}


def pieces(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """Return the constant part of a formatted text, and the expressions in it."""
    if isinstance(node, ast.JoinedStr):
        constant = "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        return constant, [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        sides = (node.left, node.right)
        known = [side for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
        return "".join(side.value for side in known), [side for side in sides if side not in known]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        owner = node.func.value
        if isinstance(owner, ast.Constant) and isinstance(owner.value, str):
            return owner.value, list(node.args)
    return "", []


def put_into_statements(source: str) -> Iterator[tuple[int, ast.expr]]:
    """Yield line and expression of every value formatted into SQL."""
    for node in ast.walk(ast.parse(source)):
        constant, inserted = pieces(node)
        if STATEMENT.search(constant):
            for expression in inserted:
                yield getattr(node, "lineno", 0), expression


def is_ours(expression: ast.expr) -> bool:
    """Return whether it is the name of a table, or consists of constants of the module."""
    if isinstance(expression, ast.Attribute):
        return expression.attr == "fullname"
    named = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
    return bool(named) and all(name.lstrip("_").isupper() for name in named)


def test_only_own_names_are_formatted_into_statements() -> None:
    found = {
        (path.name, ast.unparse(expression)): f"{path}:{line}"
        for path in FILES
        for line, expression in put_into_statements(path.read_text())
        if not is_ours(expression)
    }
    assert found.keys() == ALLOWED.keys(), found


@pytest.mark.parametrize(
    "source",
    [
        'execute(f"SELECT * FROM t WHERE user = {user}")',
        "execute(\"SELECT * FROM t WHERE user = '%s'\" % user)",
        'execute("SELECT * FROM t WHERE user = " + user)',
        'execute("DELETE FROM t WHERE user = {}".format(user))',
        'execute("SELECT 1 WHERE user = " + request.user)',
    ],
)
def test_the_check_finds_a_formatted_value(source: str) -> None:
    ((_, expression),) = put_into_statements(source)
    assert not is_ours(expression)


def test_the_sql_functions_build_no_statements() -> None:
    for path in (ROOT / "sql").rglob("*.sql"):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
        for line in re.findall(r"^.*\bEXECUTE\b(?!\s+(?:FUNCTION|ON|PROCEDURE)).*$", code, re.MULTILINE):
            # format() with %I quotes names; no other text may be executed.
            assert re.search(r"format\((?!.*(%s|\|\|))", line), f"{path}: {line}"
        assert "SECURITY DEFINER" not in code.upper(), path


# ---- Hostile names ---------------------------------------------------------------------------------------------------

HOSTILE = (
    "'; DROP TABLE softwalltime.predictions; --",
    "x' OR '1'='1",
    "\\'; SELECT pg_sleep(10); --",
    "$$; DROP SCHEMA softwalltime CASCADE; $$",
    "%s %(user)s {user} :user ?",
    "a\tb\\.\\N",
    "None",
    "\\N",
    '"; DROP TABLE x; "',
    "naïve‮🦀",
)
names = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=80
)
PREDICTORS = ("usage", "usage-long", "last2", "last2+900", "percentile")
COUNTS = text(
    "SELECT (SELECT count(*) FROM softwalltime.completed_jobs), (SELECT count(*) FROM softwalltime.predictions), "
    "(SELECT count(*) FROM pg_tables WHERE schemaname = 'softwalltime')"
)


@pytest.mark.postgres
@settings(max_examples=80)
@given(user=names, project=names, name=names, basis=names)
def test_hostile_names_are_stored_and_requested_unchanged(
    user: str, project: str, name: str, basis: str, connection: Connection
) -> None:
    # PostgreSQL stores no text with NUL, and an empty user is no user.
    user = user or "x"
    with connection.begin_nested() as nested:
        before = connection.execute(COUNTS).one()
        stored = job(user, project=project, job_name=name, job_id="1.s")
        assert add_jobs(connection, [stored, job(user, project=project, job_id="2.s")]) == 2
        submission = Submission("9.s", user, 5, 3600, project=project, job_name=name)
        add_decisions(connection, [DecisionRecord(5, "queuejob", submission, "on", "v1", 60.0, 60, "set", basis, 1)])
        assert stored in list(read_jobs(connection))
        row = connection.execute(
            text("SELECT user_name, project, basis FROM softwalltime.predictions ORDER BY id DESC LIMIT 1")
        ).one()
        assert row == (user, project, basis)
        for predictor in PREDICTORS:
            asked = text("SELECT softwalltime.predict(:predictor, :user, :project, 1000, 100000)")
            values = {"predictor": predictor, "user": user, "project": project}
            known = connection.execute(asked, values).scalar_one()
            assert known is None or known > 0
        after = connection.execute(COUNTS).one()
        assert (after[0] - before[0], after[1] - before[1], after[2]) == (2, 1, before[2])
        nested.rollback()


@pytest.mark.postgres
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_predictor_name_is_unknown(hostile: str, connection: Connection) -> None:
    asked = text("SELECT softwalltime.predict(:predictor, 'alice', 'p', 1000, 100000)")
    tables = connection.execute(COUNTS).one()
    with connection.begin_nested() as nested:
        try:
            found = connection.execute(asked, {"predictor": hostile}).scalar_one()
        except Exception as error:
            assert "predictor" in str(error)
            found = None
        assert found is None
        nested.rollback()
    assert connection.execute(COUNTS).one() == tables


@pytest.mark.postgres
def test_a_log_with_hostile_names_is_ingested_unchanged(database: str, tmp_path: Path) -> None:
    jobs = [
        job("alice", job_id=f"{number}.srv", account=hostile, project=f"p{number}")
        for number, hostile in enumerate(HOSTILE, 1)
        if "\n" not in hostile
    ]
    log = tmp_path / "20261120"
    log.write_text("".join(f"11/20/2026 10:16:10;E;{each.submission.job_id};{end_record(each)}\n" for each in jobs))
    engine = connect(database)
    tally = Tally()
    try:
        stored, _ = ingest_logs(engine, [log], tally)
        with engine.connect() as connection:
            assert connection.execute(COUNTS).one()[0] == stored
            accounts = {each.submission.account for each in read_jobs(connection)}
    finally:
        engine.dispose()
    assert stored + tally.malformed == len(jobs)
    assert {"'; DROP TABLE softwalltime.predictions; --", "x' OR '1'='1", "\\N"} <= accounts
