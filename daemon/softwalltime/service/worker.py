"""What the daemon does beside answering: load the history, follow the accounting log, learn, record what it predicted.

All of it happens in one thread that may wait for PostgreSQL as long as it takes; the thread that answers never waits
for this one but for the moment in which one job is learnt.  PostgreSQL is the record: jobs are learnt from it once
they are committed, in the order in which they were, so a daemon that was killed at any moment knows the same again.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from threading import Event, Thread

from sqlalchemy import Engine

from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.predictors.base import EVERYTHING, History
from softwalltime.service.follow import INTERVAL, LONGEST_PAUSE, Follower
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from softwalltime.store.daily import Quality, recent_quality, refresh
from softwalltime.store.history import last_id, read_history, read_new
from softwalltime.store.predictions import add_decisions
from softwalltime.store.retention import Retention, forget
from softwalltime.store.teaching import set_teaching

RECORDED_AT_ONCE = 1000
HOUR = 3600
DAY = 86400
FIRST_REFRESH = 60.0
"""Seconds after the start until the figures for monitoring are refreshed, at most."""
REFRESH_RETRY = 600.0
"""Seconds until a refresh that failed is tried again, at most."""
REFRESHING = 0.3
"""Seconds of a refresh at a time; then the log is looked at, and what is new is learnt and recorded."""
EVERYTHING_FOR_EVER = Retention(days=0, jobs_per_user=0)

log = logging.getLogger(__name__)


class Worker:
    """The daemon's thread for everything that may take time.

    :param open_engine: opens the store; tried again and again while it fails.
    :param follower: of the accounting log; ``None`` where another process ingests.
    :param refresh_every: seconds between refreshes of the figures for monitoring.
    """

    def __init__(
        self,
        handler: RequestHandler,
        open_engine: Callable[[], AbstractContextManager[Engine]],
        follower: Follower | None,
        retention: Retention = EVERYTHING_FOR_EVER,
        clock: Callable[[], float] = time.time,
        refresh_every: float = HOUR,
    ) -> None:
        self.recorded = 0
        self.forgotten = 0
        self.refreshed = 0
        """When the figures for monitoring last were fresh, epoch seconds; 0: not since the start."""
        self.week: list[Quality] = []
        """How good each predictor was in the week before that."""
        self.problem = "not reached yet"
        self.source_problem = ""
        self._handler = handler
        self._open_engine = open_engine
        self._follower = follower
        self._clock = clock
        self._last_id = 0
        self._retention = retention
        self._forgetting: Iterator[tuple[str, int]] | None = None
        # Not at once: a daemon that is started and stopped again and again has better things to do.
        self._next_forgetting = clock() + HOUR
        self._refreshing: Iterator[int] | None = None
        self._refresh_every = refresh_every
        self._next_refresh = clock() + min(FIRST_REFRESH, refresh_every)
        self._refresh_began = 0
        self._next: PredictionService | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End after what is under way; whether that was within ``timeout`` seconds."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def change(self, predictions: PredictionService) -> None:
        """Load the history for another predictions, and let it take over then; the old one answers meanwhile."""
        self._next = predictions

    def _run(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            try:
                with self._open_engine() as engine:
                    pause = 1.0
                    self._work(engine)
            except SoftwalltimeError as error:
                if self.problem != str(error):
                    log.error("the store cannot be used, predictions go on from memory: %s", error)
                self.problem = str(error)
            # Whatever it is, the daemon goes on answering, and tries again.
            except Exception:
                log.exception("unexpected error; trying again")
                self.problem = "an unexpected error, see the log"
            if self._follower is not None:
                # So that it is known how far behind the store is while it cannot be reached.
                with suppress(SourceError):
                    self._follower.measure()
            if not self._stopping.wait(pause):
                pause = min(2 * pause, LONGEST_PAUSE)

    def _work(self, engine: Engine) -> None:
        # What was begun with another engine cannot go on, and begins anew.
        self._refreshing = None
        if self._forgetting is not None:
            self._forgetting, self._next_forgetting = None, self._clock()
        last = False
        while not last:
            # One more round after the signal to stop, so that nothing decided is left unrecorded.
            last = self._stopping.is_set()
            if not self._handler.predictions.ready:
                self._load(engine, self._handler.predictions)
                # Storing a whole folder of logs, which comes next, may take minutes.
                self._recovered()
            if (wanted := self._next) is not None:
                self._load(engine, wanted)
                if self._next is wanted:
                    self._next = None
            if self._follower is not None:
                self._follow(engine, self._follower)
            self._learn(engine)
            self._record(engine)
            self._forget(engine)
            if not last:
                self._refresh(engine)
            self._recovered()
            self._stopping.wait(INTERVAL)

    def _recovered(self) -> None:
        if self.problem:
            log.info("the store is in use")
            self.problem = ""

    def _load(self, engine: Engine, wanted: PredictionService) -> None:
        """Teach an predictions such as this the history that its predictors ask for, and let it answer."""
        begin = time.monotonic()
        # A fresh one for each try: the store may fail half-way, and no job must be learnt twice.
        predictions = wanted.fresh()
        history = together(predictor.history for predictor in predictions.predictors)
        now = int(self._clock())
        since = now - history.seconds if history.seconds else None
        with engine.begin() as connection:
            set_teaching(connection, predictions.teaching)
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            newest = last_id(connection)
            predictions.learn(read_history(connection, history.per_user, since, now, predictions.teaching))
        self._last_id = newest
        predictions.ready = True
        self._handler.predictions = predictions
        log.info("learnt %d jobs of the history in %.1f s", predictions.learnt, time.monotonic() - begin)

    def _follow(self, engine: Engine, follower: Follower) -> None:
        """Store what is new in the logs."""
        try:
            follower.look(engine)
        except SourceError as error:
            if self.source_problem != str(error):
                log.error("%s", error)
            self.source_problem = str(error)
        else:
            self.source_problem = ""

    def _learn(self, engine: Engine) -> None:
        """Teach what has become known since, whoever stored it."""
        with engine.connect() as connection:
            for number, job in read_new(connection, self._last_id):
                self._handler.predictions.learn([job])
                self._last_id = number

    def _forget(self, engine: Engine) -> None:
        """Delete a little of what is not to be kept, once a day until nothing is left of it."""
        if self._forgetting is None:
            if self._clock() < self._next_forgetting:
                return
            self._next_forgetting = self._clock() + DAY
            self._forgetting = forget(engine, self._retention, int(self._clock()))
        table, rows = next(self._forgetting, ("", 0))
        self.forgotten += rows
        if not table:
            self._forgetting = None
            log.info("forgotten what is older than is to be kept", extra={"rows": self.forgotten})

    def _refresh(self, engine: Engine) -> None:
        """Go on refreshing the figures for monitoring for a moment, if it is time to."""
        if self._clock() < self._next_refresh:
            return
        until = time.monotonic() + REFRESHING
        try:
            if self._refreshing is None:
                self._refresh_began = int(self._clock())
                self._refreshing = refresh(engine, self._refresh_began)
            while next(self._refreshing, None) is not None:
                if time.monotonic() > until:
                    return
            with engine.connect() as connection:
                self.week = recent_quality(connection)
            self.refreshed = self._refresh_began
            pause = self._refresh_every
        # Nobody's job depends on it, so it must not hold up what others depend on.
        except Exception as error:
            log.error("the figures for monitoring cannot be refreshed; trying again later: %s", error)
            pause = min(REFRESH_RETRY, self._refresh_every)
        self._refreshing = None
        self._next_refresh = self._clock() + pause

    def _record(self, engine: Engine) -> None:
        """Store the decisions that were taken; one leaves the queue only when it is committed."""
        waiting = self._handler.decisions
        while waiting:
            # The other thread only appends, and drops from this end when the queue is full: then some are recorded
            # that would have been dropped.
            some = [waiting[index] for index in range(min(RECORDED_AT_ONCE, len(waiting)))]
            with engine.begin() as connection:
                add_decisions(connection, some)
            for decision in some:
                if waiting and waiting[0] is decision:
                    waiting.popleft()
            self.recorded += len(some)


def together(histories: Iterator[History]) -> History:
    """The history that suffices for all of them."""
    per_user = seconds = 0
    for history in histories:
        if history.per_user is None or history.seconds is None:
            return EVERYTHING
        per_user = max(per_user, history.per_user)
        seconds = max(seconds, history.seconds)
    return History(per_user, seconds)
