"""The waiting jobs in order of submission."""

from bisect import bisect_left

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
        jobs = self.jobs
        jobs.append(job)
        count = len(jobs)
        if self._kept:
            if count > len(self._buffer):
                self._buffer = np.concatenate([self._buffer, np.zeros_like(self._buffer)])
            self._buffer[count - 1] = job

    def remove(self, job: int) -> None:
        """Remove a waiting job."""
        jobs = self.jobs
        position = bisect_left(jobs, job)
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
