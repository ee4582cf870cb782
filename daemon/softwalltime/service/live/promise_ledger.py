"""Track the open promises and the latest starts of waiting jobs from polls of the queue."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final

from softwalltime.core.jobs import Submission
from softwalltime.core.promises import LatestStart, Outcome, Promise, is_foreseen
from softwalltime.service.live.watch import QUEUED, ServerJob

DELETED_AFTER_S: Final = 86400
"""Seconds after which a promised job that has left the queue without a known start counts as deleted."""
LATE_AFTER_S: Final = 60
"""Minimum delay in seconds beyond the promised start to count as late."""
CORRECTION_WINDOW_S: Final = 600
"""Seconds in which PBS may correct a new promise: it runs a cycle at least every 10 minutes."""
WITHDRAWN_AFTER_S: Final = 7200
"""Seconds after a promised start at which the promise counts as withdrawn if PBS has not renewed it."""
_MAX_NCPUS: Final = 2**31
"""More processors than the store can count."""


class PromiseLedger:
    def __init__(self) -> None:
        self._open: dict[str, Promise] = {}
        self._gone: dict[str, int] = {}
        """Jobs that have left the queue (ended or deleted), with the time at which that was seen."""
        self._last: dict[str, tuple[Submission, int | None]] = {}
        """Each job of the last poll, and the estimate from before its last alter, which PBS keeps."""

    def restore(self, promises: Iterable[Promise]) -> None:
        """Add promises of an earlier process; known jobs are not changed."""
        for promise in promises:
            self._open.setdefault(promise.job_id, promise)

    @property
    def gone(self) -> frozenset[str]:
        """Jobs that left the queue without a known start, which may be in the accounting log."""
        return frozenset(self._gone)

    @property
    def waiting(self) -> Mapping[str, int]:
        """The first promised start of each waiting job, epoch seconds."""
        return {job: promise.first for job, promise in self._open.items() if job not in self._gone}

    def late_job(self, now: int, seconds: int) -> str:
        """Return the waiting job with the longest delay beyond its promise; empty if none exceeds ``seconds``.

        With short waiting values PBS backfills jobs that outlive them, which can delay a wide top job repeatedly.
        While it is late, the guard plans waiting jobs with their walltimes.
        """
        late = [(promise, job) for job, promise in self.waiting.items() if now > promise + seconds]
        return min(late)[1] if late else ""

    def look(self, jobs: Iterable[ServerJob], now: int) -> list[Promise]:
        """Update from the waiting and running jobs at ``now`` (epoch seconds); return the changed promises.

        A promise that is past when first seen is ignored: PBS keeps the estimates of former top jobs, also of requeued
        ones.  Each scheduling cycle renews the promises of top jobs, so a past promise that is not renewed belongs to a
        job that is no longer planned: it can never run, or other jobs are preferred.

        The first cycles may correct a promise, which was computed with the waiting values of jobs that started in the
        same cycle.
        """
        changed: list[Promise] = []
        before, self._last = self._last, {}
        there = set()
        for job in jobs:
            there.add(job.job_id)
            submission, stale = before.get(job.job_id, (job.submission, None))
            altered = submission is not job.submission and submission != job.submission
            if altered:
                stale = job.promised
            self._last[job.job_id] = job.submission, stale
            changed += self._seen(job, now, stale, altered=altered)
        for job_id in self._open.keys() - there:
            since = self._gone.setdefault(job_id, now)
            if now - since > DELETED_AFTER_S:
                changed.append(self._close(job_id, Outcome.WITHDRAWN))
        return changed

    def _seen(self, job: ServerJob, now: int, stale: int | None, *, altered: bool) -> Iterable[Promise]:
        known = self._open.get(job.job_id)
        # The promise of an array is met when its first subjob starts.
        if job.state != QUEUED:
            if known is not None:
                yield self._start(job.job_id, now if job.started is None else job.started)
            return
        if known is not None and (altered or job.job_id in self._gone):
            yield self._close(job.job_id, Outcome.WITHDRAWN)
            known = None
        if known is None:
            if job.promised not in (None, stale) and job.promised > now and is_foreseen(job.promised, now):
                of = job.submission
                ncpus = of.ncpus if of.ncpus is not None and of.ncpus < _MAX_NCPUS else None
                made = Promise(job.job_id, now, job.promised, job.promised, queue=of.queue, ncpus=ncpus)
                self._open[job.job_id] = made
                yield made
        elif job.promised not in (None, known.last):
            settled = now - known.promised_at > CORRECTION_WINDOW_S
            first = known.first if settled else job.promised
            self._open[job.job_id] = made = replace(known, first=first, last=job.promised)
            yield made
        elif now - known.last > WITHDRAWN_AFTER_S:
            yield self._close(job.job_id, Outcome.WITHDRAWN)

    def found(self, job_id: str, started: int) -> Promise | None:
        """Record the start of a job that has left the queue; return its promise, if it was for this start."""
        promise = self._open.get(job_id)
        if promise is None or job_id not in self._gone or started < promise.promised_at:
            return None
        return self._start(job_id, started)

    def _start(self, job_id: str, started: int) -> Promise:
        late = started - self._open[job_id].first > LATE_AFTER_S
        return replace(self._close(job_id, Outcome.LATE if late else Outcome.KEPT), started=started)

    def _close(self, job_id: str, outcome: Outcome) -> Promise:
        self._gone.pop(job_id, None)
        return replace(self._open.pop(job_id), outcome=outcome)


HELD = ""
"""Digest of jobs that may not start now."""


def terms_of(submission: Submission) -> str:
    """Return a digest of the attributes that affect a job's start and that its owner may alter."""
    of = submission
    terms = (
        of.queue, of.group, of.project, of.walltime, of.min_walltime, of.max_walltime, of.ncpus, of.nodect, of.ngpus,
        of.mem, of.select, of.place,
    )  # fmt: skip
    return sha256(repr(terms).encode()).hexdigest()


