"""Which waiting jobs may keep their place at the head of the queue: those that PBS has planned as they are now."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from softwalltime.jobs import Submission
from softwalltime.live.jobs import ServerJob
from softwalltime.promises import UNCHANGED_S


class _Seen(NamedTuple):
    """A waiting job at the last look; ``since``: when it was first seen with these attributes, epoch seconds."""

    submission: Submission
    since: int
    estimate: int | None
    planned: bool


class KeptPlaces:
    """The waiting jobs that PBS has planned with their present attributes.

    An estimated start does not show that: PBS leaves it when the owner alters the job, and a scheduling cycle that was
    under way at the alter writes it for the job as it was.  So an estimate counts only if it appears or changes once
    the job has been unchanged for :data:`UNCHANGED_S`, which is longer than a cycle.  A job that is held, and each job
    after a restart of the daemon, begins anew.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, jobs: Iterable[ServerJob], now: int) -> None:
        """Take in the jobs of PBS's queue at ``now`` (epoch seconds)."""
        before = self._seen
        self._seen = {job.job_id: _next(before.get(job.job_id), job, now) for job in jobs if job.waits}

    def among(self, jobs: Collection[str]) -> set[str]:
        """Return those of these jobs that may keep their place, by id."""
        return {job for job in jobs if (seen := self._seen.get(job)) is not None and seen.planned}


def _next(seen: _Seen | None, job: ServerJob, now: int) -> _Seen:
    submission = job.submission
    # The same object as long as PBS says that nothing was modified.
    if seen is None or (seen.submission is not submission and seen.submission != submission):
        return _Seen(submission, now, job.promised, planned=False)
    changed = job.promised not in (None, seen.estimate) and now - seen.since >= UNCHANGED_S
    return _Seen(submission, seen.since, job.promised, seen.planned or changed)
