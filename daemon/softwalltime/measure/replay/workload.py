"""Recorded jobs with the stream of their events."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Deleted, Ended, Event, Kind, Started, Submitted
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.job_columns import JobColumns

NEVER_RAN = "never ran (no runtime)"
NO_WALLTIME = "no walltime"
OTHER_DAYS = "submitted on other days"
STRIDE = 4_000
"""Events per batch, whose jobs fit into the processor's cache, and between two reports of progress."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_EVENTS: dict[int, type[Submitted | Started | Deleted]] = {
    Kind.SUBMITTED: Submitted, Kind.STARTED: Started, Kind.DELETED: Deleted
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which jobs are scored: those with a walltime that ran and were submitted from ``since`` to before ``until``.

    Both in epoch seconds, ``None`` for no bound.  ``never_ran``: the jobs that never ran too, with a runtime of 0 s.
    """

    since: int | None = None
    until: int | None = None
    never_ran: bool = False


class Stride(NamedTuple):
    """Some events: their kinds (:class:`Kind`), the indexes of their jobs, and the jobs; one entry an event."""

    kinds: list[int]
    numbers: list[int]
    jobs: list[CompletedJob]


class Workload:
    """Jobs in order of submission, and their events in order of time.

    ``started`` (-1: never) and ``ended`` in epoch seconds.  Wrong times are corrected: a job ends at least one second
    after its submission and starts before its end, because its runtime must not be known at its own prediction.
    ``teaches``: predictors learn from the job.  ``walltime`` is 0 for jobs without one.
    """

    def __init__(
        self, jobs: Sequence[CompletedJob], limit: int | None = None, teaching: Collection[State] = TEACHING,
        scoring: Scoring = Scoring(),
    ) -> None:  # fmt: skip
        """:param limit: only the first so many jobs, in order of submission."""
        source = JobColumns.of(jobs)
        submitted = source.numbers("submitted")
        first = np.argsort(submitted, kind="stable")[:limit]
        # Jobs with equal ends are in file order, so the sort by submission must keep it.
        self._in_file_order: NDArray[np.int32] = np.argsort(first, kind="stable").astype(np.int32)
        chosen = source.select(first)
        self.jobs = chosen
        self.submitted: Integers = submitted[first]
        starts = chosen.numbers("start")
        self.ended: Integers = np.maximum(chosen.numbers("end"), self.submitted + 1)
        self.started: Integers = np.where(
            starts == -1, -1, np.minimum(np.maximum(starts, self.submitted), self.ended - 1)
        )
        self.teaches: Flags = chosen.teaching(teaching)
        self.walltime: Integers = chosen.numbers("walltime", 0)
        self.runtime: Integers = chosen.numbers("runtime")
        self.shrink_to_fit: Flags = chosen.numbers("min_walltime") != -1
        self._in_period = in_period(self.submitted, scoring.since, scoring.until)
        ran = (self.runtime > 0) | scoring.never_ran
        self.scored: Flags = ran & (self.walltime > 0) & self._in_period
        # Nearly every replay needs these events; others are sorted on demand.
        self._submissions_and_ends = self._events(starts=False, everything=False)

    def stream(
        self, *, starts: bool = False, everything: bool = False, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[Stride]:
        """Yield the submissions and the ends of the jobs that teach in order of time, many at once.

        At one instant the order is that of the kinds, ties stay in file order.  Only jobs between their first and their
        last event are objects.

        :param starts: the starts too.
        :param everything: the starts, and the ends and deletions of all jobs too.
        :param progress: called with the number of jobs done since the last call.
        """
        if starts or everything:
            kinds, numbers = self._events(starts=True, everything=everything)
        else:
            kinds, numbers = self._submissions_and_ends
        last = np.zeros(len(self.jobs), np.int32)
        last[numbers] = np.arange(len(numbers), dtype=np.int32)
        there: dict[int, CompletedJob] = {}
        done = 0
        for begin in range(0, len(kinds), STRIDE):
            some, which = kinds[begin : begin + STRIDE], numbers[begin : begin + STRIDE]
            new = which[some == Kind.SUBMITTED]
            there.update(zip(new.tolist(), self.jobs.take(new), strict=True))
            indexes = which.tolist()
            yield Stride(some.tolist(), indexes, [there[index] for index in indexes])
            for index in which[last[which] == np.arange(begin, begin + len(which))].tolist():
                del there[index]
            reached = len(self.jobs) * (begin + len(which)) // len(kinds)
            progress(reached - done)
            done = reached

    def ends(self) -> Integers:
        """Return the indexes of all jobs in the order of their ends."""
        return self._in_file_order[np.argsort(self.ended[self._in_file_order], kind="stable")].astype(np.int64)

    def time(self, kind: int, number: int) -> int:
        """Return the time of the event of this kind of the job with this index, epoch seconds."""
        times = self.submitted if kind == Kind.SUBMITTED else self.started if kind == Kind.STARTED else self.ended
        return int(times[number])

    def times(self, stride: Stride) -> list[int]:
        kinds, numbers = np.array(stride.kinds), np.array(stride.numbers)
        times = np.where(kinds == Kind.STARTED, self.started[numbers], self.ended[numbers])
        result: list[int] = np.where(kinds == Kind.SUBMITTED, self.submitted[numbers], times).tolist()
        return result

    def event(self, kind: int, number: int, job: CompletedJob) -> Event:
        time = self.time(kind, number)
        return Ended(time, job) if kind == Kind.ENDED else _EVENTS[kind](time, job.submission)

    def skipped(self) -> dict[str, int]:
        """Count the jobs that are not scored by reason; a job with several reasons counts for the first."""
        others = self._in_period & ~self.scored
        never_ran = others & (self.runtime <= 0)
        reasons = {OTHER_DAYS: ~self._in_period, NEVER_RAN: never_ran, NO_WALLTIME: others & ~never_ran}
        return {reason: int(jobs.sum()) for reason, jobs in reasons.items() if jobs.any()}

    def _events(self, *, starts: bool, everything: bool) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        in_file_order, all_jobs = self._in_file_order, np.arange(len(self.jobs), dtype=np.int32)
        ran = (self.started >= 0) | (self.runtime > 0) | self.teaches
        ends = in_file_order[ran[in_file_order] if everything else self.teaches[in_file_order]]
        parts = [(Kind.ENDED, ends, self.ended), (Kind.SUBMITTED, all_jobs, self.submitted)]
        if everything:
            parts.append((Kind.DELETED, in_file_order[~ran[in_file_order]], self.ended))
        if starts:
            parts.append((Kind.STARTED, np.flatnonzero(self.started >= 0).astype(np.int32), self.started))
        numbers = np.concatenate([indexes for _, indexes, _ in parts])
        kinds = np.concatenate([np.full(len(indexes), kind, np.int8) for kind, indexes, _ in parts])
        order = np.argsort(np.concatenate([times[indexes] for _, indexes, times in parts]), kind="stable")
        return kinds[order], numbers[order]


def in_period(submitted: Integers, since: int | None, until: int | None) -> Flags:
    """Return which jobs were submitted from ``since`` to before ``until``; ``None`` for no bound."""
    after: Flags = submitted >= (-inf if since is None else since)
    return after & (submitted < (inf if until is None else until))
