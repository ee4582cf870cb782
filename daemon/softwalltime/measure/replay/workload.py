"""Recorded jobs in order of submission, with the stream of their events."""

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Deleted, Ended, Event, Kind, Started, Submitted
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.job_columns import NAMES, JobColumns

NEVER_RAN = "never ran (no runtime)"
NO_WALLTIME = "no walltime"
OTHER_DAYS = "submitted on other days"
REASONS = (OTHER_DAYS, NEVER_RAN, NO_WALLTIME)
PART = 1 << 16
"""Jobs of a part of a workload, whose events are sorted together."""
SCORED = ("submitted", "walltime", "runtime")
"""Columns that scores need."""

STRIDE = 4_000
"""Events per batch, whose jobs fit into the processor's cache, and between two reports of progress."""

EVENT = np.dtype(
    [
        ("time", np.int64), ("kind", np.int8), ("order", np.int64), ("number", np.int64), ("teaches", np.bool_),
        ("last", np.bool_),
    ]
)  # fmt: skip
"""An event as columns: ``time`` in epoch seconds; ``order`` decides between events of one kind at one instant;
``number`` of the job in order of submission; ``last``: no other event of the job follows."""
_CLASSES: dict[int, type[Submitted | Started | Deleted]] = {
    Kind.SUBMITTED: Submitted, Kind.STARTED: Started, Kind.DELETED: Deleted
}  # fmt: skip

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which jobs are scored: those with a walltime that ran and were submitted from ``since`` to before ``until``.

    Both in epoch seconds, ``None`` for no bound.  ``never_ran``: the jobs that never ran too, with a runtime of 0 s.
    """

    since: int | None = None
    until: int | None = None
    never_ran: bool = False


class Recorded(Protocol):
    """Recorded jobs in consecutive parts: a workload in memory, or in a file that is read part by part.

    ``teaching``: the end states of the jobs that predictors learn.  ``is_sorted``: whether the source is in order of
    submission.
    """

    @property
    def teaching(self) -> Collection[State]: ...
    @property
    def is_sorted(self) -> bool: ...
    def __len__(self) -> int: ...

    def parts(self, names: Collection[str] = NAMES) -> "Iterator[Workload]":
        """Yield the parts in order of submission; none is empty.  ``names``: columns that are needed, at least."""

    def array(self) -> Integers:
        """Return an array for a result of each job, whose values are not yet set."""

    def chosen(self, numbers: Integers) -> JobColumns:
        """Return the jobs with these numbers, in this order."""

    def in_source_order(self) -> "Iterator[JobColumns]":
        """Yield all jobs in the order of their source."""

    def skipped(self) -> dict[str, int]:
        """Count the jobs that are not scored by reason; a job with several reasons counts for the first."""


class Stride(NamedTuple):
    """Some events, one entry each: kinds (:class:`Kind`), numbers of the jobs in order of submission, jobs.

    ``times`` are in epoch seconds; ``teaches``: predictors learn from the job.
    """

    kinds: list[int]
    numbers: list[int]
    jobs: list[CompletedJob]
    times: list[int]
    teaches: list[bool]


class Workload:
    """Jobs in order of submission, and their events in order of time.

    ``source_order`` decides between jobs that end at once.
    """

    def __init__(
        self, jobs: Sequence[CompletedJob], limit: int | None = None, teaching: Collection[State] = TEACHING,
        scoring: Scoring = Scoring(),
    ) -> None:  # fmt: skip
        """:param limit: only the first so many jobs, in order of submission."""
        source = JobColumns.of(jobs)
        submitted = source.numbers("submitted")
        order = np.argsort(submitted, kind="stable")[:limit]
        self.jobs = source.select(order)
        self.submitted: Integers = submitted[order]
        self.source_order: Integers = order
        self.teaching, self._scoring = teaching, scoring

    def __len__(self) -> int:
        return len(self.submitted)

    @property
    def is_sorted(self) -> bool:
        return bool((self.source_order[1:] > self.source_order[:-1]).all())

    @cached_property
    def numbers(self) -> Integers:
        """Indexes of the jobs; of a part, in all jobs."""
        return np.arange(len(self))

    # Wrong times are corrected, because a runtime must not be known at its own prediction.
    @cached_property
    def ended(self) -> Integers:
        """Epoch seconds, at least one second after the submission."""
        return np.maximum(self.jobs.numbers("end"), self.submitted + 1)

    @cached_property
    def started(self) -> Integers:
        """Epoch seconds, from the submission to before the end; -1: never."""
        starts = self.jobs.numbers("start")
        return np.where(starts == -1, -1, np.minimum(np.maximum(starts, self.submitted), self.ended - 1))

    @cached_property
    def teaches(self) -> Flags:
        """Whether predictors learn from the job."""
        return self.jobs.teaching(self.teaching)

    @cached_property
    def walltime(self) -> Integers:
        """Seconds, 0 for jobs without one."""
        return self.jobs.numbers("walltime", 0)

    @cached_property
    def runtime(self) -> Integers:
        """Seconds."""
        return self.jobs.numbers("runtime")

    @cached_property
    def scored(self) -> Flags:
        ran: Flags = (self.runtime > 0) | self._scoring.never_ran
        return ran & (self.walltime > 0) & self._in_period

    @property
    def _in_period(self) -> Flags:
        return in_period(self.submitted, self._scoring.since, self._scoring.until)

    def parts(self, names: Collection[str] = NAMES) -> "Iterator[Workload]":
        """Yield consecutive parts, whose arrays are views; see :meth:`Recorded.parts`."""
        for begin in range(0, len(self), PART):
            which = slice(begin, begin + PART)
            part = copy(self)
            part.jobs = self.jobs[which]
            for name in _ARRAYS:
                setattr(part, name, getattr(self, name)[which])
            part.numbers = np.arange(begin, begin + len(part))
            yield part

    def array(self) -> Integers:
        return np.empty(len(self), np.int64)

    def chosen(self, numbers: Integers) -> JobColumns:
        return self.jobs.select(numbers)

    def in_source_order(self) -> Iterator[JobColumns]:
        yield self.jobs.select(np.argsort(self.source_order))

    def stream(
        self, *, starts: bool = False, everything: bool = False, progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[Stride]:
        """Yield the events of the jobs in order of time, many at once, as :class:`EventStream` says.

        :param progress: called with the number of further jobs that were submitted.
        """
        events = EventStream(starts=starts, everything=everything)
        for part in chain(self.parts(), [None]):
            for stride in events.strides(part):
                yield stride
                progress(stride.kinds.count(Kind.SUBMITTED))

    def events(self, *, starts: bool, everything: bool) -> NDArray[np.void]:
        """Return the events of the jobs in any order, as :class:`EventStream` takes them."""
        numbers, every = self.numbers, np.full(len(self), True)
        ran = (self.started >= 0) | (self.runtime > 0) | self.teaches
        ends, deletions = (ran, ~ran) if everything else (self.teaches, ~every)
        start = (self.started >= 0) & (starts or everything)
        kinds = (
            (Kind.SUBMITTED, every, self.submitted, numbers, ~(start | ends | deletions)),
            (Kind.STARTED, start, self.started, numbers, ~(ends | deletions)),
            (Kind.ENDED, ends, self.ended, self.source_order, every),
            (Kind.DELETED, deletions, self.ended, self.source_order, every),
        )
        result = []
        for kind, which, times, order, last in kinds:
            events = np.empty(np.count_nonzero(which), EVENT)
            events["kind"] = kind
            columns = {"time": times, "order": order, "number": numbers, "teaches": self.teaches, "last": last}
            for name, values in columns.items():
                events[name] = values[which]
            result.append(events)
        return np.concatenate(result)

    def ends(self) -> Integers:
        """Return the indexes of all jobs in the order of their ends."""
        return np.lexsort((self.source_order, self.ended))

    def skipped(self) -> dict[str, int]:
        """Count the jobs that are not scored by reason; a job with several reasons counts for the first."""
        others = self._in_period & ~self.scored
        never_ran = others & (self.runtime <= 0)
        reasons = zip(REASONS, (~self._in_period, never_ran, others & ~never_ran), strict=True)
        return {reason: int(jobs.sum()) for reason, jobs in reasons if jobs.any()}


_ARRAYS = ("submitted", "source_order", "ended", "started", "teaches", "walltime", "runtime", "scored")


def in_period(submitted: Integers, since: int | None, until: int | None) -> Flags:
    """Return which jobs were submitted from ``since`` to before ``until``; ``None`` for no bound."""
    after: Flags = submitted >= (-inf if since is None else since)
    return after & (submitted < (inf if until is None else until))


class EventStream:
    """The events of consecutive parts of a workload.

    These are the submissions, and the ends of the jobs that teach.  At one instant the order is that of the kinds;
    submissions and starts are in order of submission, ends in the order of the source.

    :param starts: the starts too.
    :param everything: the starts, and the ends and deletions of all jobs too.
    """

    def __init__(self, *, starts: bool, everything: bool) -> None:
        self._starts, self._everything = starts, everything
        self._pending = np.empty(0, EVENT)
        self._present: dict[int, CompletedJob] = {}

    def strides(self, part: Workload | None) -> Iterator[Stride]:
        """Yield the next events, up to the last submission of ``part``; ``None``, after the last part: all others.

        No later part has an earlier event, because no job ends before its submission.
        """
        if part is None:
            events = self._pending
        else:
            events = np.concatenate([self._pending, part.events(starts=self._starts, everything=self._everything)])
            until = part.submitted[-1]
            due = (events["time"] < until) | (events["time"] == until) & (events["kind"] <= Kind.SUBMITTED)
            events, self._pending = events[due], events[~due]
        events = events[np.lexsort((events["order"], events["kind"], events["time"]))]
        present = self._present
        for begin in range(0, len(events), STRIDE):
            some = events[begin : begin + STRIDE]
            numbers = some["number"].tolist()
            if part is not None:
                new = some["number"][some["kind"] == Kind.SUBMITTED]
                present.update(zip(new.tolist(), part.jobs.select(np.searchsorted(part.numbers, new)), strict=True))
            jobs = [present[number] for number in numbers]
            yield Stride(some["kind"].tolist(), numbers, jobs, some["time"].tolist(), some["teaches"].tolist())
            for number in some["number"][some["last"]].tolist():
                del present[number]


def event_of(kind: int, time: int, job: CompletedJob) -> Event:
    """Return the event of this kind of a job, ``time`` in epoch seconds."""
    return Ended(time, job) if kind == Kind.ENDED else _CLASSES[kind](time, job.submission)
