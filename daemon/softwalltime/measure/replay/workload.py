"""Recorded jobs in order of submission, with the stream of their events."""

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.event_stream import EVENT, EventStream, Stride
from softwalltime.measure.replay.job_columns import NAMES, JobColumns

NEVER_RAN = "never ran (no runtime)"
NO_WALLTIME = "no walltime"
OTHER_DAYS = "submitted on other days"
REASONS = (OTHER_DAYS, NEVER_RAN, NO_WALLTIME)
PART = 1 << 16
"""Jobs of a part of a workload, whose events are sorted together."""
SCORED = ("submitted", "walltime", "runtime")
"""Columns that scores need."""

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
