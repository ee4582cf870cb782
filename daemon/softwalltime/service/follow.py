"""Follow the accounting logs of one PBS server by polling, and store new records.

Polling needs only names, sizes, modification times and inodes, which every file system has, NFS included.  Each changed
file (new, late, gzipped, truncated, replaced or copied back) is passed to
:func:`softwalltime.service.ingest.ingest_logs`, which skips what was read before.
"""

import logging
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from sqlalchemy import Engine

from softwalltime.accounting.daily_files import log_day, log_files
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.core.states import State
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.reading import KnownPositions
from softwalltime.store.completed_jobs import vacuum_analyze
from softwalltime.store.learning_jobs import set_teaching
from softwalltime.store.logs import OvertakenError

POLL_INTERVAL_S = 0.5
"""Seconds between two polls."""
FIRST_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 1.0, 30.0
"""First and maximum seconds between two attempts while the store cannot be reached."""
VACUUM_MIN_JOBS = 10_000
"""New jobs in one poll after which VACUUM ANALYZE is run."""
CHECK_INTERVAL_S = 30.0
"""Seconds between two looks whether the store still has what was committed."""
RETRY_INTERVAL_S = 60.0
"""Seconds until a log that could not be read is tried again though it has not changed."""
SUMMARY_INTERVAL_S = 3600.0
"""Seconds between two log lines with the number of stored jobs."""
UNKNOWN_AFTER = 10.0
"""Seconds after the last poll beyond which the lag is measured from that poll."""

log = logging.getLogger(__name__)

MAX_OPEN_LOGS = 4
"""Number of logs to keep open: those that were written last."""
LogState = tuple[int, int, int]
"""Size, time of the last change in nanoseconds, and inode of a log."""


