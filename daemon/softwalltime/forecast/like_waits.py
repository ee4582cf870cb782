"""The statistical baseline: the mean wait of like jobs that started lately, without any simulation."""

import math
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator

import numpy as np

from softwalltime.jobs import Submission

KEPT = 100
"""Waits that are kept of each class of jobs."""
LEAST = 5
"""Waits from which a class is believed."""


class LikeWaits:
    """Waits of started jobs by queue, size and walltime; sizes and walltimes are alike within a factor of 2 and 4."""

    def __init__(self) -> None:
        self._waits: defaultdict[Hashable, deque[int]] = defaultdict(lambda: deque(maxlen=KEPT))

    def started(self, submission: Submission, wait: int) -> None:
        """Take in the wait of a job that started, in seconds."""
        for key in _keys(submission):
            self._waits[key].append(wait)

    def remaining(self, submission: Submission, waited: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """How long beyond ``waited`` those like jobs waited that waited longer, in seconds; empty if none is known."""
        for key in _keys(submission):
            beyond = np.array([wait - waited for wait in self._waits.get(key, ()) if wait > waited], np.float64)
            if len(beyond) >= LEAST:
                return beyond
        return np.zeros(0)


def _keys(submission: Submission) -> Iterator[Hashable]:
    """The classes of a job, the narrowest first."""
    size = int(math.log2(max(submission.ncpus or 1, 1)))
    limit = int(math.log2(max(submission.walltime or 1, 1)) / 2)
    yield submission.queue, size, limit
    yield size, limit
    yield size
    yield None
