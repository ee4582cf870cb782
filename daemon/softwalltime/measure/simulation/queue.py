"""Waiting jobs by submission or by a fixed priority, and running jobs by planned end."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

import numpy as np

from softwalltime.measure.simulation.corrections import Correction, Estimates
from softwalltime.measure.simulation.simulated_jobs import Integers

MIN_ARRAY_JOBS = 48
"""Queue length from which an array is kept beside the list, because filtering it is faster than a loop."""
_MAX_LIST_JOBS = 24


class WaitingQueue:
    """The waiting jobs, by their position, ascending; an array of them is kept only while the queue is long."""

    __slots__ = ("_buffer", "_kept", "jobs")

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self._buffer = np.zeros(4 * MIN_ARRAY_JOBS, np.int64)
        self._kept = False

    def extend(self, jobs: Sequence[int]) -> None:
        if not self._kept:
            self.jobs += jobs
            return
        for job in jobs:
            self._insert(len(self.jobs), job)

    def remove(self, job: int) -> None:
        self._delete(bisect_left(self.jobs, job))

    def _insert(self, position: int, job: int) -> None:
        jobs = self.jobs
        jobs.insert(position, job)
        count = len(jobs)
        if self._kept:
            self._grow(count)
            self._buffer[position + 1 : count] = self._buffer[position : count - 1]
            self._buffer[position] = job

    def _delete(self, position: int) -> None:
        del self.jobs[position]
        count = len(self.jobs)
        self._kept = self._kept and count >= _MAX_LIST_JOBS
        if self._kept:
            self._buffer[position:count] = self._buffer[position + 1 : count + 1]

    def array(self) -> Integers:
        """The waiting jobs as an array, valid until the queue changes."""
        count = len(self.jobs)
        if self._kept:
            return self._buffer[:count]
        if count < MIN_ARRAY_JOBS:
            return np.array(self.jobs, np.int64)
        self._grow(count)
        self._buffer[:count] = self.jobs
        self._kept = True
        return self._buffer[:count]

    def _grow(self, count: int) -> None:
        while count > len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])


class RankedQueue(WaitingQueue):
    """The waiting jobs by a priority that is fixed while they wait, the highest first, ties by submission."""

    __slots__ = ("_keys", "_priorities")

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[float] = []
        self._priorities: dict[int, float] = {}

    def add(self, job: int, priority: float) -> None:
        position = bisect_right(self._keys, -priority)
        self._keys.insert(position, -priority)
        self._priorities[job] = priority
        self._insert(position, job)

    def remove(self, job: int) -> None:
        position = self.position(job)
        del self._priorities[job]
        del self._keys[position]
        self._delete(position)

    def position(self, job: int) -> int:
        key = -self._priorities[job]
        first = bisect_left(self._keys, key)
        return bisect_left(self.jobs, job, first, bisect_right(self._keys, key, first))


class RunningJobs:
    """The running jobs by planned end, ascending; ties by the job's position.

    Each entry is one integer, planned end x 2^bits + job, which sorts faster than a tuple.  ``version`` changes
    whenever an entry does.
    """

    __slots__ = ("_entry", "_estimates", "_margin", "_planned_end", "bits", "entries", "extensions", "mask", "version")

    def __init__(self, count: int, correction: Correction, estimates: Estimates) -> None:
        self.bits = max(count, 1).bit_length()
        self.mask = (1 << self.bits) - 1
        self.entries: list[int] = []
        self.version = 0
        self.extensions = [0] * count
        self._entry = [0] * count
        self._estimates = estimates
        self._planned_end, self._margin = correction

    def add(self, job: int, end: int) -> None:
        entry = end << self.bits | job
        self._entry[job] = entry
        insort(self.entries, entry)
        self.version += 1

    def remove(self, job: int) -> None:
        del self.entries[bisect_left(self.entries, self._entry[job])]
        self.version += 1

    def replan(self, job: int, end: int) -> None:
        self.remove(job)
        self.add(job, end)

    def correct(self, now: int) -> None:
        """Correct every planned end that has passed at ``now``."""
        entries = self.entries
        limit = (now + self._margin + 1) << self.bits
        if not entries or entries[0] >= limit:
            return
        for job in [entry & self.mask for entry in entries[: bisect_left(entries, limit)]]:
            before = self._entry[job] >> self.bits
            after = max(self._planned_end(self._estimates, job, before, now), now + 1)
            if after != before:
                self.extensions[job] += 1
                self.replan(job, after)

    def jobs(self) -> list[tuple[int, int]]:
        """Return the planned end and the job of each, by planned end."""
        bits, mask = self.bits, self.mask
        return [(entry >> bits, entry & mask) for entry in self.entries]

    def shadow(self, needed: int, free: int, sizes: Sequence[int]) -> tuple[int, int]:
        """The earliest planned end by which ``needed`` processors are free, and how many more are free then.

        All ends planned for that instant count.  ``needed`` is more than ``free`` and at most the machine.
        """
        bits, mask = self.bits, self.mask
        entries = iter(self.entries)
        entry = 0
        for entry in entries:
            free += sizes[entry & mask]
            if free >= needed:
                break
        shadow = entry >> bits
        beyond = (shadow + 1) << bits
        for entry in entries:
            if entry >= beyond:
                break
            free += sizes[entry & mask]
        return shadow, free - needed
