"""The latest start of each waiting job: the one that order of arrival would give it when it was submitted, and a slack.

An owner gains nothing by changing a job.  One that is altered, moved, or held and released gets another latest start,
from a plan of that time behind all jobs that wait then, and never an earlier one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from softwalltime.jobs import Submission
from softwalltime.promises import LatestStart, is_foreseen

HELD = ""
"""In place of the terms of a job that may not start now."""


def terms_of(submission: Submission) -> str:
    """Return a digest of all that the start of a job depends on, which its owner may alter."""
    of = submission
    terms = (
        of.queue, of.group, of.project, of.walltime, of.min_walltime, of.max_walltime, of.ncpus, of.nodect, of.ngpus,
        of.mem, of.select, of.place,
    )  # fmt: skip
    return sha256(repr(terms).encode()).hexdigest()


class LatestStarts:
    def __init__(self) -> None:
        self._known: dict[str, LatestStart] = {}
        self._terms: Mapping[str, str] = {}
        self._changed: dict[str, LatestStart | None] = {}

    def restore(self, starts: Iterable[LatestStart]) -> None:
        """Add what an earlier process knew; that counts where the job is the same as then."""
        for start in starts:
            known = self._known.get(start.job_id)
            if known is None or known.terms == start.terms:
                self._known[start.job_id] = self._changed[start.job_id] = start

    def look(self, terms: Mapping[str, str]) -> set[str]:
        """Take in the terms of the jobs that have not started; return the ids of those that need a latest start.

        :param terms: by job id; :data:`HELD` of a job that may not start now.
        """
        self._terms = terms
        for job_id in self._known.keys() - terms.keys():
            del self._known[job_id]
            self._changed[job_id] = None
        for job_id, known in self._known.items():
            if known.terms not in (terms[job_id], HELD):
                self._known[job_id] = self._changed[job_id] = replace(known, terms=HELD)
        return {
            job_id
            for job_id, present in terms.items()
            if present != HELD and ((start := self._known.get(job_id)) is None or start.terms != present)
        }

    def arrivals(self, now: int) -> dict[str, int]:
        """Return when jobs took their place in the order of arrival, by job id, in epoch seconds.

        That is when they got their latest start, and now for those that were changed since.
        """
        return {job_id: now if start.terms == HELD else start.set_at for job_id, start in self._known.items()}

    def set(self, planned: Mapping[str, int], now: int, slack: int, share: float) -> None:
        """Set the latest starts of jobs from their planned starts.

        :param planned: by job id, epoch seconds.
        :param slack: seconds from the planned start to the latest one, at least.
        :param share: the same, as a share of the planned wait.
        """
        for job_id, start in planned.items():
            if not is_foreseen(start, now):
                continue
            latest = start + max(slack, int(share * (start - now)))
            if (known := self._known.get(job_id)) is not None:
                latest = max(latest, known.latest)
            made = LatestStart(job_id, now, latest, self._terms[job_id])
            self._known[job_id] = self._changed[job_id] = made

    def near(self, by: int) -> list[str]:
        """Return the ids of the jobs that may start now and should by ``by`` (epoch seconds), the most urgent first."""
        starts = [start for start in self._known.values() if start.terms != HELD and start.latest <= by]
        return [start.job_id for start in sorted(starts, key=lambda start: (start.latest, start.job_id))]

    def take_changes(self) -> dict[str, LatestStart | None]:
        """Return what changed since the last call, by job id; ``None`` for a job that waits no more."""
        changed, self._changed = self._changed, {}
        return changed
