"""Live values: poll PBS's queue, predict again, alter the jobs whose value has changed, and record each decision.

Mode shadow records the same decisions and alters nothing.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwalltime.core.jobs import DecisionRecord, Submission
from softwalltime.predict.policy.decide import Decision
from softwalltime.predict.policy.power_order import PROMISED
from softwalltime.service.background import BackgroundThread
from softwalltime.service.live.agent import ORDERING_RESOURCE
from softwalltime.service.live.alters import LiveChange, longest_cycle, plan_changes
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import NO_JOB, REFUSED, IflError
from softwalltime.service.live.live_options import LiveOptions, without_live
from softwalltime.service.live.watch import ServerJob, server_jobs
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.service.status import LiveStatus

if TYPE_CHECKING:
    from softwalltime.service.snapshot_source import SnapshotSource

PREDICTION_PAUSE_S = 0.0002
"""Seconds to pause before each prediction, for the thread that answers the hook."""
EVENT_WAITING, EVENT_RUNNING = "live", "live_run"
"""Event names in the stored decisions about waiting and running jobs."""
MAX_RETRY_PAUSE_S = 600.0
"""Maximum seconds between two attempts while PBS refuses or cannot be reached."""
RESTORE_TIMEOUT_S = 30.0
"""Seconds that the first poll waits for the store to restore the promises of the previous daemon process."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class LiveValues:
    """Update the soft walltimes of one server's jobs."""

    options: LiveOptions
    connection: PbsConnection
    predictions: Callable[[], PredictionService]
    """Returns the prediction service in use."""
    record: Callable[[DecisionRecord], None]
    """Queues a decision for the store."""
    counts: LiveStatus
    promises: PromiseWatch
    """Tracks promised starts, for guard and kept places."""

    def __post_init__(self) -> None:
        self._server_jobs = server_jobs(self.connection)
        self._snapshots: SnapshotSource | None = None
        self._shadowed: dict[str, int] = {}
        """Values recorded for jobs in mode shadow, so that each value is recorded once."""
        self._refused: dict[str, tuple[int | None, int | None]] = {}
        """Values that PBS has refused, by job; the same values are not sent again."""
        self._altered: dict[str, ServerJob] = {}
        """Altered jobs with their new values."""

    def look(self, now: int, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Read the queue and alter jobs once, as of ``now`` (epoch seconds).

        :param stopping: checked before each alter; true ends the poll.
        :raises IflError: if PBS cannot be reached, or nothing may be altered.
        """
        jobs = self._server_jobs.look(now)
        counts, predictions = self.counts, self.predictions()
        counts.looks += 1
        counts.jobs = sum(job.waits or job.runs for job in jobs)
        promises, policy = self.promises, predictions.policy
        cycle = longest_cycle(self.connection.objects("schedulers"))
        promises.look(jobs, now, self.options, policy, cycle, partial(self._planned_starts, now))
        # In mode shadow the guard does not change the responses to the hook.
        acts = self.options.mode == "on"
        predictions.guarded = acts and bool(promises.late_job)
        if not predictions.ready:
            return
        there = {job.job_id for job in jobs}
        remembered: tuple[dict[str, Any], ...] = (self._shadowed, self._refused, self._altered)
        for record in remembered:
            for job_id in record.keys() - there:
                del record[job_id]

        def revise(submission: Submission, has: int | None, elapsed: int | None) -> Decision:
            time.sleep(PREDICTION_PAUSE_S)
            return predictions.revise(submission, has, elapsed, now)

        ours = [job for job in jobs if not self._is_foreign(job)]
        wanted = []
        for change in plan_changes(ours, now, self.options, revise, promises.kept if acts else ()):
            if self._refused.get(change.job.job_id) == (change.seconds, change.ordering):
                continue
            if self.options.mode == "shadow" or change.decision.action == "shadow":
                self._shadow(change, now)
            else:
                wanted.append(change)
        budget = max(1, self.options.alters_per_minute * self.options.every // 60)
        counts.postponed = max(0, len(wanted) - budget)
        for change in wanted[:budget]:
            if stopping():
                return
            self._alter(change, now)

    def _planned_starts(self, now: int, arrivals: Mapping[str, int], jobs: Collection[str]) -> Mapping[str, int]:
        try:
            from softwalltime.measure.forecast.queue_model import planned_starts
            from softwalltime.service.snapshot_source import SnapshotSource
        except ImportError:
            # numpy is not installed; the status reports it (live_options.inert).
            return {}
        self._snapshots = self._snapshots or SnapshotSource(self.connection)
        return planned_starts(self._snapshots.take(now), arrivals, jobs)

    def _is_foreign(self, job: ServerJob) -> bool:
        """Return whether the job's soft walltime was set by another user after the daemon's alter, or by a manager.

        The soft walltime also changes when the walltime is altered and when the job starts, so only values for the same
        walltime and state are compared.  Removing the soft walltime returns the job to the daemon.
        """
        altered = self._altered.get(job.job_id)
        if altered is None:
            return False
        same_terms = job.waits == altered.waits and job.submission.walltime == altered.submission.walltime
        if not same_terms or job.soft_walltime is None:
            del self._altered[job.job_id]
            return False
        return job.soft_walltime != altered.soft_walltime

    def _shadow(self, change: LiveChange, now: int) -> None:
        if change.seconds is not None and self._shadowed.get(change.job.job_id) != change.seconds:
            self._shadowed[change.job.job_id] = change.seconds
            self.counts.shadowed += 1
            self.record(_decision_record(change, now, "shadow"))

    def _alter(self, change: LiveChange, now: int) -> None:
        """Alter one job.

        :raises IflError: if PBS now refuses all alters, not only this one.
        """
        job_id = change.job.job_id
        try:
            if change.seconds is not None:
                self.connection.alter(job_id, change.seconds)
            if change.ordering is not None:
                self.connection.alter(job_id, change.ordering, ORDERING_RESOURCE)
        except IflError as error:
            if error.code in NO_JOB:
                return
            # Other errors concern PBS or the agent's account, not this job.
            if error.code not in REFUSED:
                raise
            self.counts.refused += 1
            self._refused[job_id] = change.seconds, change.ordering
            log.warning("live values: %s", error)
            self.record(_decision_record(change, now, "none"))
        else:
            self.counts.altered += 1
            if change.seconds is not None:
                self._altered[job_id] = replace(change.job, soft_walltime=change.seconds)
            self.record(_decision_record(change, now, "set"))


def _decision_record(change: LiveChange, now: int, action: str) -> DecisionRecord:
    job, decision = change.job, change.decision
    # The last decision before the start is scored; with a kept place, that is the unchanged soft walltime.
    seconds = job.soft_walltime if change.seconds is None else change.seconds
    ordering = decision.ordering_seconds if change.ordering == PROMISED else change.ordering
    return DecisionRecord(
        now, EVENT_RUNNING if job.runs else EVENT_WAITING, job.submission, decision.mode, decision.spec,
        decision.predicted, seconds, action, decision.basis, reason=decision.reason, had=job.soft_walltime or 0,
        ordering=ordering,
    )  # fmt: skip


@dataclass(eq=False)
class LiveThread(BackgroundThread):
    """Update soft walltimes in PBS while the daemon runs; do nothing in mode off."""

    options: LiveOptions
    predictions: Callable[[], PredictionService]
    record: Callable[[DecisionRecord], None]
    store: PromiseStore
    """Keeps promises across restarts."""
    connect: Callable[[str, Path | None], PbsConnection] = PbsConnection
    """Opens a connection to a server by name, through the agent at this socket."""
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        super().__init__("live")
        self.counts = LiveStatus()
        self.problem = ""
        self.promises = PromiseWatch(self.store)

    def change(self, options: LiveOptions) -> None:
        if options != self.options:
            self.options = options
            self._wake()

    def status(self) -> LiveStatus:
        """Return state and counters; safe from any thread."""
        options, promises = self.options, self.promises
        return replace(
            self.counts, mode=options.mode, problem=self.problem, guard=options.guard, promises=dict(promises.counts),
            late_job=promises.late_job if options.mode != "off" else "",
            unmet=without_live(self.predictions().policy, options),
        )  # fmt: skip

    def _run(self) -> None:
        while not self._stopping.is_set():
            options = self.options
            if options.mode == "off":
                self._guard_off()
                self.problem = ""
                self._changed.wait()
                self._changed.clear()
                continue
            connection = self.connect(options.server, options.agent)
            try:
                self._work(options, connection)
            except Exception:
                log.exception("live values: unexpected error; trying again")
                self.problem = "an unexpected error, see the log"
                self._guard_off()
                self._changed.wait(MAX_RETRY_PAUSE_S)
            finally:
                connection.close()
            self._changed.clear()

    def _work(self, options: LiveOptions, connection: PbsConnection) -> None:
        """Read the queue periodically until the options change."""
        deadline = time.monotonic() + RESTORE_TIMEOUT_S
        while not (self.store.restored.is_set() or time.monotonic() > deadline or self._changed.wait(0.1)):
            pass
        values = LiveValues(options, connection, self.predictions, self.record, self.counts, self.promises)
        pause = float(options.every)
        while not self._changed.is_set():
            begin = time.monotonic()
            try:
                values.look(int(self.clock()), stopping=self._changed.is_set)
            except IflError as error:
                if self.problem != str(error):
                    log.error("live values: %s; trying again", error)
                self.problem = str(error)
                # Without the queue it is unknown whether the top job is late.
                self._guard_off()
                pause = min(2 * pause, MAX_RETRY_PAUSE_S)
            else:
                if self.problem:
                    log.info("live values: PBS answers again")
                self.problem, pause = "", float(options.every)
            self._changed.wait(max(0.0, pause - (time.monotonic() - begin)))

    def _guard_off(self) -> None:
        self.promises.guard_off(int(self.clock()))
        self.predictions().guarded = False
