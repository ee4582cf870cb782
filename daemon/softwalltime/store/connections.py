"""Connect to PostgreSQL, translate its errors for administrators, and lock writers."""

import os
import pwd
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, event, extract, func, select, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from softwalltime.core.errors import StoreError, UsageError
from softwalltime.store.queries import query
from softwalltime.store.tables import write_lock

MIN_POSTGRES_MAJOR = 14
"""Oldest supported major version of PostgreSQL."""
LOCK_TIMEOUT = "50s"
"""PostgreSQL's lock_timeout: below the daemon's statement timeout, so that PostgreSQL's error comes first."""
LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of a lock timeout."""
_REMEDY = ": if it does not end, end it with SELECT pg_terminate_backend(PROCESS) as its role or a superuser"
_DEFAULTS = {
    "connect_timeout": "5",
    "fallback_application_name": "softwalltime",
    # Detect a connection dropped by a firewall within a minute instead of two hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}

_UPGRADE = "run softwalltime db upgrade"

_ADVICE = {
    "25006": "it is read-only, as a standby is: give the DSN of the primary",
    "3F000": _UPGRADE,
    "40001": "two transactions were in each other's way: run it again",
    "40P01": "two transactions were in each other's way: run it again",
    "42501": "ask its administrator for the privilege",
    "42703": _UPGRADE,
    "42883": _UPGRADE,
    "42P01": _UPGRADE,
    "53100": "free some space on its disk",
    "53300": "raise its max_connections, or close some",
    LOCK_NOT_AVAILABLE: "another softwalltime works on the same tables: wait for it, then run this again",
    "57014": "it cancelled the statement: see its statement_timeout",
}


class StatementMonitor:
    """Client-side statement timeout of an engine's connections; measures how long statements have been running.

    A hung server does not enforce statement_timeout, the kernel acknowledges TCP keepalives for a suspended
    PostgreSQL, and libpq has no timeout for statements.

    :param timeout: seconds that the server may take for one exchange; ``None``: no limit.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._local = threading.local()
        self._waits: dict[int, tuple[float, bool]] = {}
        """Start of each running statement by thread, and whether the usual timeout applies."""

    def waiting(self, *, patient: bool = False) -> float:
        """Return the seconds for which the longest current statement has been running; 0 if there is none.

        :param patient: count also the statements within :meth:`patient`, which may be slow in normal operation.
        """
        # list() copies in one step; other threads change the dictionary.
        waits = list(self._waits.values())
        return max((monotonic() - since for since, usual in waits if usual or patient), default=0.0)

    @contextmanager
    def patient(self, timeout: float | None) -> Iterator[None]:
        """Set another timeout for this thread's statements, for work that is expected to take long."""
        before = getattr(self._local, "timeout", ())
        self._local.timeout = (timeout,)
        try:
            yield
        finally:
            self._local.timeout = before

    def limited(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Wrap psycopg's generator of an exchange with the timeout.

        :raises TimeoutError: in the generator, if the server takes longer.
        """
        own = getattr(self._local, "timeout", ())
        timeout = own[0] if own else self._timeout
        began, ready = monotonic(), None
        self._waits[id(exchange)] = began, not own
        try:
            while True:
                try:
                    wanted = exchange.send(ready)
                except StopIteration as end:
                    return end.value
                # psycopg resumes the generator several times a second even without readiness.
                ready = yield wanted
                if not ready and timeout is not None and monotonic() - began > timeout:
                    raise TimeoutError(f"no answer within {timeout:g} s")
        finally:
            self._waits.pop(id(exchange), None)


class MonitoredConnection(psycopg.Connection[Any]):
    """Connection whose statements have a time limit, once ``monitor`` is set."""

    where: str = ""
    """The server and the database, for messages."""
    monitor: StatementMonitor | None = None

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an exchange with the server.

        :raises psycopg.OperationalError: if the server takes too long; the connection is closed then.
        """
        if self.monitor is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(self.monitor.limited(gen), *args, **kwargs)
        except TimeoutError as error:
            # The late response would be read as that of the next statement.
            self.close()
            raise psycopg.OperationalError(str(error)) from None


def connect(dsn: str, monitor: StatementMonitor | None = None, instead_of_root: str = "") -> Engine:
    """Return an engine for a DSN: a ``postgresql://`` URL or libpq's ``key=value`` pairs.

    Opens one connection at once.  Later errors of PostgreSQL on this engine's connections (it stops, its disk is full,
    tables are missing) are raised as :class:`StoreError` too.

    :param monitor: statement timeout; ``None``: no limit.
    :param instead_of_root: local user to connect as if PostgreSQL refuses root and the DSN names no role.
    :raises UsageError: if the DSN cannot be read.
    :raises StoreError: if PostgreSQL cannot be reached or is unsuitable; says what to do, without the password.
    """
    parameters = parse_dsn(dsn)
    creator = partial(_open, parameters, monitor, instead_of_root)
    engine = create_engine("postgresql+psycopg://", creator=creator, use_native_hstore=False)
    event.listen(engine, "handle_error", partial(_translate, _describe(parameters)))
    try:
        engine.connect().close()
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def driver_connection(connection: Connection) -> Iterator[psycopg.Connection]:
    """Return psycopg's connection, for features that SQLAlchemy does not support.

    Errors are translated as on the SQLAlchemy connection; programming errors are raised unchanged.
    """
    driver: MonitoredConnection = connection.connection.driver_connection  # type: ignore[assignment]  # from _open
    try:
        yield driver
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise store_error(error, driver.where) or error from error


def clock(connection: Connection) -> float:
    """Return the time of PostgreSQL's clock, epoch seconds."""
    return float(connection.execute(select(extract("epoch", func.clock_timestamp()))).scalar_one())


def run_script(connection: Connection, statements: str) -> None:
    """Run statements unchanged: SQLAlchemy would read ``:`` and ``%`` in them as parameters."""
    with driver_connection(connection) as driver:
        driver.execute(statements.encode())


def rejects_data(error: Exception) -> bool:
    """Return whether a value was refused by PostgreSQL or by its conversion, so that a retry would fail again."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    # 22: data exception; 23: constraint violation; 54: limit exceeded, as the size of an index row.
    return sqlstate(error)[:2] in ("22", "23", "54") or isinstance(cause, (ValueError, TypeError, OverflowError))


def store_error(error: psycopg.Error, where: str) -> StoreError | None:
    """Translate ``error`` for the administrator; ``None`` if it is a bug of this program."""
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error).partition("\n")[0]
    advice = _ADVICE.get(state)
    if advice is None:
        # Class 53: resource exhausted; 57P: shut down; 58: system error; 08 or none: connection lost.
        # psycopg maps class 54 (limit exceeded) to OperationalError, but the cause is the value.
        if state[:2] == "54" or not (isinstance(error, psycopg.OperationalError) or state[:2] in ("53", "58")):
            return None
        advice = "try again when it runs"
    return StoreError(f"{where}: {message}; {advice}")


def parse_dsn(dsn: str) -> dict[str, str]:
    """Return libpq's parameters of a DSN, with this package's defaults.

    :raises UsageError: if it is invalid; the message does not contain any of it.
    """
    scheme, separator, rest = dsn.partition("://")
    if separator and scheme in ("postgresql+psycopg", "postgres+psycopg"):
        dsn = f"postgresql://{rest}"
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        given = {}
    # Part of a password with an unescaped @ or / is parsed as host, port or database and would be printed; libpq's
    # own message may quote it too.
    port = given.get("port", "").replace(",", "")
    torn = separator and ("@" in given.get("host", "") or "@" in given.get("dbname", "") or not f"0{port}".isdecimal())
    if torn or (dsn.strip() and not given):
        raise UsageError(
            "the DSN is neither a URL (postgresql://user@host/database) nor key=value pairs (host=... dbname=...) as "
            "libpq knows them; in a URL, write : / ? # @ % within a password as %3A %2F %3F %23 %40 %25"
        )
    return {**_DEFAULTS, **given, "client_encoding": "utf8"}


def _open(
    parameters: dict[str, str], monitor: StatementMonitor | None, instead_of_root: str = ""
) -> psycopg.Connection:
    where = _describe(parameters)
    try:
        connection = _connected(parameters, instead_of_root)
    except psycopg.Error as error:
        # The first line is the reason; further lines have other addresses of the host and libpq's hints.
        reason = str(error).partition("\n")[0]
        reason = reason.removeprefix("connection failed: ").removeprefix("connection is bad: ")
        raise StoreError(f"cannot connect to {where}: {reason}; {_connect_advice(reason)}") from None
    connection.where, connection.monitor = where, monitor
    # search_path: exclude schemas that other users can write, and the schema with the user's name.  The others: the
    # database, or the role, may have values with which statements or their results cannot be read.
    connection.execute(
        f"SET search_path TO pg_catalog; SET lock_timeout TO '{LOCK_TIMEOUT}'; SET datestyle TO ISO; "
        "SET standard_conforming_strings TO on; SET array_nulls TO on"
    )
    connection.commit()
    version, encoding = connection.info.server_version // 10000, connection.info.parameter_status("server_encoding")
    if version >= MIN_POSTGRES_MAJOR and encoding == "UTF8":
        return connection
    connection.close()
    if encoding != "UTF8":
        problem = f"its encoding is {encoding}, but UTF8 is needed: create the database with ENCODING 'UTF8'"
    else:
        problem = f"it is PostgreSQL {version}, but {MIN_POSTGRES_MAJOR} or later is needed"
    raise StoreError(f"{where} cannot be used: {problem}")


def _connected(parameters: dict[str, str], instead_of_root: str) -> MonitoredConnection:
    connected = partial(MonitoredConnection.connect, **parameters)  # type: ignore[arg-type]  # all are texts
    try:
        return connected()
    except psycopg.OperationalError as error:
        named = parameters.keys() & {"user", "service"} or os.environ.keys() & {"PGUSER", "PGSERVICE"}
        if not instead_of_root or named or not _refuses_user(str(error)):
            raise
    with _effective_user(instead_of_root):
        return connected()


@contextmanager
def _effective_user(name: str) -> Iterator[None]:
    """Change the effective user, for peer authentication and libpq's password file."""
    account, home = pwd.getpwnam(name), os.environ.get("HOME")
    os.environ["HOME"] = account.pw_dir
    os.seteuid(account.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        del os.environ["HOME"]
        if home is not None:
            os.environ["HOME"] = home


def _refuses_user(reason: str) -> bool:
    return any(word in reason for word in ("authentication", "password", "pg_hba.conf", 'role "'))


def _describe(parameters: dict[str, str]) -> str:
    if service := parameters.get("service"):
        return f"PostgreSQL service {service}"
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST") or "the local socket"
    user = parameters.get("user") or os.environ.get("PGUSER")
    database = parameters.get("dbname") or os.environ.get("PGDATABASE") or user
    return f"PostgreSQL at {host}, database {database}" if database else f"PostgreSQL at {host}"


def _connect_advice(reason: str) -> str:
    if _refuses_user(reason):
        advice = "check the user in the DSN, and the password there or in ~/.pgpass"
        # In the guide's setup PostgreSQL accepts only the daemon's user (peer authentication).
        other = ", or run this as the daemon's user: runuser -u softwalltime -- softwalltime ..."
        return advice + other if os.geteuid() == 0 else advice
    if 'database "' in reason:
        return "create it with createdb, or correct the DSN"
    return "start it, or correct the DSN (--dsn, SOFTWALLTIME_DSN or the settings file)"


def _translate(where: str, context: ExceptionContext) -> StoreError | None:
    error = context.original_exception
    return store_error(error, where) if isinstance(error, psycopg.Error) else None


def lock(connection: Connection) -> None:
    """Wait until no other session writes, and keep others from writing until the transaction ends.

    With one writer at a time ids are in the order of commits: a reader that has seen an id has seen all before it.
    Two writers of the same jobs in different orders cannot deadlock.  A table lock needs the UPDATE privilege; an
    advisory lock could be held forever by any role that can connect.

    :raises StoreError: after ``LOCK_TIMEOUT``; names the session that writes.
    """
    with blockers_named(connection, write_lock.name):
        connection.execute(text(f"LOCK TABLE {write_lock.fullname} IN EXCLUSIVE MODE"))


@contextmanager
def blockers_named(connection: Connection, table: str | None = None) -> Iterator[None]:
    """Name the blocking sessions in the error of a lock timeout.

    :param table: the table to lock; ``None``: any of this package's tables, in any mode.
    :raises StoreError: instead of the lock timeout; says which sessions to end.
    """
    try:
        yield
    except StoreError as error:
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        # A new connection: this one's transaction has failed.
        with connection.engine.connect() as other:
            sessions = other.execute(query("blocking_sessions"), {"table": table}).scalars().all()
        if not sessions:
            raise
        raise StoreError(f"{error}; blocked by {' and '.join(sessions)}{_REMEDY}") from error


def sqlstate(error: Exception) -> str:
    """Return the SQLSTATE of an error of SQLAlchemy or this package; ``""`` if it has none."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, DBAPIError):
        cause = cause.orig
    return getattr(cause, "sqlstate", None) or ""
