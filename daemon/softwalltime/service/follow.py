"""Follows the accounting logs of one PBS server into the store, looking again and again at what has changed.

It relies on nothing but the files' names, sizes, times of change and inodes, which any file system has, NFS too.
Whatever it finds (a new day's file, one that came late, was gzipped, cut off, replaced or copied back) is given to
:func:`softwalltime.service.ingest.ingest_logs`, which knows what of it was read before.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Event

from sqlalchemy import Engine

from softwalltime.accounting.files import log_files
from softwalltime.accounting.tally import Tally
from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.service.held import HELD, HeldLogs, LogState
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.reading import KnownPositions
from softwalltime.states import State
from softwalltime.store.history import set_teaching
from softwalltime.store.jobs import vacuum_analyze

INTERVAL = 0.5
"""Seconds between two looks."""
LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach what cannot be reached, at most."""
MANY = 10_000
"""New jobs at once, as at the first start, after which PostgreSQL is told what its tables look like now."""
RETRY = 60.0
"""Seconds until a log that could not be read is tried again though it has not changed."""
UNKNOWN_AFTER = 10.0
"""Seconds after a look after which it is not known any more that all is stored."""

log = logging.getLogger(__name__)


class Follower:
    """What has been read of the logs, and how far behind the reading is.

    :param accounting: the folder, or file.
    :param server: the PBS server's name; empty for the host part of the job ids.
    """

    def __init__(self, accounting: Path, server: str = "", clock: Callable[[], float] = time.time) -> None:
        self.tally = Tally()
        self.behind_bytes = 0
        """Bytes on disk that were written and not stored yet, as of the last look."""
        self._accounting = accounting
        self._server = server
        self._clock = clock
        self._seen: dict[Path, LogState] = {}
        self._retries: dict[Path, float] = {}
        self._known: KnownPositions | None = None
        self._broken: dict[Path, SourceError] = {}
        self._held = HeldLogs()
        self._behind_since: float | None = None
        self._measured: float | None = None

    @property
    def behind_seconds(self) -> float:
        """For how long there has been something to read; 0 when all that was there at the last look is stored.

        Where no look has come to its end for some time, as while PostgreSQL hangs, since the last one.
        """
        # Another thread may ask than the one that looks.
        now, since, measured = self._clock(), self._behind_since, self._measured
        if since is not None:
            return max(0.0, now - since)
        if measured is not None and now - measured > UNKNOWN_AFTER:
            return now - measured
        return 0.0

    def measure(self) -> dict[Path, LogState]:
        """See which logs have changed, and how far behind the reading is; reads none of them.

        :raises SourceError: if the folder cannot be read.
        """
        now = self._clock()
        for path in [path for path, when in self._retries.items() if when <= now]:
            del self._retries[path], self._seen[path]
        # Renamed logs come first: others may have their names by now.
        states: dict[Path, LogState] = {}
        for path, (held, status) in self._held.now().items():
            self._seen.setdefault(path, held)
            states[path] = _state(status)
        try:
            states |= _states(self._accounting)
        except SourceError:
            if all(self._seen.get(path) == state for path, state in states.items()):
                raise
        changed = {path: state for path, state in states.items() if self._seen.get(path) != state}
        if self._broken.keys() - states.keys():
            self._broken = {path: error for path, error in self._broken.items() if path in states}
            self.tally.broken = list(self._broken.values())
        self.behind_bytes = sum(_unread(self._seen.get(path), state) for path, state in changed.items())
        if not changed:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = now
        self._measured = now
        return changed

    def look(self, engine: Engine) -> int:
        """Store what is new; returns how many jobs that were.

        A log that cannot be read is complained of once, and tried again when it has changed or some time has passed.

        :raises SourceError: if the folder cannot be read.
        :raises StoreError: if the store fails; all that was committed before stays, and the next look goes on there.
        """
        changed = self.measure()
        if not changed:
            return 0
        tally = Tally()
        known, self._known = self._known, None
        if known is None or known.engine is not engine:
            known = KnownPositions(engine)
        try:
            stored, _ = ingest_logs(engine, list(changed), tally, self._server, self._read, known=known)
        finally:
            # Also where the store fails half-way: what was committed before is not met again.
            self._take_in(tally)
        self._complain(tally.broken, changed)
        self._known = known
        # The first time all have changed: none but the newest is likely to be written.
        for path, state in list(changed.items())[-HELD:]:
            self._held.hold(path, state)
        self._seen |= changed
        self._retries |= {error.path: self._clock() + RETRY for error in tally.broken if error.path is not None}
        # What has been written meanwhile is not what there was to read before.
        self._behind_since = None
        self.measure()
        if stored:
            counts = {"jobs": stored, "lines": tally.lines, "malformed": tally.malformed}
            log.info("stored", extra={**counts, "behind_bytes": self.behind_bytes})
        if stored > MANY:
            vacuum_analyze(engine)
        return stored

    def _read(self, size: int) -> None:
        self.behind_bytes = max(0, self.behind_bytes - size)

    def _take_in(self, tally: Tally) -> None:
        """Add up what was met, and log the lines that cannot be read."""
        for malformed in tally.kept:
            log.warning("malformed: %s", malformed)
        self.tally.add(tally)
        self.tally.broken = list(self._broken.values())

    def _complain(self, broken: Sequence[SourceError], read: Collection[Path]) -> None:
        """Log which files cannot be read, once each as long as nothing changes about it.

        :param read: all that was read just now.
        """
        now = {error.path: error for error in broken if error.path is not None}
        for path, error in now.items():
            if str(error) != str(self._broken.get(path, "")):
                log.error("%s", error)
        self._broken = {path: error for path, error in self._broken.items() if path not in read} | now
        self.tally.broken = list(self._broken.values())