class OpenLogs:
    """Logs that are kept open, by device and inode, so that a renamed or deleted one is read to its end."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[Path, LogState, int]] = {}
        """Path, state when it was read, and descriptor of each."""

    def __del__(self) -> None:
        for key in list(self._held):
            self._drop(key)

    def hold(self, path: Path, state: LogState) -> None:
        """Keep a log open if it is still the same regular file; close the first ones beyond :data:`MAX_OPEN_LOGS`.

        :param state: the state in which it was read.
        """
        try:
            if not path.is_file():
                return
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
            status = os.fstat(descriptor)
        except OSError:
            return
        if status.st_ino != state[2] or not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            return
        key = status.st_dev, status.st_ino
        self._drop(key)
        self._held[key] = path, state, descriptor
        while len(self._held) > MAX_OPEN_LOGS:
            self._drop(next(iter(self._held)))

    def _drop(self, key: tuple[int, int]) -> None:
        if key in self._held:
            with suppress(OSError):
                os.close(self._held.pop(key)[2])

    def unread(self) -> None:
        """Forget the states in which the logs were read."""
        self._held = {key: (path, (0, 0, 0), descriptor) for key, (path, _, descriptor) in self._held.items()}

    def now(self) -> dict[Path, tuple[LogState, os.stat_result]]:
        """Return the open logs to which a path leads, by their current path: state when read, and current status."""
        logs = {}
        for key, (name, state, descriptor) in list(self._held.items()):
            try:
                status = os.fstat(descriptor)
            except OSError:
                # Another NFS client has deleted the file, for example after it has compressed it (ESTALE).
                self._drop(key)
                continue
            paths = [name]
            with suppress(OSError):
                # The link is dangling for a deleted file, or one that another NFS client has renamed.
                paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
            for path in paths:
                with suppress(OSError):
                    if os.path.samestat(path.stat(), status):
                        logs[path] = state, status
                        break
        return logs


@dataclass(eq=False)
class Follower:
    """Reader of the logs, with counters and lag."""

    accounting: Path
    """The folder, or file."""
    server: str = ""
    """The PBS server's name; empty for the host part of the job ids."""
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.tally = Tally()
        self.behind_bytes = 0
        """Bytes on disk that were not stored yet at the last poll."""
        self._seen: dict[Path, LogState] = {}
        self._known: KnownPositions | None = None
        self.broken: dict[Path, tuple[SourceError, float]] = {}
        """Logs that cannot be read, each with its error, and when to try again."""
        self._held = OpenLogs()
        self._behind_since: float | None = None
        self._measured: float | None = None
        self._unlogged: Counter[str] = Counter()
        """Counts of jobs and lines since the last hourly log message."""
        self._next_sums = -math.inf
        self._next_check = time.monotonic() + CHECK_INTERVAL_S

    @property
    def behind_seconds(self) -> float:
        """Seconds since the first poll with unread bytes; 0 if all bytes of the last poll are stored.

        If no poll has ended for some time, for example while PostgreSQL hangs: seconds since the last one.
        """
        # Read by other threads while this one polls.
        now, since, measured = self.clock(), self._behind_since, self._measured
        if since is not None:
            return max(0.0, now - since)
        if measured is not None and now - measured > UNKNOWN_AFTER:
            return now - measured
        return 0.0

    def measure(self) -> dict[Path, LogState]:
        """Return the logs that have changed and update the lag, without reading any log.

        :raises SourceError: if the folder cannot be read.
        """
        now = self.clock()
        for path, (_, retry_at) in self.broken.items():
            if retry_at <= now:
                self._seen.pop(path, None)
        # Renamed logs come first: other files may have their names now.
        states: dict[Path, LogState] = {}
        for path, (held, status) in self._held.now().items():
            self._seen.setdefault(path, held)
            states[path] = _state(status)
        try:
            states |= _states(self.accounting)
        except SourceError:
            if all(self._seen.get(path) == state for path, state in states.items()):
                raise
        changed = {path: state for path, state in states.items() if self._seen.get(path) != state}
        self.broken = {path: error for path, error in self.broken.items() if path in states}
        self.behind_bytes = sum(_unread(self._seen.get(path), state) for path, state in changed.items())
        if not changed:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = now
        self._measured = now
        return changed

    def poll(self, engine: Engine) -> int:
        """Store the new records; return the number of new jobs.

        An unreadable log is reported once, and tried again when it changes or after :data:`RETRY_INTERVAL_S` seconds.

        :raises SourceError: if the folder cannot be read.
        :raises StoreError: if the store fails; earlier commits stay, and the next poll continues from there.
        """
        known = self._known_positions(engine)
        changed = self.measure()
        if not changed:
            self._log_stored({})
            return 0
        tally = Tally()
        try:
            # The oldest first, also if a newer one is among those that are kept open.
            logs = sorted(changed, key=lambda path: log_day(path.name))
            stored, _ = ingest_logs(engine, logs, tally, self.server, self._read, known=known)
        except OvertakenError:
            return self.poll(engine)
        finally:
            # Count committed blocks even if the store fails half-way: they are not read again.
            for malformed in tally.kept:
                log.warning("malformed: %s", malformed)
            self.tally.add(tally)
            # They would grow with each poll.
            self.tally.broken.clear()
            self.tally.unfinished.clear()
        before = {path: self.broken.pop(path)[0] for path in changed if path in self.broken}
        for error in tally.broken:
            if error.path is not None:
                self.broken[error.path] = error, self.clock() + RETRY_INTERVAL_S
                if str(error) != str(before.get(error.path, "")):
                    log.error("%s", error)
        # At the first poll all logs have changed, but only the newest are likely to be written.
        for path, state in list(changed.items())[-MAX_OPEN_LOGS:]:
            self._held.hold(path, state)
        self._seen |= changed
        # Bytes written during this poll are a new lag.
        self._behind_since = None
        self.measure()
        self._log_stored({"jobs": stored, "lines": tally.lines, "malformed": tally.malformed})
        if stored > VACUUM_MIN_JOBS:
            vacuum_analyze(engine)
        return stored

    def _known_positions(self, engine: Engine) -> KnownPositions:
        """Return the stored positions; if the store has lost commits, all logs are to be read again."""
        known = self._known = self._known or KnownPositions(engine)
        if known.engine is not engine:
            known.query_again(engine)
        elif time.monotonic() >= self._next_check:
            # No record may come for hours after a failover.
            known.confirm()
            self._next_check = time.monotonic() + CHECK_INTERVAL_S
        if known.lost:
            log.warning("the store lacks commits, as after a failover; the logs are read again from its positions")
            known.lost = False
            self._seen.clear()
            self._held.unread()
        return known

    def _log_stored(self, counts: Mapping[str, int]) -> None:
        """Log the sums of the stored rows at the first poll and once an hour."""
        self._unlogged.update(counts)
        if self._unlogged["jobs"] and self.clock() >= self._next_sums:
            log.info("stored", extra={**self._unlogged, "behind_bytes": self.behind_bytes})
            self._unlogged.clear()
            self._next_sums = self.clock() + SUMMARY_INTERVAL_S

    def _read(self, size: int) -> None:
        self.behind_bytes = max(0, self.behind_bytes - size)


