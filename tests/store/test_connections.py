"""Whatever is wrong with PostgreSQL is said in one line, with where and what to do, and without the password."""

import socket
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine, text

from softwalltime.core.errors import SoftwalltimeError, StoreError, UsageError
from softwalltime.store.connections import connect


def _refused(dsn: str) -> str:
    with pytest.raises(SoftwalltimeError) as caught:
        connect(dsn)
    message = str(caught.value)
    assert "\n" not in message
    return message


def _closed_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_server_that_does_not_run(scheme: str) -> None:
    message = _refused(f"{scheme}://alice:geheim@127.0.0.1:{_closed_port()}/jobs")
    assert message.startswith("cannot connect to PostgreSQL at 127.0.0.1, database jobs: ")
    assert "refused; start it, or correct the DSN" in message
    assert "geheim" not in message


def test_a_server_that_accepts_and_never_answers() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        message = _refused(f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=jobs connect_timeout=2")
    assert "timeout" in message


def test_a_database_that_does_not_exist(postgres: str) -> None:
    message = _refused(make_conninfo(postgres, dbname="no such"))
    assert 'database "no such" does not exist; create it with createdb, or correct the DSN' in message


def test_formats_that_a_database_sets_do_not_count(postgres: str, database: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(postgres, autocommit=True) as server:
        for setting in ("datestyle TO German", "standard_conforming_strings TO off", "array_nulls TO off"):
            server.execute(f'ALTER DATABASE "{name}" SET {setting}'.encode())
    engine = connect(database)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT now(), '\\d', '{NULL}'::int[]")).one()[1:] == ("\\d", [None])
    engine.dispose()


@pytest.mark.parametrize(
    "dsn",
    [
        "jobs.db",
        "host=h bogus=1",
        "postgresql://alice:geh%eim@h/jobs",
        # With these libpq takes a part of the password for the host, the port or the database.
        "postgresql://alice:geh@eim@h/jobs",
        "postgresql://alice:geh/eim@h/jobs",
        "postgresql://alice:1/eim@h/jobs",
    ],
)
def test_a_dsn_that_cannot_be_read_is_not_shown(dsn: str) -> None:
    with pytest.raises(UsageError, match="neither a URL") as caught:
        connect(dsn)
    assert "geh" not in str(caught.value)
    assert "eim" not in str(caught.value)
    assert caught.value.__context__ is None or "geh" not in str(caught.value.__context__)


def test_a_database_that_is_not_utf8_is_refused(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("CREATE DATABASE softwalltime_test_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        try:
            message = _refused(make_conninfo(postgres, dbname="softwalltime_test_latin"))
        finally:
            admin.execute("DROP DATABASE softwalltime_test_latin WITH (FORCE)")
    assert "its encoding is LATIN1, but UTF8 is needed" in message


def test_the_connection_names_itself(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("SHOW application_name")).scalar_one() == "softwalltime"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT * FROM softwalltime.nothing", "does not exist; run softwalltime db upgrade"),
        ("SELECT softwalltime.nothing()", "does not exist; run softwalltime db upgrade"),
        ("SELECT nothing FROM softwalltime.completed_jobs", "does not exist; run softwalltime db upgrade"),
        # A statement that computes: libfaketime keeps a timeout from ending one that waits (bench_clocks).
        ("SET LOCAL statement_timeout = 1; SELECT count(*) FROM generate_series(1, 100000000)", "statement_timeout"),
        ("SET TRANSACTION READ ONLY; CREATE TABLE x ()", "give the DSN of the primary"),
        (
            "CREATE ROLE softwalltime_test_x; SET ROLE softwalltime_test_x; TABLE softwalltime.completed_jobs",
            "privilege",
        ),
        ("SELECT pg_terminate_backend(pg_backend_pid())", "try again when it runs"),
    ],
)
def test_what_fails_later_is_a_store_error_too(engine: Engine, statement: str, words: str) -> None:
    def run() -> None:
        with engine.begin() as connection:
            for part in statement.split("; "):
                connection.execute(text(part))

    with pytest.raises(StoreError, match=words) as caught:
        run()
    assert str(caught.value).startswith("PostgreSQL at ")
    assert "\n" not in str(caught.value)


def test_a_mistake_of_ours_stays_what_it_is(engine: Engine) -> None:
    with pytest.raises(Exception, match="syntax error") as caught, engine.begin() as connection:
        connection.execute(text("SELEKT"))
    assert not isinstance(caught.value, StoreError)
