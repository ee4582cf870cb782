"""The machine: free resources, and whether a job fits.

The engine and PBS's cycle (:mod:`pbs_cycle`) ask a machine only what :class:`Machine` offers, so it may have pools.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.simulated_jobs import Integers

FOREVER = 1 << 60


class Calendar(ABC):
    """The plan from now on; times in epoch seconds; a job occupies its resources over a half-open interval."""

    __slots__ = ()

    @abstractmethod
    def earliest(self, job: int, seconds: int) -> int:
        """The first time at which the job fits for that long; :data:`FOREVER` if there is none."""

    @abstractmethod
    def fits(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job fits from ``start``, which is not before now, for that long."""

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        """Which of these jobs may fit from now on for their value in seconds: at least those that do."""
        return np.ones(len(jobs), np.bool_)

    @abstractmethod
    def change(self, job: int, sign: int, start: int, end: int) -> None:
        """Give the job its resources for this interval (-1), or take them back (1)."""

    def occupy(self, job: int, start: int, end: int) -> None:
        self.change(job, -1, start, end)

    def vacate(self, job: int, start: int, end: int) -> None:
        self.change(job, 1, start, end)


class Profile(Calendar):
    """A calendar of processors: free processors as a step function of time.

    ``times`` ascend from now on; ``free[i]`` processors are free from ``times[i]`` to the next one, and the last ones
    for ever.  Fewer than none are free where jobs run longer than planned.
    """

    __slots__ = ("_needs", "_sizes", "free", "times")

    def __init__(
        self, now: int, free: int, ends: Sequence[tuple[int, int]], needs: Sequence[int], sizes: Integers
    ) -> None:
        """:param ends: planned end and job of each running job, by planned end, all after now.

        :param sizes: the same as ``needs``.
        """
        self._needs = needs
        self._sizes = sizes
        self.times = [now]
        self.free = [free]
        for end, job in ends:
            free += needs[job]
            if end == self.times[-1]:
                self.free[-1] = free
            else:
                self.times.append(end)
                self.free.append(free)

    def earliest(self, job: int, seconds: int, after: int = 0) -> int:
        need = self._needs[job]
        start = -1
        for index in range(max(bisect_right(self.times, after) - 1, 0), len(self.times)):
            if self.free[index] < need:
                start = -1
                continue
            start = max(self.times[index], after) if start < 0 else start
            if index + 1 == len(self.times) or self.times[index + 1] >= start + seconds:
                return start
        return FOREVER

    def earlier(self, job: int, seconds: int, start: int) -> int:
        """The first time at which the job fits if it gives up its plan from ``start``; nowhere is ``free`` below 0."""
        need = self._needs[job]
        begin = end = -1
        time = self.times[0]
        # A plain loop: most calls come from here, and look at a hundred steps.
        steps = zip(islice(self.free, bisect_left(self.times, start)), islice(self.times, 1, None), strict=False)
        for free, until in steps:
            if free < need:
                begin = -1
            else:
                if begin < 0:
                    begin, end = time, time + seconds
                if until >= end:
                    return begin
            time = until
        return begin if begin >= 0 else start

    def fits(self, job: int, start: int, seconds: int) -> bool:
        need = self._needs[job]
        first = bisect_right(self.times, start) - 1
        last = bisect_left(self.times, start + seconds)
        return min(self.free[first:last]) >= need

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        """Exactly which of these jobs fit from now on for their value."""
        free = self.free[0]
        fitting: NDArray[np.bool_] = self._sizes[jobs] <= free
        small = fitting.nonzero()[0]
        if not len(small):
            return fitting
        # Until when as many processors as a job needs stay free, by that number.
        until = np.full(free + 1, FOREVER)
        least = free
        for time, left in zip(self.times, self.free, strict=True):
            if left < least:
                until[max(left, -1) + 1 : least + 1] = time
                least = left
                if least < 0:
                    break
        some = jobs[small]
        fitting[small] = values[some] <= until[self._sizes[some]] - self.times[0]
        return fitting

    def advance(self, now: int) -> None:
        index = bisect_right(self.times, now) - 1
        del self.times[:index], self.free[:index]
        self.times[0] = now

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        self.add(sign * self._needs[job], start, end)

    def add(self, change: int, start: int, end: int) -> None:
        first, last = self._split(start), self._split(end)
        free = self.free
        for index in range(first, last):
            free[index] += change
        # Without steps that change nothing, which would accumulate.
        for index in (last, first):
            if index and free[index] == free[index - 1]:
                del free[index], self.times[index]

    def _split(self, time: int) -> int:
        times = self.times
        index = bisect_left(times, time)
        if index == len(times) or times[index] != time:
            times.insert(index, time)
            self.free.insert(index, self.free[index - 1])
        return index


class Machine(Protocol):
    """Resources that jobs occupy; jobs are known by their position in the simulated jobs."""

    def fits(self, job: int) -> bool:
        """Whether the job could start now."""

    def allocate(self, job: int) -> None:
        """Give the job its resources, which must fit."""

    def release(self, job: int) -> None:
        """Release the resources of a job."""

    def kind(self, job: int) -> Hashable:
        """Return the job's kind of request: jobs of one kind fit at the same times."""

    def calendar(self, now: int, ends: Sequence[tuple[int, int]]) -> Calendar:
        """Return the plan from now on.

        :param ends: planned end and job of each running job, by planned end, all after now.
        """


def processors_of(machine: Machine, kind: str) -> "Processors":
    """The machine; :class:`UsageError` if it is not plain processors, which this kind of backfilling needs."""
    if not isinstance(machine, Processors):
        raise UsageError(f"the backfilling {kind} knows processors only: use pbs on a machine of pools")
    return machine


class Processors:
    __slots__ = ("_sizes", "free", "needs")

    def __init__(self, total: int, needs: Sequence[int]) -> None:
        self.free = total
        self.needs = needs
        self._sizes = np.array(needs, np.int64)

    def fits(self, job: int) -> bool:
        return self.needs[job] <= self.free

    def allocate(self, job: int) -> None:
        self.free -= self.needs[job]

    def release(self, job: int) -> None:
        self.free += self.needs[job]

    def kind(self, job: int) -> Hashable:
        return self.needs[job]

    def calendar(self, now: int, ends: Sequence[tuple[int, int]]) -> Profile:
        return Profile(now, self.free, ends, self.needs, self._sizes)
