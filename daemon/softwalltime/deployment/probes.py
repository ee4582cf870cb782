"""Probes of what may hang: each runs in a subprocess with a timeout and returns plain values."""

import stat
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softwalltime.accounting.files import log_files
from softwalltime.accounting.log_file import opened
from softwalltime.deployment.subprocess_call import SubprocessError, call_in_subprocess
from softwalltime.errors import SoftwalltimeError
from softwalltime.live.connection import PbsConnection
from softwalltime.service.protocol import ask
from softwalltime.service.status import Status, StatusError
from softwalltime.settings import Settings
from softwalltime.store.logs import HEAD_BYTES, LogDigest

PINGS = 9
SLOW = 10.0
"""Timeout for the store in seconds: PostgreSQL may be remote or overloaded."""


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """Position of a log in the store: server, bytes read, and the beginning of the log."""

    server: str
    offset: int
    head: LogDigest

    def is_of(self, log: "LogProbe") -> bool:
        """Return whether it is the position of this log.

        The path is not enough: another server that shares the store may have the same.
        """
        return self.head.length > 0 and self.head.matches(log.first)


@dataclass(frozen=True, slots=True)
class StoreProbe:
    """State of the store: revision, clock, and positions of the logs."""

    revision: str
    head: str
    ahead: float
    """Seconds by which its clock is ahead of this host's."""
    positions: tuple[StoredPosition, ...]
    """Positions of all logs of all PBS servers."""
    jobs: bool
    """Whether the store has jobs."""
    user: str
    """User of the job that was stored last."""
    walltime: int | None
    project: str = ""
    retention: str = ""
    """Why retention deletes nothing; empty if it may delete."""

    def read_of(self, log: "LogProbe") -> int | None:
        """Return how many bytes of this log were read; ``None`` if none."""
        return max((each.offset for each in self.positions if each.is_of(log)), default=None)

    def servers_of(self, log: "LogProbe") -> list[str]:
        """Return the servers that this log was read for; none as long as it has no job."""
        return sorted({each.server for each in self.positions if each.server and each.is_of(log)})


def probe_store(settings: Settings, user: str) -> StoreProbe:
    """Probe the store as the daemon's user.

    :raises SubprocessError: if it cannot be reached in time.
    """
    found = call_in_subprocess(lambda: _store(settings), SLOW, user)
    revision, newest, ahead, positions, jobs, user_name, walltime, project, refused = found
    read = (
        StoredPosition(name, offset, LogDigest(size, bytes.fromhex(digest))) for name, offset, size, digest in positions
    )
    return StoreProbe(revision, newest, ahead, tuple(read), jobs, user_name, walltime, project, refused)


def _store(settings: Settings) -> list[Any]:
    from softwalltime.store.connections import clock
    from softwalltime.store.history import newest_job
    from softwalltime.store.logs import read_positions
    from softwalltime.store.migrations import current, head, require_known
    from softwalltime.store.opening import open_engine
    from softwalltime.store.retention import refusals

    with open_engine(settings) as engine:
        revision = current(engine)
        require_known(revision)
        with engine.connect() as connection:
            before = time.time()
            ahead = clock(connection) - (before + time.time()) / 2
            if revision != head():
                return [revision, head(), ahead, [], False, "", None, "", ""]
            positions = [
                [each.server, each.offset, each.head.length, each.head.digest.hex()]
                for each in read_positions(connection)
            ]
            newest = newest_job(connection)
            refused = "; ".join(map(str, refusals(connection, settings.keep_days, int(time.time()))))
        return [revision, head(), ahead, positions, newest is not None, *(newest or ("", None, "")), refused]


@dataclass(frozen=True, slots=True)
class DaemonProbe:
    """Status of the daemon, and the median of some pings in milliseconds."""

    median: float
    status: Status


def probe_daemon(socket: Path, timeout: float = 2.0) -> DaemonProbe:
    """Probe the daemon as the hook uses it.

    :raises SubprocessError: if it does not answer in time.
    """
    median, response = call_in_subprocess(lambda: _daemon(socket, timeout), PINGS * timeout)
    try:
        return DaemonProbe(median, Status.from_json(response))
    except StatusError as error:
        raise SubprocessError(str(error)) from error


def _daemon(socket: Path, timeout: float) -> list[Any]:
    times = []
    for _ in range(PINGS):
        begin = time.perf_counter()
        ask(socket, {"op": "ping"}, timeout)
        times.append(1000 * (time.perf_counter() - begin))
    return [statistics.median(times), ask(socket, {"op": "status"}, timeout)]


def trial(socket: Path, user: str, walltime: int, project: str) -> dict[str, Any]:
    """Return the prediction for a job of this user and project; it is not recorded.

    :raises SubprocessError: if the daemon does not answer in time.
    """
    job = {"user": user, "walltime": walltime, "project": project}
    request = {"op": "explain", "event": "queuejob", "job": job}
    found: dict[str, Any] = call_in_subprocess(lambda: ask(socket, request, 2.0), 5.0)
    return found


def probe_manager(server: str, agent: Path | None, user: str) -> tuple[bool, str]:
    """Try as the daemon's user whether the account that alters jobs is a manager of PBS; return its name too.

    :param server: host of the PBS server; empty: that of /etc/pbs.conf.
    :param agent: socket of the process that alters jobs; ``None``: one is started.
    :raises SubprocessError: if PBS cannot be reached in time.
    """

    def manager() -> list[Any]:
        connection = PbsConnection(server, agent, SLOW)
        try:
            return list(connection.manager())
        finally:
            connection.close()

    is_manager, account = call_in_subprocess(manager, SLOW + 1, user)
    return is_manager, account


@dataclass(frozen=True, slots=True)
class LogProbe:
    """The newest accounting log: path, size, modification time (epoch seconds), and first bytes."""

    path: str
    size: int
    written: float
    first: bytes


def probe_logs(accounting: Path) -> LogProbe:
    """Probe the newest accounting log.

    :raises SubprocessError: if the folder cannot be read, has no log, or hangs, as NFS may.
    """

    def newest() -> list[Any]:
        files = sorted(log_files(accounting), key=lambda file: file.stat().st_mtime)
        if not files:
            raise SoftwalltimeError(f"{accounting}: no accounting log in this folder")
        with opened(files[-1]) as log:
            status = files[-1].stat()
            return [str(files[-1]), status.st_size, status.st_mtime, log.contents.read(HEAD_BYTES).hex()]

    path, size, written, first = call_in_subprocess(newest, 5.0)
    return LogProbe(path, size, written, bytes.fromhex(first))


def socket_mode(socket: Path) -> tuple[int, int]:
    """Return owner and permissions of the socket.

    :raises SubprocessError: if it does not exist or cannot be examined.
    """
    try:
        status = socket.stat()
    except OSError as error:
        raise SubprocessError(f"{socket}: {error.strerror}") from error
    if not stat.S_ISSOCK(status.st_mode):
        raise SubprocessError(f"{socket}: not a socket")
    return status.st_uid, stat.S_IMODE(status.st_mode)


def read_text(path: Path) -> str | None:
    """Return the text of a file, ``None`` if it cannot be read."""
    try:
        return str(call_in_subprocess(lambda: path.read_text(errors="replace"), 5.0))
    except SubprocessError:
        return None
