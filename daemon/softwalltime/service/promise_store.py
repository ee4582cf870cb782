"""Pass promised starts between the live thread, which reads them from PBS, and the recorder, which stores them.

A daemon that was killed at any moment counts each promise once: its successor finds the promise open, and sees the
start in the queue or in the log.
"""

import logging
from collections import deque
from collections.abc import Mapping
from threading import Event
from time import monotonic

from sqlalchemy import Engine

from softwalltime.core.promises import LatestStart, Promise
from softwalltime.store import promises as rows
from softwalltime.store.connections import rejects_data

MAX_WAITING_LOOKS = 10_000
"""Maximum number of polls whose changes are queued for the store; beyond it the oldest are dropped."""
SEARCH_INTERVAL_S = 10.0
"""Seconds between two searches for the starts of the same jobs."""

Change = tuple[list[Promise], rows.GuardState | None, Mapping[str, LatestStart | None]]
"""Changed promises, state of the guard, and latest starts by job id; ``None``: the job no longer waits."""

log = logging.getLogger(__name__)


class PromiseStore:
    """State of the live thread that is kept across restarts of the daemon.

    :param server: name of the PBS server; empty: the host part of the job ids.
    """

    def __init__(self, server: str = "") -> None:
        self.server = server
        self.restored = Event()
        """Set once the store has been read."""
        self.promises: list[Promise] = []
        """Open promises of the previous process."""
        self.latest: list[LatestStart] = []
        """Latest starts of jobs that waited."""
        self.late_jobs: dict[str, str] = {}
        """Last recorded late job, by server."""
        self.gone: frozenset[str] = frozenset()
        """Jobs that left the queue, whose starts may be in the log; set by the live thread."""
        self.changes: deque[Change] = deque(maxlen=MAX_WAITING_LOOKS)
        """Changes of each poll of PBS's queue, to be stored."""
        self.found: deque[tuple[str, int]] = deque()
        """Starts found in the log: job id and epoch seconds; the live thread removes them."""
        self._told: frozenset[str] = frozenset()
        """Gone jobs whose starts are already known."""
        self._searched: frozenset[str] = frozenset()
        self._next_search = 0.0

    def exchange(self, engine: Engine) -> None:
        """Read the state of the previous process, store queued changes, find the starts of jobs that left the queue.

        :raises StoreError: if PostgreSQL fails; the changes stay queued.
        """
        if not self.restored.is_set():
            with engine.connect() as connection:
                self.promises = list(rows.open_promises(connection, self.server))
                self.latest = list(rows.known_latest_starts(connection, self.server))
                self.late_jobs = rows.last_late_jobs(connection)
            self.restored.set()
        while self.changes:
            promises, state, latest = change = self.changes[0]
            try:
                with engine.begin() as connection:
                    rows.store_promises(connection, self.server, promises)
                    rows.store_latest_starts(connection, self.server, latest)
                    if state is not None:
                        rows.store_state(connection, state)
            except Exception as error:
                if not rejects_data(error):
                    raise
                log.error("promised starts cannot be stored: %s", str(error).partition("\n")[0])
            # The other thread drops from this end when the queue is full.
            if self.changes and self.changes[0] is change:
                self.changes.popleft()
        wanted = self.gone - self._told
        # A deleted job has no start: search at intervals, until the live thread gives it up.
        if wanted and (wanted != self._searched or monotonic() > self._next_search):
            self._searched, self._next_search = wanted, monotonic() + SEARCH_INTERVAL_S
            with engine.connect() as connection:
                starts = rows.starts_of(connection, self.server, wanted)
            self.found.extend(starts)
            self._told = (self._told & self.gone) | {job for job, _ in starts}