class LatestStarts:
    """The latest start of each waiting job: its planned start in order of arrival at its submission, plus a slack.

    Altering a job gains nothing: a job that is altered, moved, or held and released gets a new latest start, from a
    plan behind all jobs that wait at that time, and never an earlier one.
    """

    def __init__(self) -> None:
        self._known: dict[str, LatestStart] = {}
        self._terms: Mapping[str, str] = {}
        self._changed: dict[str, LatestStart | None] = {}

    def restore(self, starts: Iterable[LatestStart]) -> None:
        """Restore latest starts of an earlier process, for jobs that are unchanged since."""
        for start in starts:
            known = self._known.get(start.job_id)
            if known is None or known.terms == start.terms:
                self._known[start.job_id] = self._changed[start.job_id] = start

    def look(self, terms: Mapping[str, str]) -> set[str]:
        """Update the digests of the jobs that have not started; return the ids of those that need a latest start.

        :param terms: digests by job id; :data:`HELD` for a job that may not start now.
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
        """Return the position of jobs in the order of arrival, by job id, in epoch seconds.

        It is the time at which they got their latest start; for jobs changed since, it is now.
        """
        return {job_id: now if start.terms == HELD else start.set_at for job_id, start in self._known.items()}

    def set(self, planned: Mapping[str, int], now: int, slack: int, share: float) -> None:
        """Set the latest starts of jobs from their planned starts.

        :param planned: planned starts by job id, epoch seconds.
        :param slack: minimum seconds from the planned start to the latest one.
        :param share: minimum slack as a share of the planned wait.
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
        """Return the ids of startable jobs with a latest start up to ``by`` (epoch seconds), the most urgent first."""
        starts = [start for start in self._known.values() if start.terms != HELD and start.latest <= by]
        return [start.job_id for start in sorted(starts, key=lambda start: (start.latest, start.job_id))]

    def take_changes(self) -> dict[str, LatestStart | None]:
        """Return the latest starts changed since the last call, by job id; ``None``: the job no longer waits."""
        changed, self._changed = self._changed, {}
        return changed
