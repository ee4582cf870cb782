"""The open promises: what each look at the queue shows of promised and actual starts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from softwalltime.promises import Outcome, Promise, is_foreseen

GONE: Final = 86400
"""Seconds after which a promised job that has left the queue without a known start counts as deleted."""
LATE: Final = 60
"""Seconds by which a job must start later than promised to count as late."""
SETTLING: Final = 600
"""Seconds from when a promise is first seen in which PBS may correct it: it runs a cycle every 10 minutes at least."""
EXPIRED: Final = 7200
"""Seconds after a promised start at which the promise counts as withdrawn if PBS has not renewed it."""


class QueuedJob(NamedTuple):
    """A job as one look at the queue shows it: ``promised`` and ``started`` in epoch seconds, ``None`` for none.

    ``waits``: whether it is a job that has never started; an array of which a part has started does not wait.
    """

    job_id: str
    waits: bool
    promised: int | None
    started: int | None
    queue: str = ""
    ncpus: int | None = None


class PromiseLedger:
    def __init__(self) -> None:
        self._open: dict[str, Promise] = {}
        self._gone: dict[str, int] = {}
        """Jobs that have left the queue, with the time at which that was seen: started and ended, or deleted."""

    def restore(self, promises: Iterable[Promise]) -> None:
        """Add promises that an earlier process saw; a job that is known already keeps what is known."""
        for promise in promises:
            self._open.setdefault(promise.job_id, promise)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def gone(self) -> frozenset[str]:
        """Jobs that left the queue without a known start; the accounting log has it if they started."""
        return frozenset(self._gone)

    @property
    def waiting(self) -> Mapping[str, int]:
        """The first promised start of each job that waits, epoch seconds."""
        return {job: promise.first for job, promise in self._open.items() if job not in self._gone}

    def late_job(self, now: int, seconds: int) -> str:
        """Return the waiting job that is later than promised for longest; empty if none is by more than ``seconds``.

        Short waiting values let jobs be backfilled that outlive them, so a wide job at the head of the queue can be put
        off again and again.  While it is late, the guard has waiting jobs planned with their walltimes.
        """
        late = [(promise, job) for job, promise in self.waiting.items() if now > promise + seconds]
        return min(late)[1] if late else ""

    def look(self, jobs: Iterable[QueuedJob], now: int) -> list[Promise]:
        """Take in the jobs that wait and run now (epoch seconds); return the promises that have changed.

        A promise that is past when it is first seen counts for nothing: PBS leaves the estimate of a former top job,
        also of one that ran and was requeued.  As long as a job is a top job, each scheduling cycle renews its promise.
        One that is past and not renewed is of a job that PBS plans no more: it can never run, or others went before it.

        The first cycles may correct a promise: jobs that start in the cycle of the first one count in it with their
        waiting values.
        """
        changed: list[Promise] = []
        there = set()
        for job in jobs:
            there.add(job.job_id)
            changed += self._seen(job, now)
        for job_id in self._open.keys() - there:
            since = self._gone.setdefault(job_id, now)
            if now - since > GONE:
                changed.append(self._close(job_id, Outcome.WITHDRAWN))
        return changed

    def _seen(self, job: QueuedJob, now: int) -> Iterable[Promise]:
        known = self._open.get(job.job_id)
        if not job.waits:
            if known is not None:
                yield self._start(job.job_id, now if job.started is None else job.started)
            return
        if known is not None and job.job_id in self._gone:
            yield self._close(job.job_id, Outcome.WITHDRAWN)
            known = None
        if known is None:
            if job.promised is not None and job.promised > now and is_foreseen(job.promised, now):
                made = Promise(job.job_id, now, job.promised, job.promised, queue=job.queue, ncpus=job.ncpus)
                self._open[job.job_id] = made
                yield made
        elif job.promised not in (None, known.last):
            settled = now - known.promised_at > SETTLING
            first = known.first if settled else job.promised
            self._open[job.job_id] = made = replace(known, first=first, last=job.promised)
            yield made
        elif now - known.last > EXPIRED:
            yield self._close(job.job_id, Outcome.WITHDRAWN)

    def found(self, job_id: str, started: int) -> Promise | None:
        """Take in the start of a job that has left the queue; return its promise, if that was for this start."""
        promise = self._open.get(job_id)
        if promise is None or job_id not in self._gone or started < promise.promised_at:
            return None
        return self._start(job_id, started)

    def _start(self, job_id: str, started: int) -> Promise:
        late = started - self._open[job_id].first > LATE
        return replace(self._close(job_id, Outcome.LATE if late else Outcome.KEPT), started=started)

    def _close(self, job_id: str, outcome: Outcome) -> Promise:
        self._gone.pop(job_id, None)
        return replace(self._open.pop(job_id), outcome=outcome)
