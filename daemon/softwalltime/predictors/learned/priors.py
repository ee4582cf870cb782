"""Runtimes as shares of the walltime, by bin: of the jobs of one project with the same queue and walltime."""

from array import array
from bisect import bisect_right, insort

import numpy as np

from softwalltime.predictors.learned.distribution import SIZE, Floats

LAST = 256
"""Jobs that count."""
_ROOM = 128
"""Jobs kept beyond those, for questions about an earlier time."""
_BITS = 10
"""Bits that hold a bin."""


class ProjectJobs:
    """The last jobs of a project that were submitted alike; the order in which they became known does not matter."""

    __slots__ = ("_codes",)

    def __init__(self) -> None:
        # End and bin in one number, ascending.
        self._codes = array("q")

    def add(self, end: int, found: int) -> None:
        """Add a job that ended in this bin."""
        codes = self._codes
        insort(codes, end << _BITS | found)
        if len(codes) > LAST + 2 * _ROOM:
            del codes[:_ROOM]

    def until(self, now: int) -> tuple[int, Floats]:
        """Return how many of the last jobs that ended by ``now`` count, and their number by bin."""
        last = bisect_right(self._codes, now + 1 << _BITS)
        first = max(last - LAST, 0)
        if last == first:
            return 0, np.zeros(SIZE)
        found = np.frombuffer(self._codes, np.int64, last - first, 8 * first) & (1 << _BITS) - 1
        return last - first, np.bincount(found, minlength=SIZE).astype(np.float64)
