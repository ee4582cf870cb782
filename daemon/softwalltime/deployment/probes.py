"""Probe store, daemon, PBS and log folder in subprocesses with timeouts, because they may hang."""

import json
import os
import pwd
import select
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.log_file import opened
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.settings import Settings
from softwalltime.service.protocol import ask
from softwalltime.service.status import Status, StatusError
from softwalltime.store.logs import HEAD_BYTES

PINGS = 9
PROBE_TIMEOUT_S = 10.0
"""Timeout for the store in seconds: PostgreSQL may be remote or overloaded."""


@dataclass(frozen=True, slots=True)
class StoreProbe:
    """State of the store: revision, clock, and positions of the logs."""

    revision: str
    head: str
    ahead: float
    """Seconds by which its clock is ahead of this host's."""
    jobs: bool = False
    """Whether the store has jobs."""
    retention: str = ""
    """Why retention deletes nothing; empty if it may delete."""
    positions: tuple[tuple[str, int], ...] = ()
    """Server and bytes read of the newest log; another server that shares the store may have one of the same path."""


def probe_store(settings: Settings, user: str, first: bytes = b"") -> StoreProbe:
    """Probe the store as the daemon's user.

    :param first: the first bytes of the newest log.
    """
    found = StoreProbe(**call_in_subprocess(lambda: _store(settings, first), PROBE_TIMEOUT_S, user))
    return replace(found, positions=tuple((server, offset) for server, offset in found.positions))


def _store(settings: Settings, first: bytes) -> dict[str, Any]:
    from softwalltime.store.connections import clock
    from softwalltime.store.learning_jobs import last_id
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
            found = {"revision": revision, "head": head(), "ahead": ahead}
            if revision != head():
                return found
            known = read_positions(connection)
            positions = [(log.server, log.offset) for log in known if log.head.length > 0 and log.head.matches(first)]
            refused = "; ".join(why.text for why in refusals(connection, settings.keep_days, int(time.time())))
            jobs = last_id(connection) > 0
        return {**found, "jobs": jobs, "positions": positions, "retention": refused}


@dataclass(frozen=True, slots=True)
class DaemonProbe:
    """Status of the daemon, and the median of some pings in milliseconds."""

    median: float
    status: Status


def probe_daemon(socket: Path, timeout: float = 2.0) -> DaemonProbe:
    """Probe the daemon as the hook uses it."""

    def ask_daemon() -> list[Any]:
        times = []
        for _ in range(PINGS):
            begin = time.perf_counter()
            ask(socket, {"op": "ping"}, timeout)
            times.append(1000 * (time.perf_counter() - begin))
        return [statistics.median(times), ask(socket, {"op": "status"}, timeout)]

    median, response = call_in_subprocess(ask_daemon, PINGS * timeout)
    try:
        return DaemonProbe(median, Status.from_json(response))
    except StatusError as error:
        raise SubprocessError(str(error)) from error


@dataclass(frozen=True, slots=True)
class LogProbe:
    """The newest accounting log: path, size, modification time (epoch seconds), and first bytes."""

    path: str
    size: int
    written: float
    first: bytes


def probe_logs(accounting: Path) -> LogProbe:
    """Probe the newest accounting log, in a folder that may hang, as NFS does."""

    def newest() -> list[Any]:
        files = sorted(log_files(accounting), key=lambda file: file.stat().st_mtime)
        if not files:
            raise SoftwalltimeError(f"{accounting}: no accounting log in this folder")
        with opened(files[-1]) as log:
            status = files[-1].stat()
            return [str(files[-1]), status.st_size, status.st_mtime, log.contents.read(HEAD_BYTES).hex()]

    path, size, written, first = call_in_subprocess(newest, 5.0)
    return LogProbe(path, size, written, bytes.fromhex(first))


def read_text(path: Path) -> str | None:
    try:
        return str(call_in_subprocess(lambda: path.read_text(errors="replace"), 5.0))
    except SubprocessError:
        return None


class SubprocessError(SoftwalltimeError):
    """The call failed; the message says why."""


def call_in_subprocess(work: Callable[[], Any], seconds: float, user: str = "") -> Any:
    """Call ``work`` as ``user`` (empty: this user) and return its result, as JSON has it, within ``seconds``.

    :raises SubprocessError: if it failed or took longer; the message is that of the error, in one line.
    """
    account = pwd.getpwnam(user) if user else None
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _child(work, writing, account)
    os.close(writing)
    try:
        # The child writes once, at its end.
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read() if select.select([pipe], [], [], seconds)[0] else None
    finally:
        os.kill(process, signal.SIGKILL)
        # A child that hangs in a dead file system is left to init.
        deadline = time.monotonic() + 1.0
        while os.waitpid(process, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
    if answer is None:
        raise SubprocessError(f"timed out after {seconds:g} s")
    try:
        outcome = json.loads(answer)
    except ValueError:
        raise SubprocessError("the subprocess ended without a result") from None
    if "error" in outcome:
        raise SubprocessError(str(outcome["error"]))
    return outcome["value"]


def _child(work: Callable[[], Any], writing: int, account: pwd.struct_passwd | None) -> None:
    """Run the call and exit without flushing: the parent flushes its buffers itself."""
    try:
        if account is not None:
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            os.environ.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)
        line = json.dumps({"value": work()}, default=str)
    except BaseException as error:
        kind = "" if isinstance(error, SoftwalltimeError) else f"{type(error).__name__}: "
        line = json.dumps({"error": f"{kind}{' '.join(str(error).split())}"})
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(line.encode())
    finally:
        os._exit(0)
