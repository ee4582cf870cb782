"""The process of ``softwalltime-me.service``: reads all users' jobs from the store, and answers each with his own.

``python -m softwalltime.service.users.process`` takes the socket of systemd, or makes one at the path
that is its argument.
The store is that of ``SOFTWALLTIME_DSN``, and the jobs are those of ``SOFTWALLTIME_SERVER``, if it is set.  The role of
the DSN needs no more rights than deploy/sql/me-role.sql gives.  The process has no other input.
"""

import argparse
import gc
import logging
import os
import pwd
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from sqlalchemy import Engine

from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.core.formatting import printable
from softwalltime.core.settings import load_settings
from softwalltime.core.shorter_walltimes import LEAST_JOBS
from softwalltime.service.users.own_jobs_server import (
    DAYS,
    MOST_ENDED,
    MOST_LIVE,
    AnswerRows,
    OwnJobsServer,
    long_requests,
)
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.own_jobs_rows import read_ended, read_live, read_requests

EVERY = 10.0
"""Seconds between two readings."""
SHARE = 0.02
"""Share of the time in which the jobs that ended are read, at most: they are many, and PostgreSQL has other work."""
SLOW = 60.0
"""Seconds that a statement may take."""
FIRST_READING = 3.0
"""Seconds that the first users wait for the first reading: less than the client's patience."""
BACKLOG = 1024
"""Connections that may wait to be accepted."""
SYSTEMD_SOCKET = 3
"""Descriptor of the first socket that systemd passes (sd_listen_fds(3))."""

log = logging.getLogger(__name__)

KEPT = 3600.0
"""Seconds for which an account is remembered; one that does not exist for a sixth of that."""


class OwnJobsReader:
    """Reads the store again and again, and replaces the answers.

    :param accounts: returns the uid of a user name.
    :param server: show only jobs of this PBS server; empty: of all of the store, whose users must be the same.
    """

    def __init__(self, dsn: str, accounts: Callable[[str], int | None], server: str = "") -> None:
        self._dsn = dsn
        self._server = server
        self._rows = AnswerRows(accounts)
        self._engine: Engine | None = None
        self._ended_due = 0.0
        self.tried = Event()
        """Set when the store has been read once, or could not be."""
        self.answers = self._rows.answers()

    def step(self, now: int) -> None:
        """Read once; on an error keep what was read, and say in the answers that it is old.

        :param now: epoch seconds.
        """
        rows = self._rows
        unknown, problem = rows.unknown, rows.problem
        try:
            self._read(now)
            rows.read_at, rows.problem = now, ""
        except SoftwalltimeError as error:
            self.close()
            rows.problem = "the store of the jobs cannot be read: tell the administrators"
            if problem != rows.problem:
                log.error("%s", error)
        self.answers = rows.answers()
        if new := rows.unknown - unknown:
            names = ", ".join(printable(name) for name in sorted(new)[:10])
            log.warning("%d users with jobs have no account on this host and cannot ask: %s", len(new), names)

    def _read(self, now: int) -> None:
        if self._engine is None:
            self._engine = connect(self._dsn, StatementMonitor(SLOW))
        rows = self._rows
        with self._engine.connect() as connection:
            rows.live = read_live(connection, MOST_LIVE, self._server)
            begin = time.monotonic()
            if begin >= self._ended_due:
                since = now - DAYS * 86400
                rows.ended = tuple(read_ended(connection, since, MOST_ENDED, self._server))
                rows.requests = long_requests(read_requests(connection, since, LEAST_JOBS, self._server))
                self._ended_due = begin + (time.monotonic() - begin) / SHARE

    def close(self) -> None:
        """Close the connection to the store; the next reading opens another one."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def run(self) -> None:
        while True:
            begin = time.monotonic()
            try:
                self.step(int(time.time()))
            # Old answers are better than none.
            except Exception:
                log.exception("unexpected error; trying again")
            self.tried.set()
            time.sleep(max(1.0, EVERY - (time.monotonic() - begin)))


def listening_socket(path: Path | None) -> socket.socket:
    """Return the socket that systemd passes, or a new one at a path, to which everybody may connect.

    :raises UsageError: if there is neither, or the path cannot be used.
    """
    if path is None:
        if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
            raise UsageError("no socket: start softwalltime-me.socket, or give a path for a socket")
        return socket.socket(fileno=SYSTEMD_SOCKET)
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"{path}: cannot listen here: {error.strerror or error}") from error
    return listener


def main() -> int:
    parser = argparse.ArgumentParser(description="Answer each user with his own jobs.")
    parser.add_argument("socket", type=Path, nargs="?", help="path of the socket; default: the socket of systemd")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        settings = load_settings()
        if settings.dsn is None:
            raise UsageError("no store: set SOFTWALLTIME_DSN, such as postgresql:///softwalltime")
        listener = listening_socket(arguments.socket)
    except SoftwalltimeError as error:
        log.error("%s", error)
        return error.exit_status
    # The thread that reads gives up the interpreter within this time: an answer waits no longer.
    sys.setswitchinterval(20e-6)
    reader = OwnJobsReader(settings.dsn, Accounts().uid, settings.server)
    Thread(target=reader.run, daemon=True).start()
    # Who asks first, and so starts the process, gets an answer with jobs if that does not take long.
    reader.tried.wait(FIRST_READING)
    gc.freeze()
    OwnJobsServer(listener, lambda: reader.answers).run()
    return 0


class Accounts:
    """Uids by user name, of users with jobs only: no client can make the process ask a slow directory service."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int | None, float]] = {}

    def uid(self, user: str) -> int | None:
        now = monotonic()
        found, until = self._known.get(user, (None, 0.0))
        if now >= until:
            found = _uid(user)
            self._known[user] = found, now + (KEPT / 6 if found is None else KEPT)
        return found


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError, OSError):
        # ValueError: a name with a null character, or that cannot be encoded.
        return None


if __name__ == "__main__":
    sys.exit(main())
