"""The migrations create the tables of the code, for any role and when repeated."""

import re
from collections.abc import Iterator
from threading import Thread

import pytest
from sqlalchemy import Engine, MetaData, text
from sqlalchemy.dialects.postgresql import ENUM

from softwalltime.cli import run
from softwalltime.core import resources
from softwalltime.core.errors import StoreError, UsageError
from softwalltime.core.settings import load_settings
from softwalltime.store.connections import connect
from softwalltime.store.definitions import functions
from softwalltime.store.migrations import check, current, downgrade, head, require_head, upgrade
from softwalltime.store.opening import open_engine, open_store
from softwalltime.store.queries import named
from softwalltime.store.tables import SCHEMA, metadata
from tests.store.stored import count_jobs

pytestmark = pytest.mark.postgres

# All that PostgreSQL knows of our tables, each thing a line.
CATALOG = text("""
    SELECT format('%s %s %s %s %s %s %s',
        relation.relname, number.attname, format_type(number.atttypid, number.atttypmod), number.attnotnull,
        number.attidentity, collation_.collname, pg_get_expr(default_.adbin, default_.adrelid))
        || coalesce(col_description(relation.oid, number.attnum), 'NO COMMENT')
    FROM pg_class AS relation
    JOIN pg_attribute AS number ON number.attrelid = relation.oid AND number.attnum > 0 AND NOT number.attisdropped
    LEFT JOIN pg_collation AS collation_ ON collation_.oid = number.attcollation
    LEFT JOIN pg_attrdef AS default_ ON default_.adrelid = relation.oid AND default_.adnum = number.attnum
    WHERE relation.relnamespace = to_regnamespace('softwalltime') AND relation.relkind = 'r'
    UNION ALL
    SELECT pg_get_indexdef(indexrelid) FROM pg_index
    JOIN pg_class AS relation ON relation.oid = indrelid AND relation.relnamespace = to_regnamespace('softwalltime')
    UNION ALL
    SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = to_regnamespace('softwalltime') AND contype <> 'n'
    UNION ALL
    SELECT relname || ': ' || coalesce(obj_description(oid, 'pg_class'), 'NO COMMENT') FROM pg_class
    WHERE relnamespace = to_regnamespace('softwalltime') AND relkind = 'r'
    ORDER BY 1
""")


@pytest.fixture
def empty(empty_database: str) -> Iterator[Engine]:
    engine = connect(empty_database)
    yield engine
    engine.dispose()


def _catalog(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        lines: list[str] = list(connection.execute(CATALOG).scalars())
    return [line for line in lines if "alembic_version" not in line]


def _run(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_the_migrations_add_up_to_the_tables_in_the_code(engine: Engine) -> None:
    there = MetaData(schema=SCHEMA)
    there.reflect(engine)
    for table in metadata.tables.values():
        made = {column.name: column.type for column in there.tables[table.fullname].columns}
        for column in table.columns:
            found = made[column.name].compile(engine.dialect).partition(" COLLATE")[0]
            assert column.type.compile(engine.dialect) == found, column
            if isinstance(column.type, ENUM):
                assert column.type.enums == made[column.name].enums
    lines = _catalog(engine)
    assert len(lines) > 50
    assert not [line for line in lines if "NO COMMENT" in line]
    assert check(engine) == []


def test_up_down_and_up_again(empty: Engine) -> None:
    assert current(empty) == ""
    assert "revision: it is none" in check(empty)[0]
    upgrade(empty)
    there = _catalog(empty)
    assert current(empty) == head()
    downgrade(empty, "base")
    assert current(empty) == ""
    assert _catalog(empty) == []
    with empty.connect() as connection:
        left = connection.execute(
            text("SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace('softwalltime')")
        )
        assert left.all() == []
    upgrade(empty)
    assert _catalog(empty) == there


def test_each_migration_can_be_undone(empty: Engine) -> None:
    upgrade(empty)
    seen = [current(empty)]
    while seen[-1]:
        downgrade(empty, "-1")
        seen.append(current(empty))
    assert len(seen) == len(list((resources.folder("migrations") / "versions").glob("*.py"))) + 1
    upgrade(empty)
    assert check(empty) == []


def test_upgrading_what_is_up_to_date_changes_nothing(engine: Engine) -> None:
    before = _catalog(engine)
    upgrade(engine)
    assert _catalog(engine) == before
    assert check(engine) == []


def test_two_upgrades_at_once_are_one(empty: Engine) -> None:
    problems: list[BaseException] = []

    def run() -> None:
        try:
            upgrade(empty)
        except BaseException as error:
            problems.append(error)

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert check(empty) == []


def test_an_upgrade_that_fails_leaves_nothing_behind(empty: Engine) -> None:
    _run(empty, "CREATE SCHEMA softwalltime", "CREATE TABLE softwalltime.malformed_lines (other integer)")
    with pytest.raises(Exception, match="already exists"):
        upgrade(empty)
    assert current(empty) == ""
    assert len(_catalog(empty)) == 2


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("ALTER TABLE softwalltime.completed_jobs DROP COLUMN place", "column completed_jobs.place: missing"),
        ("ALTER TABLE softwalltime.completed_jobs ADD COLUMN x int", "column completed_jobs.x: not wanted"),
        ("ALTER TABLE softwalltime.completed_jobs ALTER mem TYPE int", "type completed_jobs.mem: differs"),
        ("ALTER TABLE softwalltime.completed_jobs ALTER ctime DROP NOT NULL", "nullable completed_jobs.ctime: differs"),
        ("DROP INDEX softwalltime.completed_jobs_by_user", "index completed_jobs_by_user: missing"),
        ("DROP TABLE softwalltime.log_positions CASCADE", "table log_positions: missing"),
        ("CREATE TABLE softwalltime.other ()", "table other: not wanted"),
        ("COMMENT ON COLUMN softwalltime.completed_jobs.mem IS 'x'", "comment completed_jobs.mem: differs"),
        (
            "DROP FUNCTION softwalltime.last2",
            "function last2(for_user text, as_of bigint): missing",
        ),
        (
            "COMMENT ON FUNCTION softwalltime.last2 IS 'x'",
            "function last2(for_user text, as_of bigint): outdated",
        ),
        (
            "CREATE FUNCTION softwalltime.last2(x text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "function last2(x text): not wanted",
        ),
        (
            """CREATE OR REPLACE FUNCTION softwalltime.usage(for_user text, for_walltime bigint, as_of bigint)
            RETURNS float LANGUAGE sql AS 'SELECT 1.0::float'""",
            "function usage(for_user text, for_walltime bigint, as_of bigint): outdated",
        ),
    ],
)
def test_what_differs_is_found(engine: Engine, statement: str, found: str) -> None:
    _run(engine, statement)
    assert check(engine) == [found]
    # Looking has repaired nothing.
    assert check(engine) == [found]
    # They need no migration.
    if found.startswith(("function", "comment")):
        upgrade(engine)
        assert check(engine) == []


