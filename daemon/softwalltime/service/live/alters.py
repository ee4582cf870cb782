"""Select the jobs to alter, as a pure function of queue, predictions and options; track jobs that keep their place."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from softwalltime.accounting.attributes import converted
from softwalltime.accounting.conversions import duration
from softwalltime.core.jobs import Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.decide import Decision
from softwalltime.predict.policy.power_order import PROMISED
from softwalltime.service.live.ifl import Attributes
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live.watch import ServerJob


class Urgency(IntEnum):
    """Priority of changes when there are more than the budget allows."""

    RUNNING_OUT = 0
    """A running job whose soft walltime ends soon: the scheduler's plan for all other jobs depends on it."""
    TOP_JOB = 1
    """A waiting job with a promised start."""
    RUNNING = 2
    WAITING = 3


class LiveChange(NamedTuple):
    """Values to set on a job, and the decision behind them.

    ``seconds`` is the soft walltime, ``ordering`` the ordering value in seconds; ``None``: unchanged.
    """

    urgency: Urgency
    job: ServerJob
    seconds: int | None
    decision: Decision
    ordering: int | None = None


Revise = Callable[[Submission, int | None, int | None], Decision]
"""New decision about a job: (submission, current soft walltime, elapsed seconds or ``None`` while it waits)."""


def plan_changes(
    jobs: Iterable[ServerJob], now: int, options: LiveOptions, revise: Revise, kept: Collection[str] = ()
) -> list[LiveChange]:
    """Return the changes large enough for an alter, by urgency, then by age of the job, oldest first.

    A waiting job gets the value of a job submitted now.  Its ordering value is only raised, so that a user cannot gain
    a place by attributes that are altered later.  A job that keeps its place has the ordering value :data:`PROMISED`
    while it waits, and loses it when it is held.  A running job gets the prediction given its elapsed time.  A running
    job that has outlived its prediction is not changed: PBS extends its soft walltime by whole multiples.

    :param kept: ids of the waiting jobs that keep their place (:class:`KeptPlaces`).
    """
    changes = []
    for job in jobs:
        if job.runs:
            change = _running(job, now, options, revise)
        elif job.waits or job.ordering == PROMISED:
            change = _waiting(job, options, revise, job.waits and job.job_id in kept)
        else:
            continue
        if change is not None:
            changes.append(change)
    return sorted(changes, key=lambda change: (change.urgency, change.job.submission.submitted, change.job.job_id))


def _waiting(job: ServerJob, options: LiveOptions, revise: Revise, kept: bool) -> LiveChange | None:
    decision = revise(job.submission, job.soft_walltime, None)
    seconds = decision.soft_walltime if job.waits and decision.action != "none" else None
    if seconds is not None and not _worth(job, seconds, options, decision.reason):
        seconds = None
    # A held job loses its ordering value; otherwise it would have its place again when released.
    ordering = _ordering(job, decision, options, kept=kept)
    if seconds is None and ordering is None:
        return None
    urgency = Urgency.TOP_JOB if kept or job.promised or not job.waits else Urgency.WAITING
    return LiveChange(urgency, job, seconds, decision, ordering)


def _ordering(job: ServerJob, decision: Decision, options: LiveOptions, *, kept: bool) -> int | None:
    """Return the ordering value to set; ``None``: unchanged."""
    value = decision.ordering_seconds if decision.mode == "on" else None
    if kept and value is not None:
        return PROMISED if job.ordering != PROMISED else None
    if job.ordering == PROMISED:
        # PROMISED is also the ordering value of a job of one second.
        value = value or job.submission.walltime
        return None if value == PROMISED else value
    # 0 and no value: the formula takes the walltime.
    if not job.ordering or value is None or value < job.ordering or not _differs(job.ordering, value, options):
        return None
    return value


def _running(job: ServerJob, now: int, options: LiveOptions, revise: Revise) -> LiveChange | None:
    # PBS alters whole arrays and single jobs, but no running subjob; suspended jobs are not altered.
    if job.state == "S" or "[" in job.job_id or job.started is None:
        return None
    elapsed = max(0, now - job.started)
    decision = revise(job.submission, job.soft_walltime, elapsed)
    seconds = decision.soft_walltime
    if decision.action == "none" or seconds is None or seconds < elapsed + options.lead:
        return None
    ends_soon = job.soft_walltime is not None and job.soft_walltime < elapsed + options.lead < seconds
    if not ends_soon and not _worth(job, seconds, options, decision.reason):
        return None
    return LiveChange(Urgency.RUNNING_OUT if ends_soon else Urgency.RUNNING, job, seconds, decision)


def _worth(job: ServerJob, seconds: int, options: LiveOptions, reason: Reason) -> bool:
    """Return whether the change is large enough; a job without soft walltime is planned with its walltime."""
    has = job.soft_walltime or job.submission.walltime
    if reason is Reason.GUARD:
        # Any difference counts: a value that is too short can delay the late top job.
        return seconds != has
    return has is None or _differs(has, seconds, options)


def _differs(has: int, seconds: int, options: LiveOptions) -> bool:
    return abs(seconds - has) >= max(options.change_seconds, options.change_share * has)


DEFAULT_CYCLE_S: Final = 1200
"""PBS's default ``sched_cycle_length``: maximum seconds of a scheduling cycle."""


class _Seen(NamedTuple):
    """A waiting job at the last poll.

    ``since``: when it was first seen with these attributes, epoch seconds.  ``settled``: whether a cycle that began
    before has ended.  ``planned``: whether PBS has planned it since.
    """

    submission: Submission
    since: int
    estimate: int | None
    settled: bool
    planned: bool


class KeptPlaces:
    """The waiting jobs that PBS has planned with their current attributes.

    An estimated start alone is no proof: PBS keeps it when the owner alters the job, and a scheduling cycle in
    progress at the alter writes it for the old attributes.  So an estimate counts only if it appears or changes after
    all cycles that began before the alter have ended.  Tracking starts again for held jobs, and for all jobs after a
    restart of the daemon.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, jobs: Iterable[ServerJob], now: int, cycle: int) -> None:
        """Update from the jobs in PBS's queue at ``now`` (epoch seconds).

        :param cycle: maximum seconds that a scheduling cycle has been in progress; 0: none is.
        """
        before = self._seen
        self._seen = {job.job_id: _next(before.get(job.job_id), job, now, cycle) for job in jobs if job.waits}

    def among(self, jobs: Collection[str]) -> set[str]:
        """Return the ids of those jobs that may keep their place."""
        return {job for job in jobs if (seen := self._seen.get(job)) is not None and seen.planned}


def _next(seen: _Seen | None, job: ServerJob, now: int, cycle: int) -> _Seen:
    submission = job.submission
    # Identity first: JobWatcher returns the same object until PBS reports a modification.
    if seen is None or (seen.submission is not submission and seen.submission != submission):
        return _Seen(submission, now, job.promised, cycle == 0, planned=False)
    planned = seen.planned or (seen.settled and job.promised not in (None, seen.estimate))
    settled = seen.settled or now - seen.since >= cycle
    return _Seen(submission, seen.since, job.promised, settled, planned)


def longest_cycle(schedulers: Mapping[str, Attributes]) -> int:
    """Return the maximum seconds that a scheduling cycle has been in progress; 0: none is."""
    active = [scheduler for scheduler in schedulers.values() if scheduler.get("state") not in ("idle", "down")]
    lengths = [converted(scheduler.get("sched_cycle_length"), duration) or DEFAULT_CYCLE_S for scheduler in active]
    return max(lengths, default=0 if schedulers else DEFAULT_CYCLE_S)
