"""The worker thread: load the history, follow the accounting log, learn, and maintain the store.

The thread may block on PostgreSQL; the thread that answers requests waits for it only while one job is learnt.  Jobs
are learnt from PostgreSQL after their commit, in the order of commits, so a daemon that was killed at any moment learns
the same jobs again.

Intervals are measured with the monotonic clock, because the host's clock may be set at any moment.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from threading import Thread

from sqlalchemy import Connection, Engine

from softwalltime.core.errors import SourceError
from softwalltime.core.events import Event as JobEvent
from softwalltime.predict.predictors.base import needed_history
from softwalltime.service.background import BackgroundThread
from softwalltime.service.follow import POLL_INTERVAL_S, Follower, with_store
from softwalltime.service.prediction_service import JobEvents, PredictionService
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.store.connections import StatementMonitor
from softwalltime.store.current import last_change, read_changes, read_current
from softwalltime.store.daily import recent_quality, recent_waits, refresh
from softwalltime.store.learning_jobs import (
    LastJob,
    is_stored,
    last_ended_since,
    last_job,
    read_history,
    read_new,
    set_teaching,
)
from softwalltime.store.quality import Quality, WaitOfSize
from softwalltime.store.retention import RefusalReason, RetentionRun

HOUR = 3600
DAY = 86400
MAX_FIRST_REFRESH_S = 60.0
"""Maximum seconds from the start to the first refresh of the monitoring figures."""
REFRESH_RETRY = 600.0
"""Maximum seconds until a failed refresh is tried again."""
REFRESH_STEP_S = 0.3
"""Seconds per step of a refresh; the log is read and new jobs are learnt between steps."""
STATEMENT_TIMEOUT_S = 60.0
"""Statement timeout in seconds, after which the connection is closed."""
LONG_STATEMENT_TIMEOUT_S = 1800.0
"""Statement timeout in seconds for queries of the whole history, and for a step of a refresh."""
MIN_CLOCK_JUMP_S = 3600.0
"""Minimum jump of the host's clock in seconds after which the history is loaded again."""
NOT_REACHED = "not reached yet"

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Worker(BackgroundThread):
    """The background thread of the daemon."""

    handler: RequestHandler
    open_engine: Callable[[], AbstractContextManager[Engine]]
    follower: Follower | None
    """Of the accounting log; ``None`` where another process ingests."""
    recorder: DecisionRecorder
    """Gets the store while it is usable."""
    monitor: StatementMonitor
    keep_days: int = 0
    """Retention in days; 0: forever."""
    clock: Callable[[], float] = time.time
    refresh_every: float = HOUR
    """Seconds between refreshes of the monitoring figures."""
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        super().__init__("worker")
        self.history = 0
        """Jobs of the history that was loaded last."""
        self.loaded = 0
        """Time at which the history was loaded, epoch seconds; 0: not yet."""
        self.logs_read = False
        """Whether the logs have been read to their end since the start."""
        self.pruned = 0
        self.retention_problem = ""
        self.refreshed = 0
        """Time of the last refresh of the monitoring figures, epoch seconds; 0: none since the start."""
        self.week: list[Quality] = []
        """Quality of each predictor in the week before the last refresh."""
        self.waits: list[WaitOfSize] = []
        """Waits by job size in that week and before."""
        self.problem = NOT_REACHED
        self.source_problem = ""
        self.rounds = 0
        """Number of times that the log was read and what is new was learnt and observed."""
        self._epoch = self.clock() - self.monotonic()
        """Difference between the clock and the monotonic clock, to detect jumps."""
        self._last = LastJob()
        self._pruning: RetentionRun | None = None
        # Prune later: a daemon in a restart loop deletes nothing.
        self._next_pruning = self.monotonic() + HOUR
        self._refreshing: Iterator[int] | None = None
        self._next_refresh = self.monotonic() + min(MAX_FIRST_REFRESH_S, self.refresh_every)
        self._refresh_began = 0
        self._next: PredictionService | None = None
        self._job_events = JobEvents()
        self._last_change: int | None = None
        """Number of the last observed change of the current jobs; ``None``: the jobs were not read yet."""
        self._next_fit = self.monotonic()
        self._fitting: Thread | None = None

    def change(self, predictions: PredictionService) -> None:
        """Load the history into another prediction service and replace the current one with it."""
        self._next = predictions

    def _run(self) -> None:
        with_store(self.open_engine, self._use, self._failed, self._stopping, self.follower)

    def _use(self, engine: Engine) -> None:
        self.recorder.engine = engine
        try:
            self._work(engine)
        finally:
            self.recorder.engine = None

    def _failed(self, problem: str, logged: bool) -> None:
        if problem != self.problem and not logged:
            log.error("the store cannot be used, predictions continue from memory: %s", problem)
        self.problem = problem

    def _work(self, engine: Engine) -> None:
        if self.problem == NOT_REACHED:
            self.problem = ""
        # A refresh that began with another engine starts again.
        self._refreshing = None
        if self._pruning is not None:
            self._pruning, self._next_pruning = None, self.monotonic()
        while not self._stopping.is_set():
            self._check_clock()
            if not self.handler.predictions.ready:
                self._load(engine, self.handler.predictions)
                # The next step stores a whole folder of logs, which may take minutes.
                self._recovered()
            if (wanted := self._next) is not None:
                self._load(engine, wanted)
                if self._next is wanted:
                    self._next = None
            if self._stopping.is_set():
                return
            if self.follower is not None:
                self._follow(engine, self.follower)
            self._learn(engine)
            self.rounds += 1
            self._fit()
            self._prune(engine)
            self._refresh(engine)
            self._recovered()
            self._stopping.wait(POLL_INTERVAL_S)

    def _recovered(self) -> None:
        if self.problem:
            log.info("the store is in use")
            self.problem = ""

    def _check_clock(self) -> None:
        """Load the history again if the clock was set, because the selection of jobs depends on the time."""
        epoch = self.clock() - self.monotonic()
        ahead = epoch - self._epoch
        if abs(ahead) > MIN_CLOCK_JUMP_S:
            self._load_again(
                f"the clock of this host was set {'forward' if ahead > 0 else 'back'} by {abs(ahead):.0f} s"
            )
        self._epoch = epoch

    def _load_again(self, reason: str) -> None:
        log.warning("%s; the history is loaded anew", reason)
        if self._next is None and self.handler.predictions.ready:
            self._next = self.handler.predictions

    def _load(self, engine: Engine, wanted: PredictionService) -> None:
        """Create a prediction service with this policy, let it learn its predictors' history, and put it into use.

        Return early if the daemon stops.
        """
        begin = self.monotonic()
        # Start with an empty service at each attempt: the store may fail half-way, and no job must be learnt twice.
        predictions = wanted.fresh()
        now = int(self.clock())
        with engine.begin() as connection:
            set_teaching(connection, predictions.teaching)
        with (
            self.monitor.patient(LONG_STATEMENT_TIMEOUT_S),
            engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        ):
            newest = last_job(connection)
            since_last = partial(last_ended_since, connection, now=now)
            needed = needed_history(predictions.driver.histories(), now, since_last)
            jobs = read_history(connection, *needed, now, predictions.teaching)
            predictions.learn(takewhile(lambda _: not self._stopping.is_set(), jobs))
        if self._stopping.is_set():
            return
        self._last = newest
        if predictions.driver.fit_seconds is not None:
            # Not in a thread: this service does not answer yet.
            _fit(predictions, now)
            self._next_fit = self.monotonic() + predictions.driver.fit_seconds
        self._job_events, self._last_change = JobEvents(), None
        predictions.ready = True
        predictions.guarded = self.handler.predictions.guarded
        self.handler.predictions = predictions
        self.history, self.loaded = predictions.learnt, int(self.clock())
        log.info("learnt %d jobs of the history in %.1f s", predictions.learnt, self.monotonic() - begin)

    def _follow(self, engine: Engine, follower: Follower) -> None:
        try:
            follower.poll(engine)
        except SourceError as error:
            if self.source_problem != str(error):
                log.error("%s", error)
            self.source_problem = str(error)
        else:
            self.source_problem, self.logs_read = "", True

    def _learn(self, engine: Engine) -> None:
        """Learn the jobs that any process has stored since; pass queue events to the predictors that observe."""
        predictions = self.handler.predictions
        # One snapshot for both queries: a job that completes between them must not appear as deleted.
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            if not is_stored(connection, self._last):
                self._load_again("the store lacks jobs that were learnt, as after a failover")
                return
            for last, stored in read_new(connection, self._last):
                job = self.handler.scripts.complete(stored)
                if predictions.driver.observes:
                    predictions.observe(self._job_events.ended(job))
                predictions.learn([job])
                self._last = last
            if predictions.driver.observes:
                predictions.observe(self._changes(connection))

    def _changes(self, connection: Connection) -> list[JobEvent]:
        """Return events of waiting and running jobs since the last call, from all processes that read logs."""
        now = int(self.clock())
        changes = None if self._last_change is None else read_changes(connection, self._last_change)
        if changes is None:
            newest, current = last_change(connection), list(read_current(connection))
            self._last_change = newest
            return self._job_events.load(current, now)
        self._last_change = changes.last
        return self._job_events.change(changes.jobs, now)

    def _fit(self) -> None:
        """Start the thread that fits predictors, if it is time."""
        predictions = self.handler.predictions
        seconds = predictions.driver.fit_seconds
        fitting = self._fitting is not None and self._fitting.is_alive()
        if seconds is None or fitting or self.monotonic() < self._next_fit:
            return
        self._next_fit = self.monotonic() + seconds
        # A daemon thread: fitted predictors are not stored, so shutdown need not wait for it.
        self._fitting = Thread(target=_fit, args=[predictions, int(self.clock())], name="fit", daemon=True)
        self._fitting.start()

    def _prune(self, engine: Engine) -> None:
        """Delete one batch of rows past their retention; begin once a day and continue until none is left."""
        if self._pruning is None:
            if self.monotonic() < self._next_pruning:
                return
            self._next_pruning = self.monotonic() + DAY
            self._pruning = RetentionRun(engine, self.keep_days, int(self.clock()))
        table, rows = next(self._pruning, ("", 0))
        self.pruned += rows
        if table:
            return
        refused, self._pruning = self._pruning.refused, None
        problem = "; ".join(refusal.text for refusal in refused)
        if problem and not self.retention_problem:
            log.error("%s", problem)
        self.retention_problem = problem
        if any(refusal.reason is RefusalReason.CLOCK for refusal in refused):
            # The clock may be wrong: check again in an hour.
            self._next_pruning = self.monotonic() + HOUR
        log.info("deleted rows past their retention", extra={"rows": self.pruned})

    def _refresh(self, engine: Engine) -> None:
        """Continue refreshing the monitoring figures for a moment, if they are due."""
        if self.monotonic() < self._next_refresh:
            return
        until = self.monotonic() + REFRESH_STEP_S
        try:
            with self.monitor.patient(LONG_STATEMENT_TIMEOUT_S):
                if self._refreshing is None:
                    self._refresh_began = int(self.clock())
                    self._refreshing = refresh(engine, self._refresh_began)
                while next(self._refreshing, None) is not None:
                    if self.monotonic() > until:
                        return
                with engine.connect() as connection:
                    self.week, self.waits = recent_quality(connection), recent_waits(connection)
            self.refreshed = self._refresh_began
            pause = self.refresh_every
        # The figures are for monitoring only, so an error must not delay learning.
        except Exception as error:
            log.error("the monitoring figures cannot be refreshed; trying again later: %s", error)
            pause = min(REFRESH_RETRY, self.refresh_every)
        self._refreshing = None
        self._next_refresh = self.monotonic() + pause


def _fit(predictions: PredictionService, now: int) -> None:
    """Fit the predictors; one that fails continues unchanged."""
    begin = time.monotonic()
    predictions.fit(now)
    log.info("fitted predictors in %.1f s", time.monotonic() - begin)
