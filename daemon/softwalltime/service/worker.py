"""The worker thread: load the history, follow the accounting log, learn, and maintain the store.

The thread may block on PostgreSQL; the thread that answers requests waits for it only while one job is learnt.  Jobs
are learnt from PostgreSQL after their commit, in the order of commits, so a daemon that was killed at any moment learns
the same jobs again.

Intervals are measured with the monotonic clock, because the host's clock may be set at any moment.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import Event, Thread
from typing import TypeVar

from sqlalchemy import Connection, Engine

from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.core.events import Event as JobEvent
from softwalltime.predict.predictors.base import History
from softwalltime.service.background import BackgroundThread
from softwalltime.service.follow import MAX_RETRY_PAUSE_S, POLL_INTERVAL_S, Follower
from softwalltime.service.prediction_service import JobEvents, PredictionService
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.store.connections import StatementMonitor
from softwalltime.store.current import last_change, read_changes, read_current
from softwalltime.store.daily import recent_quality, recent_waits, refresh
from softwalltime.store.learning_jobs import last_ended_since, last_id, read_history, read_new, set_teaching
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

T = TypeVar("T")

log = logging.getLogger(__name__)


class _StoppingError(Exception):
    """The daemon stops while the history is being loaded."""


class Worker(BackgroundThread):
    """The background thread of the daemon.

    :param open_engine: opens the store; called again after a failure.
    :param follower: of the accounting log; ``None`` where another process ingests.
    :param recorder: gets the store while it is usable.
    :param monitor: monitors the engine's statements.
    :param keep_days: retention in days; 0: forever.
    :param clock: the time, epoch seconds.
    :param refresh_every: seconds between refreshes of the monitoring figures.
    :param monotonic: a clock for intervals, seconds.
    """

    def __init__(
        self,
        handler: RequestHandler,
        open_engine: Callable[[], AbstractContextManager[Engine]],
        follower: Follower | None,
        recorder: DecisionRecorder,
        monitor: StatementMonitor,
        keep_days: int = 0,
        clock: Callable[[], float] = time.time,
        refresh_every: float = HOUR,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
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
        self._handler = handler
        self._open_engine = open_engine
        self._follower = follower
        self._recorder = recorder
        self._monitor = monitor
        self._clock = clock
        self._monotonic = monotonic
        self._epoch = clock() - monotonic()
        """Difference between the clock and the monotonic clock, to detect jumps."""
        self._last_id = 0
        self._keep_days = keep_days
        self._pruning: RetentionRun | None = None
        # Prune first after a day: a daemon in a restart loop deletes nothing.
        self._pruning_began = monotonic()
        self._next_pruning = monotonic() + HOUR
        self._refreshing: Iterator[int] | None = None
        self._refresh_every = refresh_every
        self._next_refresh = monotonic() + min(MAX_FIRST_REFRESH_S, refresh_every)
        self._refresh_began = 0
        self._next: PredictionService | None = None
        self._job_events = JobEvents()
        self._last_change: int | None = None
        """Number of the last observed change of the current jobs; ``None``: the jobs were not read yet."""
        self._next_fit = monotonic()
        self._fitting: Thread | None = None
        self._stopping = Event()
        super().__init__("worker")

    def _tell(self, timeout: float) -> None:
        self._stopping.set()

    def change(self, predictions: PredictionService) -> None:
        """Load the history into another prediction service and replace the current one with it."""
        self._next = predictions

    def _run(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            try:
                with self._open_engine() as engine, self._recorder.using(engine):
                    pause = 1.0
                    self._work(engine)
            except _StoppingError:
                return
            except SoftwalltimeError as error:
                if self.problem != str(error):
                    log.error("the store cannot be used, predictions continue from memory: %s", error)
                self.problem = str(error)
            except Exception:
                log.exception("unexpected error; trying again")
                self.problem = "an unexpected error, see the log"
            if self._follower is not None:
                # Measure the lag even while the store cannot be reached.
                with suppress(SourceError):
                    self._follower.measure()
            if not self._stopping.wait(pause):
                pause = min(2 * pause, MAX_RETRY_PAUSE_S)

    def _work(self, engine: Engine) -> None:
        if self.problem == NOT_REACHED:
            self.problem = ""
        # A refresh that began with another engine starts again.
        self._refreshing = None
        if self._pruning is not None:
            self._pruning, self._next_pruning = None, self._monotonic()
        while not self._stopping.is_set():
            self._check_clock()
            if not self._handler.predictions.ready:
                self._load(engine, self._handler.predictions)
                # The next step stores a whole folder of logs, which may take minutes.
                self._recovered()
            if (wanted := self._next) is not None:
                self._load(engine, wanted)
                if self._next is wanted:
                    self._next = None
            if self._follower is not None:
                self._follow(engine, self._follower)
            self._learn(engine)
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
        epoch = self._clock() - self._monotonic()
        ahead = epoch - self._epoch
        if abs(ahead) > MIN_CLOCK_JUMP_S:
            log.warning(
                "the clock of this host was set %s by %.0f s; the history is loaded anew",
                "forward" if ahead > 0 else "back", abs(ahead),
            )  # fmt: skip
            if self._next is None and self._handler.predictions.ready:
                self._next = self._handler.predictions
        self._epoch = epoch

    def _load(self, engine: Engine, wanted: PredictionService) -> None:
        """Create a prediction service with this policy, let it learn its predictors' history, and put it into use.

        :raises _StoppingError: if the daemon stops first.
        """
        begin = self._monotonic()
        # Start with an empty service at each attempt: the store may fail half-way, and no job must be learnt twice.
        predictions = wanted.fresh()
        now = int(self._clock())
        with engine.begin() as connection:
            set_teaching(connection, predictions.teaching)
        with (
            self._monitor.patient(LONG_STATEMENT_TIMEOUT_S),
            engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        ):
            newest = last_id(connection)
            wanted_jobs = together(connection, predictions.driver.histories(), now)
            jobs = read_history(connection, *wanted_jobs, now, predictions.teaching)
            predictions.learn(self._until_stopped(jobs))
        self._last_id = newest
        if predictions.driver.fit_seconds is not None:
            # Not in a thread: this service does not answer yet.
            _fit(predictions, now)
            self._next_fit = self._monotonic() + predictions.driver.fit_seconds
        self._job_events, self._last_change = JobEvents(), None
        predictions.ready = True
        predictions.guarded = self._handler.predictions.guarded
        self._handler.predictions = predictions
        self.history, self.loaded = predictions.learnt, int(self._clock())
        log.info("learnt %d jobs of the history in %.1f s", predictions.learnt, self._monotonic() - begin)

    def _until_stopped(self, jobs: Iterator[T]) -> Iterator[T]:
        for job in jobs:
            if self._stopping.is_set():
                raise _StoppingError
            yield job

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
        predictions = self._handler.predictions
        # One snapshot for both queries: a job that completes between them must not appear as deleted.
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            for number, stored in read_new(connection, self._last_id):
                job = self._handler.scripts.complete(stored)
                if predictions.driver.observes:
                    predictions.observe(self._job_events.ended(job))
                predictions.learn([job])
                self._last_id = number
            if predictions.driver.observes:
                predictions.observe(self._changes(connection))

    def _changes(self, connection: Connection) -> list[JobEvent]:
        """Return events of waiting and running jobs since the last call, from all processes that read logs."""
        now = int(self._clock())
        changes = None if self._last_change is None else read_changes(connection, self._last_change)
        if changes is None:
            newest, current = last_change(connection), list(read_current(connection))
            self._last_change = newest
            return self._job_events.load(current, now)
        self._last_change = changes.last
        return self._job_events.change(changes.jobs, now)

    def _fit(self) -> None:
        """Start the thread that fits predictors, if it is time."""
        predictions = self._handler.predictions
        seconds = predictions.driver.fit_seconds
        fitting = self._fitting is not None and self._fitting.is_alive()
        if seconds is None or fitting or self._monotonic() < self._next_fit:
            return
        self._next_fit = self._monotonic() + seconds
        # A daemon thread: fitted predictors are not stored, so shutdown need not wait for it.
        self._fitting = Thread(target=_fit, args=[predictions, int(self._clock())], name="fit", daemon=True)
        self._fitting.start()

    def _prune(self, engine: Engine) -> None:
        """Delete one batch of rows past their retention; begin once a day and continue until none is left."""
        if self._pruning is None:
            if self._monotonic() < self._next_pruning:
                return
            self._pruning_began = self._monotonic()
            self._next_pruning = self._pruning_began + DAY
            self._pruning = RetentionRun(engine, self._keep_days, int(self._clock()))
        table, rows = next(self._pruning, ("", 0))
        self.pruned += rows
        refused = self._pruning.refused
        problem = "; ".join(refusal.text for refusal in refused)
        if problem and not self.retention_problem:
            log.error("%s", problem)
        self.retention_problem = problem
        if any(refusal.reason is RefusalReason.CLOCK for refusal in refused):
            # The clock may be wrong: check again in an hour.
            self._next_pruning = self._pruning_began + HOUR
        if not table:
            self._pruning = None
            log.info("deleted rows past their retention", extra={"rows": self.pruned})

    def _refresh(self, engine: Engine) -> None:
        """Continue refreshing the monitoring figures for a moment, if they are due."""
        if self._monotonic() < self._next_refresh:
            return
        until = self._monotonic() + REFRESH_STEP_S
        try:
            with self._monitor.patient(LONG_STATEMENT_TIMEOUT_S):
                if self._refreshing is None:
                    self._refresh_began = int(self._clock())
                    self._refreshing = refresh(engine, self._refresh_began)
                while next(self._refreshing, None) is not None:
                    if self._monotonic() > until:
                        return
                with engine.connect() as connection:
                    self.week, self.waits = recent_quality(connection), recent_waits(connection)
            self.refreshed = self._refresh_began
            pause = self._refresh_every
        # The figures are for monitoring only, so an error must not delay learning.
        except Exception as error:
            log.error("the monitoring figures cannot be refreshed; trying again later: %s", error)
            pause = min(REFRESH_RETRY, self._refresh_every)
        self._refreshing = None
        self._next_refresh = self._monotonic() + pause


def _fit(predictions: PredictionService, now: int) -> None:
    """Fit the predictors; one that fails continues unchanged."""
    begin = time.monotonic()
    predictions.fit(now)
    log.info("fitted predictors in %.1f s", time.monotonic() - begin)


def together(connection: Connection, histories: Collection[History], now: int) -> tuple[int | None, int | None]:
    """Return the union of the histories: number of last jobs of each user, and start of the period with all jobs.

    The start is in epoch seconds; ``None``: no such period.  Both ``None``: all jobs.
    """
    per_user, since = 0, now
    for history in histories:
        begin = history.since(now, partial(last_ended_since, connection, now=now))
        if history.per_user is None or begin is None:
            return None, None
        per_user, since = max(per_user, history.per_user), min(since, begin)
    return per_user, since if since < now else None
