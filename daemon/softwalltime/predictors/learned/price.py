"""The price of an underestimate that holds the share of underestimated jobs at a target.

A job's critical price is the least one at which its prediction would not have been too short.  If the price is the
quantile 1 - target of the critical prices, the target's share of the jobs is underestimated.  Unlike a step up or down
for each job, a quantile does not overshoot when jobs become known late or thousands at once.
"""

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from softwalltime.predictors.learned.distribution import Floats

LOWEST, WIDTH, CELLS = -8.0, 0.05, 320
"""Logarithm of the lowest price, width and number of the cells in which critical prices are counted."""
MEMORIES: Floats = np.array([1000.0, 10_000.0])
"""Jobs after which a critical price has lost 63% of its weight; the price is the mean of one quantile for each."""
PRIOR, SPREAD = 100.0, 0.6
"""Jobs that the first price counts for, and the spread of their critical prices (of a logistic distribution)."""
EARLIER, FORGOTTEN_AFTER = 3000.0, 200_000.0
"""Jobs without excess assumed before the first one, and the jobs after which an excess has lost 63% of its weight."""
LARGEST_CORRECTION = 0.5
"""Of the logarithm of the target."""

LEAST = 1e-100
"""Weight of a cell without jobs."""

_FORGET: Floats = 1.0 / MEMORIES


def critical_cell(missed: Callable[[float], bool]) -> int:
    """Return the cell of a job's critical price.

    :param missed: whether the prediction at the price with this logarithm is too short; false above the critical price.
    """
    return max(bisect_left(range(CELLS), True, key=lambda cell: not missed(LOWEST + WIDTH * cell)) - 1, 0)


class Price:
    """The logarithm of the price, ``log``, as past jobs have set it.

    The quantile is that of the target times exp(-excess / target), where the excess is the mean of (job was
    underestimated) - target so far.  Therefore the share over a long time is the target too.
    """

    __slots__ = ("_counts", "_excess", "_seen", "_target", "log")

    def __init__(self, target: float, first: float) -> None:
        """Begin with the price whose logarithm is ``first``."""
        uppers = LOWEST + WIDTH * np.arange(1, CELLS)
        middle = first - SPREAD * math.log(1.0 / target - 1.0)
        below = 1.0 / (1.0 + np.exp(np.clip((middle - uppers) / SPREAD, -50.0, 50.0)))
        self._counts: Floats = np.tile(PRIOR * np.diff(below, prepend=0.0, append=1.0), (len(MEMORIES), 1))
        self._target = target
        self._excess = 0.0
        self._seen = 0.0
        self.log = first

    def add(self, cell: int, missed: bool, jobs: int = 1) -> None:
        """Count a job that has ended.

        :param cell: that of its critical price.
        :param missed: whether the price at its submission let it be underestimated.
        :param jobs: the number of jobs that it stands for.
        """
        self._counts *= (1.0 - jobs * _FORGET)[:, None]
        # Arithmetic with denormal numbers takes a hundred times as long.
        np.maximum(self._counts, LEAST, out=self._counts)
        self._counts[:, cell] += jobs
        keep = 1.0 - jobs / FORGOTTEN_AFTER
        self._excess = self._excess * keep + jobs * (missed - self._target)
        self._seen = self._seen * keep + jobs
        excess = self._excess / (self._seen + EARLIER) / self._target
        target = self._target * math.exp(-min(max(excess, -LARGEST_CORRECTION), LARGEST_CORRECTION))
        above = self._counts[:, ::-1].cumsum(axis=1)
        logs = 0.0
        for counted in above:
            most = target * float(counted[-1])
            place = int(counted.searchsorted(most, "right"))
            before = float(counted[place - 1]) if place else 0.0
            # Linear within a cell.
            logs += LOWEST + WIDTH * (CELLS - place - (most - before) / (float(counted[place]) - before))
        self.log = logs / len(above)
