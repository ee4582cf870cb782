"""The waiting jobs in order of submission, or in that of a priority that does not change while they wait."""

from bisect import bisect_left, bisect_right

import numpy as np

from softwalltime.simulation.jobs import Integers

LONG = 48
"""Jobs from which an array is kept beside the list: filters over an array are then faster than a loop."""
_SHORT = 24


class WaitingQueue:
    """The waiting jobs, by their position, ascending; an array of them is kept only while the queue is long."""

    __slots__ = ("_buffer", "_kept", "jobs")

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self._buffer = np.zeros(4 * LONG, np.int64)
        self._kept = False

    def append(self, job: int) -> None:
        """Add a job that was submitted after all that wait."""
        self._insert(len(self.jobs), job)

    def remove(self, job: int) -> None:
        self._delete(bisect_left(self.jobs, job))

    def _insert(self, position: int, job: int) -> None:
        jobs = self.jobs
        jobs.insert(position, job)
        count = len(jobs)
        if self._kept:
            if count > len(self._buffer):
                self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
            self._buffer[position + 1 : count] = self._buffer[position : count - 1]
            self._buffer[position] = job

    def _delete(self, position: int) -> None:
        jobs = self.jobs
        del jobs[position]
        if self._kept:
            count = len(jobs)
            if count < _SHORT:
                self._kept = False
            else:
                self._buffer[position:count] = self._buffer[position + 1 : count + 1]

    def array(self) -> Integers:
        """The waiting jobs as an array, valid until the queue changes."""
        count = len(self.jobs)
        if self._kept:
            return self._buffer[:count]
        if count < LONG:
            return np.array(self.jobs, np.int64)
        while count > len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
        self._buffer[:count] = self.jobs
        self._kept = True
        return self._buffer[:count]


class RankedQueue(WaitingQueue):
    """The waiting jobs by a priority that stays while they wait, the highest first, ties by submission."""

    __slots__ = ("_keys", "_priorities")

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[float] = []
        self._priorities: dict[int, float] = {}

    def add(self, job: int, priority: float) -> None:
        """Add a job that was submitted after all that wait."""
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
        """Return how many waiting jobs come before this one."""
        key = -self._priorities[job]
        first = bisect_left(self._keys, key)
        return bisect_left(self.jobs, job, first, bisect_right(self._keys, key, first))
