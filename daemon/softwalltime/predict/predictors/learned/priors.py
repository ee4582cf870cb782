"""Binned runtimes, as shares of the walltime, of a project's jobs with the same queue and walltime."""

from array import array
from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

MAX_USED = 256
"""Number of jobs used."""
_SPARE = 128
"""Number of further jobs kept, for requests about an earlier time."""
WINDOW_S, MAX_JOBS = 3 * 86400, 16_384
"""Seconds before the last end of which all jobs are kept, up to ``MAX_JOBS``: at a job's submission, a day or more
before the question, the jobs that ended by then counted.
"""
_BITS = 10
"""Bits that hold a bin."""
_BIN = (1 << _BITS) - 1
NO_BINS: NDArray[np.int64] = np.empty(0, np.int64)


class ProjectJobs:
    """The last jobs of a project with one queue and walltime, independent of the order in which they became known."""

    __slots__ = ("_codes",)

    def __init__(self) -> None:
        # End and bin in one number, ascending.
        self._codes = array("q")

    def add(self, end: int, share: int) -> None:
        codes = self._codes
        insort(codes, end << _BITS | share)
        if len(codes) > MAX_USED + 2 * _SPARE and (codes[_SPARE] < end - WINDOW_S << _BITS or len(codes) > MAX_JOBS):
            del codes[:_SPARE]

    def until(self, now: int) -> NDArray[np.int64]:
        """Return the bins of the last jobs that ended by ``now``, in order of end."""
        last = bisect_left(self._codes, now + 1 << _BITS)
        first = max(last - MAX_USED, 0)
        if last == first:
            return NO_BINS
        # Masking copies: an array with exported buffers cannot grow.
        return np.frombuffer(self._codes, np.int64, last - first, 8 * first) & _BIN