def follow(
    follower: Follower,
    open_engine: Callable[[], AbstractContextManager[Engine]],
    teaching: Collection[State],
    stopping: Event | None = None,
) -> None:
    """Follow until told to stop; while the store or the folder cannot be used, try again and again.

    :param teaching: which jobs teach the predictors in SQL.
    """
    stopping = stopping or Event()
    pause = INTERVAL
    problem = ""
    while not stopping.is_set():
        try:
            with open_engine() as engine:
                with engine.begin() as connection:
                    set_teaching(connection, teaching)
                while not stopping.is_set():
                    try:
                        follower.look(engine)
                        now_wrong = ""
                    except SourceError as error:
                        now_wrong = str(error)
                    _tell(problem, now_wrong)
                    pause, problem = INTERVAL, now_wrong
                    stopping.wait(INTERVAL)
        except SoftwalltimeError as error:
            _tell(problem, str(error))
            problem = str(error)
        # Whatever it is, it is told, and tried again.
        except Exception:
            log.exception("unexpected error; trying again")
            problem = "an unexpected error"
        else:
            continue
        with suppress(SourceError):
            follower.measure()
        stopping.wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _tell(before: str, now: str) -> None:
    """Log what is wrong once, and once that nothing is any more."""
    if now and now != before:
        log.error("%s", now)
    elif before and not now:
        log.info("going on")


def _states(accounting: Path) -> dict[Path, LogState]:
    """Return the logs with what changes when they do."""
    states = {}
    for path in log_files(accounting):
        try:
            states[path] = _state(path.stat())
        except FileNotFoundError:
            continue  # rotated away since the folder was read
        except OSError:
            # Its reader says what is wrong with it, and the others are read.
            states[path] = (0, 0, 0)
    return states


def _state(status: os.stat_result) -> LogState:
    """Return size, time of the last change and inode; a special file has no size."""
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size, status.st_mtime_ns, status.st_ino


def _unread(seen: LogState | None, state: LogState) -> int:
    """Bytes by which a log has grown; all of it if it is another one, or was cut off."""
    same = seen is not None and seen[2] == state[2] and seen[0] <= state[0]
    return state[0] - (seen[0] if seen is not None and same else 0)