def test_functions_of_others_and_whole_new_signatures_are_no_obstacle(engine: Engine) -> None:
    _run(
        engine,
        "CREATE FUNCTION softwalltime.site(x int) RETURNS int LANGUAGE sql AS 'SELECT x'",
        "DROP FUNCTION softwalltime.last2_plus",
        # The same parameter types under other names with another result, which PostgreSQL does not replace.
        "CREATE FUNCTION softwalltime.last2_plus(a text, b bigint, c double precision) RETURNS text "
        "LANGUAGE sql AS 'SELECT a'",
        "CREATE FUNCTION softwalltime.last2_plus(a text) RETURNS text LANGUAGE sql AS 'SELECT a'",
    )
    assert len(check(engine)) == 3
    upgrade(engine)
    assert check(engine) == []
    with engine.connect() as connection:
        assert connection.execute(text("SELECT softwalltime.site(3)")).scalar_one() == 3


def test_a_database_of_a_newer_version_is_left_alone(engine: Engine) -> None:
    _run(engine, "UPDATE softwalltime.alembic_version SET version_num = '9999'")
    for use in (upgrade, require_head, check, lambda engine: downgrade(engine, "base")):
        with pytest.raises(
            StoreError,
            match=rf"at revision 9999, which .* does not know, .*: install that version, or run .* downgrade {head()}$",
        ):
            use(engine)


def test_db_check_advises_no_upgrade_of_a_newer_store(
    database: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(engine, "UPDATE softwalltime.alembic_version SET version_num = '9999'")
    assert run(["db", "check", "--dsn", database]) == 1
    said = capsys.readouterr()
    assert "db upgrade" not in said.out + said.err
    assert "install that version, or run its softwalltime db downgrade" in said.err


def test_db_commands_print_what_they_found(database: str, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(["db", *arguments, "--dsn", database]) == status
        return capsys.readouterr().out

    assert printed("check") == "tables and functions are as this version needs them\n"
    _run(engine, "ALTER TABLE softwalltime.log_positions ADD COLUMN ours integer")
    *differences, advice = printed("check", status=1).splitlines()
    assert any("log_positions.ours: not wanted" in difference for difference in differences)
    assert advice == "run: softwalltime db upgrade"
    _run(engine, "ALTER TABLE softwalltime.log_positions DROP COLUMN ours")
    assert printed("downgrade", head()) == printed("upgrade") == f"the store is at revision {head()}\n"
    assert "rows deleted\n" in printed("prune")


@pytest.mark.parametrize("revision", ["7777", "no such", "+9"])
def test_a_revision_that_does_not_exist_is_a_wrong_argument(engine: Engine, revision: str) -> None:
    with pytest.raises(UsageError, match=f"^revision '{revision.replace('+', '.')}': "):
        upgrade(engine, revision)


def test_an_upgrade_that_another_blocks_gives_up_and_names_it(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softwalltime.store.connections.LOCK_TIMEOUT", "100ms")
    engine = connect(database)
    with engine.begin() as other:
        other.execute(text("SELECT FROM softwalltime.scores"))
        process = other.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with pytest.raises(StoreError, match=rf"lock timeout; .*; blocked by process {process} of role \w+ \(softwall"):
            downgrade(engine, "-1")
    engine.dispose()


def test_a_store_by_its_dsn_is_migrated_only_when_asked(empty_database: str) -> None:
    settings = load_settings(dsn=empty_database)
    with pytest.raises(StoreError, match=r"has no tables of softwalltime, but .* run softwalltime db upgrade"):
        open_store(settings).__enter__()
    with open_engine(settings) as engine:
        assert current(engine) == ""
    for migrate in (True, False):
        with open_store(settings, migrate=migrate) as engine, engine.connect() as connection:
            assert count_jobs(connection) == 0


def test_every_function_is_described() -> None:
    assert len([*named("functions")]) == len(functions()) >= 8
    for name, statements in functions().items():
        assert len(re.findall(rf"COMMENT ON FUNCTION\s+softwalltime\.{name}\(", statements)) == 1
        # Between the name and the statement, what it does.
        assert statements.strip().startswith("-- ")


def test_a_role_without_privileges_gets_an_error_with_advice(engine: Engine) -> None:
    _run(engine, "CREATE ROLE softwalltime_test_y LOGIN")
    try:
        with engine.connect() as connection:
            connection.execute(text("SET ROLE softwalltime_test_y"))
            with pytest.raises(StoreError, match="privilege"):
                count_jobs(connection)
    finally:
        _run(engine, "DROP ROLE softwalltime_test_y")
