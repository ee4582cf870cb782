"""A PostgreSQL for tests, and databases in it: one is migrated once and copied for each test that asks.

The server is the one that SOFTWALLTIME_TEST_DSN names (its user must be allowed to create databases), else one in a
container where a Docker engine answers, else the embedded one.
"""

import os
import shutil
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, event

from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import upgrade

MIN_FREE_BYTES = 2 * 2**30
_numbers = count(1)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for PostgreSQL's data, which its account can reach, unlike pytest's own folders.

    In memory where there is space: a copy of a database is 300 files, which takes six times longer on a disk.
    """
    memory = Path("/dev/shm")
    fits = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MIN_FREE_BYTES
    with tempfile.TemporaryDirectory(prefix="softwalltime-test-", dir=memory if fits else "/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """DSN of a server in which databases may be created."""
    if dsn := os.environ.get("SOFTWALLTIME_TEST_DSN"):
        yield dsn
    elif _docker_answers():
        with _container() as dsn:
            yield dsn
    else:
        with scratch() as folder, embedded_postgres(folder / "data", durable=False) as dsn:
            yield dsn


@pytest.fixture(scope="session")
def migrated(postgres: str) -> Iterator[str]:
    """Name of a database with all tables and functions, to copy."""
    with _database(postgres, "template0") as dsn:
        engine = connect(dsn)
        upgrade(engine)
        engine.dispose()
        yield psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]


@pytest.fixture
def empty_database(postgres: str) -> Iterator[str]:
    """DSN of an empty database of this test's own."""
    with _database(postgres, "template0") as dsn:
        yield dsn


@pytest.fixture
def database(postgres: str, migrated: str) -> Iterator[str]:
    """DSN of a migrated database of this test's own."""
    with _database(postgres, migrated) as dsn:
        yield dsn


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """An engine for a migrated database of this test's own."""
    engine = connect(database)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def uncommitted_engine(postgres: str, migrated: str) -> Iterator[Engine]:
    """An engine for a migrated database in which nothing is committed."""
    with _engine(postgres, migrated) as engine:
        event.listen(engine, "commit", _refuse_commit)
        yield engine


def _refuse_commit(_: Connection) -> None:
    raise AssertionError("a test that commits needs a database of its own: the fixture engine")


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection to this test's own database if it asks for one, else to one that all tests leave empty."""
    owned = {"database", "engine"}.intersection(request.fixturenames)
    engine: Engine = request.getfixturevalue("engine" if owned else "uncommitted_engine")
    with engine.connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def module_engine(postgres: str, migrated: str) -> Iterator[Engine]:
    """An engine for a migrated database that a module's tests share, to read from or to roll back."""
    with _engine(postgres, migrated) as engine:
        yield engine


@contextmanager
def _engine(server: str, template: str) -> Iterator[Engine]:
    with _database(server, template) as dsn:
        engine = connect(dsn)
        yield engine
        engine.dispose()


@contextmanager
def _database(server: str, template: str) -> Iterator[str]:
    name = f"softwalltime_test_{os.getpid()}_{next(_numbers)}"
    _run(
        server,
        sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'").format(
            sql.Identifier(name), sql.Identifier(template)
        ),
    )
    try:
        yield make_conninfo(server, dbname=name)
    finally:
        _run(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _run(server: str, statement: sql.Composed) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement)


def _docker_answers() -> bool:
    if "DOCKER_HOST" in os.environ:
        return True
    with socket.socket(socket.AF_UNIX) as engine:
        return engine.connect_ex("/var/run/docker.sock") == 0


@contextmanager
def _container() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from testcontainers.postgres import PostgresContainer

    # As quick as the embedded one: nothing here must outlive a crash.
    container = PostgresContainer("postgres:18-alpine", driver=None).with_command("postgres -c fsync=off")
    with container as running:
        yield running.get_connection_url()
