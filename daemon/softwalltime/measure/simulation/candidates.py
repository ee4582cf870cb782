"""Candidates for backfilling in a long queue, by class: few classes are tested in place of many jobs."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

import numpy as np

from softwalltime.measure.simulation.system_state import SystemState

_MIN_JOBS_PER_CLASS, _MAX_CLASSES = 4, 256
"""Minimum mean size of a class, and maximum number of classes: beyond them it is faster to test each job."""


class CandidateClasses:
    """The jobs that wait in order of submission, by class: the same processors, waiting value and walltime.

    Jobs of a class fit at the same times, so the next one to start is the first of a class.
    """

    def __init__(self, system: SystemState) -> None:
        self._system = system
        self.discard()

    def discard(self) -> None:
        """Classify all jobs anew at the next scan, because their values have changed."""
        # The jobs of each class; started ones are removed when they come first.
        self._classes: dict[tuple[int, int, int], deque[int]] = {}
        self._newest = -1
        # The classes sorted by number of processors, as columns; empty if a class was added since.
        self._members: list[deque[int]] = []
        self._sizes: list[int] = []
        self._waiting = self._limits = np.zeros(0, np.int64)

    def are_few(self) -> bool:
        """Classify the jobs that were submitted since the last scan; return whether there are few classes."""
        queue, values = self._system.queue.jobs, self._system.values
        if len(self._classes) > 2 * len(queue):
            self.discard()
        sizes, waiting, limits = self._system.jobs.processors, values.waiting, values.limit
        for job in queue[bisect_right(queue, self._newest) :]:
            kind = (sizes[job], waiting[job], limits[job])
            if kind not in self._classes:
                self._classes[kind] = deque()
                self._members = []
            self._classes[kind].append(job)
            self._newest = job
        return len(self._classes) <= min(len(queue) // _MIN_JOBS_PER_CLASS, _MAX_CLASSES)

    def fitting(self, free: int, time_left: int, extra: int, *, guarded: bool) -> Iterator[int]:
        """Yield the candidates in order of submission: jobs of the classes that could start now.

        The caller starts each candidate that still fits before it asks for the next one.
        """
        if not self._members:
            self._sort()
        fits = (self._limits if guarded else self._waiting)[: bisect_right(self._sizes, free)] <= time_left
        fits[: bisect_right(self._sizes, extra)] = True
        started = self._system.started
        heads = []
        for number in fits.nonzero()[0].tolist():
            members = self._members[number]
            while members and started[members[0]] >= 0:
                members.popleft()
            if members:
                heads.append((members[0], members))
        heapify(heads)
        while heads:
            job, members = heads[0]
            yield job
            # If a job did not start, no other job of its class fits.
            fitted = started[job] >= 0
            while members and started[members[0]] >= 0:
                members.popleft()
            if fitted and members:
                heapreplace(heads, (members[0], members))
            else:
                heappop(heads)

    def _sort(self) -> None:
        kinds = sorted(self._classes)
        self._members = [self._classes[kind] for kind in kinds]
        self._sizes = [size for size, _, _ in kinds]
        self._waiting = np.array([value for _, value, _ in kinds], np.int64)
        self._limits = np.array([limit for _, _, limit in kinds], np.int64)
