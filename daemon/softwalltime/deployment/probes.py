"""Looks at what may hang: each is done apart, within its own time, and comes back as plain values."""

import stat
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softwalltime.accounting.files import log_files
from softwalltime.accounting.opening import opened
from softwalltime.deployment.subprocess_call import SubprocessError, call_in_subprocess
from softwalltime.errors import SoftwalltimeError
from softwalltime.service.client import ask
from softwalltime.service.status import Status, StatusError
from softwalltime.settings import Settings
from softwalltime.store.logs import HEAD_BYTES, Head

PINGS = 9
SLOW = 10.0
"""Seconds for a look at the store: PostgreSQL may be far away, or at its limits."""


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """How much of a log is in the store: as which server's, how many bytes, and what the log begins with."""

    server: str
    offset: int
    head: Head

    def is_of(self, log: "LogProbe") -> bool:
        """Whether it is of this very log.

        Its path does not tell: the logs of another server that shares the store may have the same.
        """
        return self.head.length > 0 and self.head.matches(log.first)


@dataclass(frozen=True, slots=True)
class StoreProbe:
    """What the store said: at which revision it is, its clock against ours, how far the logs are read."""

    revision: str
    head: str
    ahead: float
    """Seconds by which its clock is ahead of this host's."""
    positions: tuple[ReadSoFar, ...]
    """Of all logs of all PBS servers."""
    jobs: bool
    """Whether any job was stored."""
    user: str
    """Of the job that was stored last."""
    walltime: int | None
    project: str = ""
    retention: str = ""
    """Why retention deletes nothing; empty: nothing stands against it."""

    def read_of(self, log: "LogProbe") -> int | None:
        """Bytes that were read of this log; ``None`` if it is not known."""
        return max((each.offset for each in self.positions if each.is_of(log)), default=None)

    def servers_of(self, log: "LogProbe") -> list[str]:
        """The servers as whose this log was read; as long as it holds no job, that is nobody's."""
        return sorted({each.server for each in self.positions if each.server and each.is_of(log)})


def probe_store(settings: Settings, user: str) -> StoreProbe:
    """The store as the daemon's user sees it.

    :raises SubprocessError: if it cannot be reached, or not in time.
    """
    found = call_in_subprocess(lambda: _store(settings), SLOW, user)
    revision, newest, ahead, positions, jobs, user_name, walltime, project, refused = found
    read = (ReadSoFar(name, offset, Head(size, bytes.fromhex(digest))) for name, offset, size, digest in positions)
    return StoreProbe(revision, newest, ahead, tuple(read), jobs, user_name, walltime, project, refused)


def _store(settings: Settings) -> list[Any]:
    from softwalltime.store.engine import clock
    from softwalltime.store.history import newest_job
    from softwalltime.store.logs import read_positions
    from softwalltime.store.migrations import current, head, require_known
    from softwalltime.store.opening import open_engine
    from softwalltime.store.retention import Retention, refusals

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
            retention = Retention(settings.keep_days, settings.keep_jobs_per_user)
            refused = "; ".join(map(str, refusals(connection, retention, int(time.time()))))
        return [revision, head(), ahead, positions, newest is not None, *(newest or ("", None, "")), refused]


@dataclass(frozen=True, slots=True)
class DaemonProbe:
    """What the daemon said, and how fast: the median of some pings, in milliseconds."""

    median: float
    status: Status


def probe_daemon(socket: Path, patience: float = 2.0) -> DaemonProbe:
    """The daemon as the hook sees it.

    :raises SubprocessError: if nobody answers, or not in time.
    """
    median, response = call_in_subprocess(lambda: _daemon(socket, patience), PINGS * patience)
    try:
        return DaemonProbe(median, Status.from_json(response))
    except StatusError as error:
        raise SubprocessError(str(error)) from error


def _daemon(socket: Path, patience: float) -> list[Any]:
    times = []
    for _ in range(PINGS):
        begin = time.perf_counter()
        ask(socket, {"op": "ping"}, patience)
        times.append(1000 * (time.perf_counter() - begin))
    return [statistics.median(times), ask(socket, {"op": "status"}, patience)]


def trial(socket: Path, user: str, walltime: int, project: str) -> dict[str, Any]:
    """What the daemon would predict for a job of this user and project; nothing is recorded.

    :raises SubprocessError: if nobody answers, or not in time.
    """
    job = {"user": user, "walltime": walltime, "project": project}
    request = {"op": "explain", "event": "queuejob", "job": job}
    found: dict[str, Any] = call_in_subprocess(lambda: ask(socket, request, 2.0), 5.0)
    return found


@dataclass(frozen=True, slots=True)
class LogProbe:
    """The newest accounting log: its path and size, the time of its last record, epoch seconds, and its first bytes."""

    path: str
    size: int
    written: float
    first: bytes


def probe_logs(accounting: Path) -> LogProbe:
    """The newest accounting log.

    :raises SubprocessError: if the folder cannot be read, has no log, or hangs as a dead NFS does.
    """

    def newest() -> list[Any]:
        files = sorted(log_files(accounting), key=lambda file: file.stat().st_mtime)
        if not files:
            raise SoftwalltimeError(f"{accounting}: no accounting log is there")
        with opened(files[-1]) as log:
            status = files[-1].stat()
            return [str(files[-1]), status.st_size, status.st_mtime, log.contents.read(HEAD_BYTES).hex()]

    path, size, written, first = call_in_subprocess(newest, 5.0)
    return LogProbe(path, size, written, bytes.fromhex(first))


def socket_mode(socket: Path) -> tuple[int, int]:
    """Owner and permissions of the socket.

    :raises SubprocessError: if there is none, or it cannot be seen from here.
    """
    try:
        status = socket.stat()
    except OSError as error:
        raise SubprocessError(f"{socket}: {error.strerror}") from error
    if not stat.S_ISSOCK(status.st_mode):
        raise SubprocessError(f"{socket}: is no socket")
    return status.st_uid, stat.S_IMODE(status.st_mode)


def read_text(path: Path) -> str | None:
    """A file's text, ``None`` where it cannot be read."""
    try:
        return str(call_in_subprocess(lambda: path.read_text(errors="replace"), 5.0))
    except SubprocessError:
        return None
