"""Which waiting jobs may keep their place at the head of the queue: those that PBS has planned as they are now."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from softwalltime.accounting.attributes import converted
from softwalltime.accounting.values import duration
from softwalltime.jobs import Submission
from softwalltime.live.ifl import Attributes
from softwalltime.live.jobs import ServerJob

CYCLE: Final = 1200
"""Seconds after which PBS ends a scheduling cycle, unless its ``sched_cycle_length`` says something else."""


class _Seen(NamedTuple):
    """A waiting job at the last look.

    ``since``: when it was first seen with these attributes, epoch seconds.  ``settled``: whether a cycle that began
    before has ended.  ``planned``: whether PBS has planned it since.
    """

    submission: Submission
    since: int
    estimate: int | None
    settled: bool
    planned: bool


class KeptPlaces:
    """The waiting jobs that PBS has planned with their present attributes.

    An estimated start does not show that: PBS leaves it when the owner alters the job, and a scheduling cycle that is
    under way at the alter writes it for the job as it was.  So an estimate counts only if it appears or changes once no
    cycle is under way that began before the job had its attributes.  A job that is held, and each job after a restart
    of the daemon, begins anew.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, jobs: Iterable[ServerJob], now: int, cycle: int) -> None:
        """Take in the jobs of PBS's queue at ``now`` (epoch seconds).

        :param cycle: seconds for which a cycle may be under way by now; 0: none is.
        """
        before = self._seen
        self._seen = {job.job_id: _next(before.get(job.job_id), job, now, cycle) for job in jobs if job.waits}

    def among(self, jobs: Collection[str]) -> set[str]:
        """Return those of these jobs that may keep their place, by id."""
        return {job for job in jobs if (seen := self._seen.get(job)) is not None and seen.planned}


def _next(seen: _Seen | None, job: ServerJob, now: int, cycle: int) -> _Seen:
    submission = job.submission
    # The same object as long as PBS says that nothing was modified.
    if seen is None or (seen.submission is not submission and seen.submission != submission):
        return _Seen(submission, now, job.promised, cycle == 0, planned=False)
    planned = seen.planned or (seen.settled and job.promised not in (None, seen.estimate))
    settled = seen.settled or now - seen.since >= cycle
    return _Seen(submission, seen.since, job.promised, settled, planned)


def longest_cycle(schedulers: Mapping[str, Attributes]) -> int:
    """Return for how many seconds at most a scheduling cycle has been under way; 0: none is."""
    return max((_cycle(scheduler) for scheduler in schedulers.values()), default=CYCLE)


def _cycle(scheduler: Attributes) -> int:
    if scheduler.get("state") in ("idle", "down"):
        return 0
    return converted(scheduler.get("sched_cycle_length"), duration) or CYCLE
