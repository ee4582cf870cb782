"""Follows the accounting logs of one PBS server into the store, looking again and again at what has changed.

It relies on nothing but the files' names, sizes and times of change, so that it works on any file system, NFS too.
Whatever it finds (a new day's file, one that came late, was gzipped, cut off, replaced or copied back) is given to
:func:`softwalltime.service.ingest.ingest_logs`, which knows what of it was read before.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Event

from sqlalchemy import Engine

from softwalltime.accounting.files import log_files
from softwalltime.accounting.tally import Tally
from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.reading import Known
from softwalltime.states import State
from softwalltime.store.teaching import set_teaching
from softwalltime.store.vacuum import vacuum_analyze

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
_State = tuple[int, int, int]

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
        self._seen: dict[Path, _State] = {}
        self._retries: dict[Path, float] = {}
        self._known: Known | None = None
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

    def measure(self) -> dict[Path, _State]:
        """See which logs have changed, and how far behind the reading is; reads none of them.

        :raises SourceError: if the folder cannot be read.
        """
        now = self._clock()
        for path in [path for path, when in self._retries.items() if when <= now]:
            del self._retries[path], self._seen[path]
        changed = {path: state for path, state in _states(self._accounting) if self._seen.get(path) != state}
        self.behind_bytes = sum(_unread(self._seen.get(path), state) for path, state in changed.items())
        if not changed:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = now
        self._measured = now
        return changed

    def look(self, engine: Engine) -> int:
        """Store what is new; returns how many jobs that were.

        A log that cannot be read is complained of, and tried again when it has changed or some time has passed.

        :raises SourceError: if the folder cannot be read.
        :raises StoreError: if the store fails; all that was committed before stays, and the next look goes on there.
        """
        changed = self.measure()
        if not changed:
            return 0
        tally = Tally()
        known, self._known = self._known, None
        if known is None or known.engine is not engine:
            known = Known(engine)
        try:
            stored, _ = ingest_logs(engine, list(changed), tally, self._server, self._read, known=known)
        finally:
            # Also where the store fails half-way: what was committed before is not met again.
            self._take_in(tally)
        self._known = known
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
        """Add up what was met, and say what an administrator should know."""
        for malformed in tally.kept:
            log.warning("malformed: %s", malformed)
        for broken in tally.broken:
            log.error("%s", broken)
        self.tally.add(tally)
        self.tally.broken = tally.broken


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


def _states(accounting: Path) -> Iterator[tuple[Path, _State]]:
    """The logs with what changes when they do: size, time of the last change, inode."""
    for path in log_files(accounting):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue  # rotated away since the folder was read
        except OSError:
            # Whoever reads it will say what is wrong with it; the others are not to suffer.
            yield path, (0, 0, 0)
        else:
            yield path, (found.st_size, found.st_mtime_ns, found.st_ino)


def _unread(seen: _State | None, state: _State) -> int:
    """Bytes by which a log has grown; all of it if it is another one, or was cut off."""
    same = seen is not None and seen[2] == state[2] and seen[0] <= state[0]
    return state[0] - (seen[0] if seen is not None and same else 0)
