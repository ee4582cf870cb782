"""Recorded jobs with the stream of their events, which is what a replay runs on."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Deleted, Ended, Event, Kind, Started, Submitted
from softwalltime.jobs import CompletedJob
from softwalltime.states import TEACHING, State

NEVER_RAN = "never ran (no runtime)"
NO_WALLTIME = "no walltime"
STRIDE = 20_000
"""Events between two reports of progress."""

Integers = NDArray[np.int64]


class Workload:
    """Jobs in order of submission, and what happens to them in order of time.

    ``started`` and ``ended`` are when each job started (-1: never) and ended, in epoch seconds.  A record that says
    otherwise is wrong, so a job ends at least one second after its submission and starts before it ends: what it
    teaches must not be known when it is asked about.  ``teaches`` says which jobs predictors learn from.
    """

    def __init__(
        self, jobs: Sequence[CompletedJob], limit: int | None = None, teaching: Collection[State] = TEACHING
    ) -> None:
        """
        :param limit: only the first so many jobs, in order of submission.
        :param teaching: how jobs must have ended to teach.
        """
        submitted = np.fromiter((job.submission.submitted for job in jobs), np.int64, len(jobs))
        first = np.argsort(submitted, kind="stable")[:limit]
        # File order decides between ends at one instant, so it must survive the sorting by submission.
        self._in_file_order: Integers = np.argsort(first, kind="stable")
        self.jobs = [jobs[index] for index in first.tolist()]
        count = len(self.jobs)
        self.submitted: Integers = submitted[first]
        ends = np.fromiter((job.end for job in self.jobs), np.int64, count)
        starts = np.fromiter((-1 if job.start is None else max(job.start, 0) for job in self.jobs), np.int64, count)
        self.ended: Integers = np.maximum(ends, self.submitted + 1)
        self.started: Integers = np.where(
            starts < 0, -1, np.minimum(np.maximum(starts, self.submitted), self.ended - 1)
        )
        self.teaches: NDArray[np.bool_] = np.fromiter((job.state in teaching for job in self.jobs), np.bool_, count)

        walltimes = [job.submission.walltime or 0 for job in self.jobs]
        self.walltime: Integers = np.array(walltimes, np.int64)
        self.runtime: Integers = np.fromiter((job.runtime for job in self.jobs), np.int64, count)
        self.scored: NDArray[np.bool_] = (self.runtime > 0) & (self.walltime > 0)
        # Nearly every replay needs these; the others are sorted when they are asked for.
        self._submissions_and_ends = self._events(starts=False, everything=False)

    def stream(
        self, *, starts: bool = False, everything: bool = False, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the events in order of time, many at once: their kinds (:class:`Kind`) and the indexes of their jobs.

        At one instant the order is that of the kinds, ties stay in file order.  Without options these are the
        submissions, and the ends of the jobs that teach.

        :param starts: the starts too.
        :param everything: the starts, and the ends and deletions of all jobs too.
        :param progress: called with the number of jobs done since the last call.
        """
        if starts or everything:
            kinds, numbers = self._events(starts=True, everything=everything)
        else:
            kinds, numbers = self._submissions_and_ends
        done = 0
        for position in range(0, len(kinds), STRIDE):
            yield kinds[position : position + STRIDE].tolist(), numbers[position : position + STRIDE].tolist()
            reached = len(self.jobs) * min(position + STRIDE, len(kinds)) // len(kinds)
            progress(reached - done)
            done = reached

    def ends(self) -> Integers:
        """The indexes of all jobs in the order of their ends."""
        return self._in_file_order[np.argsort(self.ended[self._in_file_order], kind="stable")]

    def time(self, kind: int, number: int) -> int:
        """When the event of this kind of the job with this index happens, epoch seconds."""
        times = self.submitted if kind == Kind.SUBMITTED else self.started if kind == Kind.STARTED else self.ended
        return int(times[number])

    def event(self, kind: int, number: int) -> Event:
        """The event of this kind of the job with this index."""
        job, time = self.jobs[number], self.time(kind, number)
        match kind:
            case Kind.SUBMITTED:
                return Submitted(time, job.submission)
            case Kind.STARTED:
                return Started(time, job.submission)
            case Kind.DELETED:
                return Deleted(time, job.submission)
            case _:
                return Ended(time, job)

    def skipped(self) -> dict[str, int]:
        """How many jobs are not scored, by reason; one that has both reasons counts under the first."""
        reasons = Counter(NO_WALLTIME if job.ran else NEVER_RAN for job in self.jobs if not job.scored)
        return dict(sorted(reasons.items()))

    def _events(self, *, starts: bool, everything: bool) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        in_file_order, all_jobs = self._in_file_order, np.arange(len(self.jobs))
        ran = (self.started >= 0) | (self.runtime > 0) | self.teaches
        ends = in_file_order[ran[in_file_order] if everything else self.teaches[in_file_order]]
        parts = [(Kind.ENDED, ends, self.ended), (Kind.SUBMITTED, all_jobs, self.submitted)]
        if everything:
            parts.append((Kind.DELETED, in_file_order[~ran[in_file_order]], self.ended))
        if starts:
            parts.append((Kind.STARTED, np.flatnonzero(self.started >= 0), self.started))
        numbers = np.concatenate([each for _, each, _ in parts]).astype(np.int32)
        kinds = np.concatenate([np.full(len(each), kind, np.int8) for kind, each, _ in parts])
        order = np.argsort(np.concatenate([times[each] for _, each, times in parts]), kind="stable")
        return kinds[order], numbers[order]
