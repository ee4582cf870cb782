"""The process of ``softwalltime-me.service``: read all users' jobs from the store, and send each user his own.

``SOFTWALLTIME_DSN`` names the store, ``SOFTWALLTIME_SERVER`` optionally one PBS server, ``SOFTWALLTIME_WEB_ACCOUNT``
optionally the account of ``softwalltime web``, and systemd passes the socket.  The role of the DSN needs only the
privileges of deploy/sql/me-role.sql.  The process has no other input.
"""

import gc
import logging
import os
import pwd
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from sqlalchemy import Engine

from softwalltime.core.errors import SoftwalltimeError, UsageError
from softwalltime.core.formatting import printable
from softwalltime.core.settings import load_settings
from softwalltime.core.shorter_walltimes import MIN_JOBS
from softwalltime.service.users import own_jobs_server
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.own_jobs_rows import read_ended, read_live, read_requests

READ_INTERVAL_S = 10.0
"""Seconds between two readings."""
MAX_ENDED_READ_SHARE = 0.02
"""Maximum share of the time to spend on reading ended jobs, which are many."""
STATEMENT_TIMEOUT_S = 60.0
"""Statement timeout in seconds."""
FIRST_READ_TIMEOUT_S = 3.0
"""Seconds that the first clients wait for the first read: less than the client's timeout."""
SYSTEMD_SOCKET = 3
"""Descriptor of the first socket that systemd passes (sd_listen_fds(3))."""

log = logging.getLogger(__name__)

ACCOUNT_CACHE_S = 3600.0
"""Seconds for which an account is cached; a missing account is cached for a sixth of that."""


class OwnJobsReader:
    """Read the store periodically and replace the responses.

    :param accounts: returns the uid of a user name.
    :param server: show only jobs of this PBS server; empty: all servers in the store, which must have the same users.
    """

    def __init__(self, dsn: str, accounts: Callable[[str], int | None], server: str = "") -> None:
        self._dsn = dsn
        self._server = server
        self._rows = own_jobs_server.AnswerRows(accounts)
        self._engine: Engine | None = None
        self._ended_due = 0.0
        self.tried = Event()
        """Set after the first attempt to read the store."""
        self.answers = self._rows.answers()

    def step(self, now: int) -> None:
        """Read once; on an error keep the old rows and report the problem in the responses.

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
            self._engine = connect(self._dsn, StatementMonitor(STATEMENT_TIMEOUT_S))
        rows = self._rows
        with self._engine.connect() as connection:
            rows.live = read_live(connection, own_jobs_server.MAX_LIVE_JOBS, self._server)
            begin = time.monotonic()
            if begin >= self._ended_due:
                since = now - own_jobs_server.DAYS * 86400
                rows.ended = tuple(read_ended(connection, since, own_jobs_server.MAX_ENDED_JOBS, self._server))
                rows.requests = own_jobs_server.long_requests(read_requests(connection, since, MIN_JOBS, self._server))
                self._ended_due = begin + (time.monotonic() - begin) / MAX_ENDED_READ_SHARE

    def close(self) -> None:
        """Close the connection to the store; the next read opens another one."""
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
            time.sleep(max(1.0, READ_INTERVAL_S - (time.monotonic() - begin)))


def listening_socket(unit: str) -> socket.socket:
    """Return the socket that systemd passes.

    :param unit: the unit of the socket.
    :raises UsageError: if systemd passes none.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        raise UsageError(f"no socket: start {unit}")
    return socket.socket(fileno=SYSTEMD_SOCKET)


def web_uid(account: str) -> int | None:
    """Return the uid of the account that may name other users; ``None`` if the settings name nobody.

    :raises UsageError: if this host has no such account, or it is root's: a process of root needs no such right.
    """
    try:
        uid = pwd.getpwnam(account).pw_uid if account else None
    except (KeyError, ValueError) as error:
        raise UsageError(f"web_account: no account {printable(account)} on this host") from error
    if uid == 0:
        raise UsageError("web_account: not root: create an account for softwalltime web")
    return uid


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        settings = load_settings()
        if settings.dsn is None:
            raise UsageError("no store: set SOFTWALLTIME_DSN, such as postgresql:///softwalltime")
        web = web_uid(settings.web_account)
        listener = listening_socket("softwalltime-me.socket")
    except SoftwalltimeError as error:
        log.error("%s", error)
        return error.exit_status
    # The reading thread releases the interpreter within this time, so responses are delayed no longer.
    sys.setswitchinterval(20e-6)
    reader = OwnJobsReader(settings.dsn, Accounts().uid, settings.server)
    Thread(target=reader.run, daemon=True).start()
    # The first client, whose connection starts the process, gets its jobs if the first read is quick.
    reader.tried.wait(FIRST_READ_TIMEOUT_S)
    gc.freeze()
    own_jobs_server.OwnJobsServer(listener, lambda: reader.answers, web=web).run()
    return 0


class Accounts:
    """Cache of uids by user name, only of users with jobs: clients cannot cause lookups in a slow directory service."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int | None, float]] = {}

    def uid(self, user: str) -> int | None:
        now = monotonic()
        uid, until = self._known.get(user, (None, 0.0))
        if now >= until:
            uid = None
            # ValueError: a name with a null character, or that cannot be encoded.
            with suppress(KeyError, ValueError, OSError):
                uid = pwd.getpwnam(user).pw_uid
            self._known[user] = uid, now + (ACCOUNT_CACHE_S / 6 if uid is None else ACCOUNT_CACHE_S)
        return uid


if __name__ == "__main__":
    sys.exit(main())