def with_store(
    open_engine: Callable[[], AbstractContextManager[Engine]],
    work: Callable[[Engine], None],
    failed: Callable[[str, bool], None],
    stopping: Event,
    follower: Follower | None,
) -> None:
    """Open the store and work with it until ``stopping`` is set; after a failure open it again.

    :param failed: gets the problem, and whether it is an unexpected error, which is logged already.
    :param follower: its lag is measured even while the store cannot be used.
    """
    pause = FIRST_RETRY_PAUSE_S
    while not stopping.is_set():
        opened = math.inf
        try:
            with open_engine() as engine:
                opened = time.monotonic()
                work(engine)
                continue
        except SoftwalltimeError as error:
            failed(str(error), False)
        except Exception:
            log.exception("unexpected error; trying again")
            failed("an unexpected error, see the log", True)
        if follower is not None:
            # An error here would end the thread.
            with suppress(SourceError, OSError):
                follower.measure()
        if time.monotonic() - opened > pause:
            pause = FIRST_RETRY_PAUSE_S
        if not stopping.wait(pause):
            pause = min(2 * pause, MAX_RETRY_PAUSE_S)


def follow(
    follower: Follower,
    open_engine: Callable[[], AbstractContextManager[Engine]],
    teaching: Collection[State],
    stopping: Event,
) -> None:
    """Poll until ``stopping`` is set; retry while the store or the folder cannot be used.

    :param teaching: states of the jobs from which the predictors in SQL learn.
    """
    problem = ""

    def report(now: str, logged: bool = False) -> None:
        nonlocal problem
        if now and now != problem and not logged:
            log.error("%s", now)
        elif problem and not now:
            log.info("reading again after an error")
        problem = now

    def work(engine: Engine) -> None:
        with engine.begin() as connection:
            set_teaching(connection, teaching)
        while not stopping.is_set():
            try:
                follower.poll(engine)
                report("")
            except SourceError as error:
                report(str(error))
            stopping.wait(POLL_INTERVAL_S)

    with_store(open_engine, work, report, stopping, follower)


def _states(accounting: Path) -> dict[Path, LogState]:
    states = {}
    for path in log_files(accounting):
        try:
            states[path] = _state(path.stat())
        except FileNotFoundError:
            continue  # rotated after the folder was read
        except OSError:
            # The reader reports the error, and the other logs are read.
            states[path] = (0, 0, 0)
    return states


def _state(status: os.stat_result) -> LogState:
    """Return size, time of the last change and inode; a special file has no size."""
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size, status.st_mtime_ns, status.st_ino


def _unread(seen: LogState | None, state: LogState) -> int:
    """Return the bytes by which a log has grown; its size if it was replaced or truncated."""
    same = seen is not None and seen[2] == state[2] and seen[0] <= state[0]
    return state[0] - (seen[0] if seen is not None and same else 0)
