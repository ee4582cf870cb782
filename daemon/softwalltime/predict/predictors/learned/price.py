"""Control the price of an underestimate so that the share of underestimated jobs meets a target.

A job's critical price is the lowest price at which its prediction would not have been an underestimate.  If the price
is the quantile 1 - target of the critical prices, the target share of the jobs is underestimated.  Unlike a controller
with a step for each job, a quantile does not overshoot when jobs become known late or thousands at once.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from softwalltime.predict.predictors.learned.attention import best_bin
from softwalltime.predict.predictors.learned.distribution import MIDDLE, REACHES, UPPER, Floats, seconds_of

Objective = Literal["accuracy", "absolute-error"]

HOUR = 3600.0
"""Unit of the price in seconds, unless the objective is the accuracy."""
LOWEST, WIDTH, CELLS = -8.0, 0.05, 320
"""Logarithm of the lowest price, width and number of the cells in which critical prices are counted."""
MEMORIES = (1000.0, 10_000.0)
"""Jobs after which a critical price has lost 63% of its weight; the price is the mean of one quantile for each, see
``MAX_LOG_DIFFERENCE``."""
PRIOR, SPREAD = 100.0, 0.6
"""Weight of the first price in jobs, and the spread of its (logistic) distribution of critical prices."""
EARLIER, FORGOTTEN_AFTER = 3000.0, 200_000.0
"""Jobs without excess assumed before the first one, and the jobs after which an excess has lost 63% of its weight."""
MAX_LOG_CORRECTION = 0.5
"""Maximum correction of the logarithm of the target."""
MAX_LOG_DIFFERENCE = 1.0
"""Maximum by which the logarithm of the shorter memory's quantile is below the longer one's.  Otherwise thousands of
jobs of one user without underestimates would cause underestimates of all jobs after them."""

MAX_PAST_PRICES = 20_000
"""Maximum number of past prices; at least half as many are kept."""
MAX_WEIGHT = 1e100
"""Maximum weight of a job; beyond it all weights are scaled."""


def critical_cell(missed: Callable[[float], bool]) -> int:
    """Return the cell of a job's critical price.

    :param missed: whether the prediction at the price with this logarithm is too short; false above the critical price.
    """
    # Shortcut: many jobs are not underestimated at any price.
    if not missed(LOWEST):
        return 0
    return bisect_left(range(CELLS), True, 1, key=lambda cell: not missed(LOWEST + WIDTH * cell)) - 1


class _Memory:
    """Histogram of critical prices with exponentially decreasing weights, and its quantile.

    New jobs get growing weights instead of decreasing all old ones, and the search starts at the last quantile: a job
    takes 1 microsecond instead of 10 with arrays.
    """

    __slots__ = ("_above", "_counts", "_jobs", "_place", "_total", "_weight")

    def __init__(self, jobs: float, counts: Sequence[float]) -> None:
        """Begin with these counts; a job has lost 63% of its weight after ``jobs`` further ones."""
        self._jobs = jobs
        self._counts = list(counts)
        self._total = sum(counts)
        self._weight = 1.0
        # The last cell that is not entirely above the quantile, and the total weight of the cells above it.
        self._place = CELLS - 1
        self._above = 0.0

    def add(self, cell: int, jobs: int) -> None:
        self._weight /= 1.0 - jobs / self._jobs
        added = jobs * self._weight
        self._counts[cell] += added
        self._total += added
        if cell > self._place:
            self._above += added
        if self._weight > MAX_WEIGHT:
            self._counts = [count / self._weight for count in self._counts]
            self._total, self._weight = sum(self._counts), 1.0
            self._above = sum(self._counts[self._place + 1 :])

    def log_price(self, target: float) -> float:
        """Return the logarithm of the price above which this share of the weight is, linear within a cell."""
        counts, place, above, most = self._counts, self._place, self._above, target * self._total
        while above > most and place < CELLS - 1:
            place += 1
            above -= counts[place]
        while place and above + counts[place] <= most:
            above += counts[place]
            place -= 1
        self._place, self._above = place, above
        part = (most - above) / counts[place] if counts[place] else 0.0
        return LOWEST + WIDTH * (place + 1 - min(max(part, 0.0), 1.0))


class Price:
    """The price, adjusted by past jobs.

    The quantile is that of the target times exp(-excess / target), where the excess is the mean of (job was
    underestimated) - target so far.  Therefore the share over a long time is the target too.
    """

    __slots__ = ("_ends", "_excess", "_gain", "_logs", "_memories", "_seen", "_target")

    def __init__(self, target: float, first: float, gain: float = 1.0) -> None:
        """Begin with the price whose logarithm is ``first``; ``gain`` multiplies the excess."""
        uppers = LOWEST + WIDTH * np.arange(1, CELLS)
        middle = first - SPREAD * math.log(1.0 / target - 1.0)
        below = 1.0 / (1.0 + np.exp(np.clip((middle - uppers) / SPREAD, -50.0, 50.0)))
        counts = (PRIOR * np.diff(below, prepend=0.0, append=1.0)).tolist()
        self._memories = [_Memory(jobs, counts) for jobs in MEMORIES]
        # Search now, so that the first job does not start at the highest price.
        for memory in self._memories:
            memory.log_price(target)
        self._target, self._gain = target, gain
        self._excess = 0.0
        self._seen = 0.0
        # One more than ends: a price is valid after the preceding end.
        self._logs = [first]
        self._ends: list[int] = []

    @property
    def log(self) -> float:
        return self._logs[-1]

    def log_at(self, time: int) -> float:
        """Return the logarithm of the price after the jobs that ended by ``time``."""
        return self._logs[bisect_right(self._ends, time)]

    def count(self, missed: bool, jobs: int = 1) -> None:
        """Count a job only in the share underestimated, not in the quantile: its prediction used another price."""
        keep = 1.0 - jobs / FORGOTTEN_AFTER
        self._excess = self._excess * keep + jobs * (missed - self._target)
        self._seen = self._seen * keep + jobs

    def add(self, end: int, cell: int, missed: bool, jobs: int = 1) -> None:
        """Count a job; jobs come in order of end.

        :param end: in epoch seconds.
        :param cell: that of its critical price.
        :param missed: whether it was underestimated at the price of that time.
        :param jobs: its weight in jobs.
        """
        self.count(missed, jobs)
        excess = self._gain * self._excess / (self._seen + EARLIER) / self._target
        target = self._target * math.exp(-min(max(excess, -MAX_LOG_CORRECTION), MAX_LOG_CORRECTION))
        shorter, longer = self._memories
        shorter.add(cell, jobs)
        longer.add(cell, jobs)
        log = longer.log_price(target)
        self._ends.append(end)
        self._logs.append((max(shorter.log_price(target), log - MAX_LOG_DIFFERENCE) + log) / 2)
        if len(self._ends) > MAX_PAST_PRICES:
            del self._ends[: MAX_PAST_PRICES // 2], self._logs[: MAX_PAST_PRICES // 2]


def first_log_price(objective: Objective, target: float) -> float:
    """Return the logarithm of the initial price, near its final value on recorded traces."""
    if objective == "accuracy":
        return -0.87 * math.log(target / 0.07)
    return 1.4 - 1.2 * math.log(target / 0.05)


def best_seconds(objective: Objective, shares: Floats, log_price: float, walltime: int) -> float:
    """Return the prediction with the least expected loss, in seconds.

    ============== ====================================================================================
    objective      loss of a prediction p for a runtime t
    ============== ====================================================================================
    accuracy       1 - min(p, t) / max(p, t), + price if p < t
    absolute-error abs(p - t), + price in hours if p < t
    ============== ====================================================================================

    The price is the same for all jobs.  At the price for which a given share of the jobs is underestimated, the
    predictions have the least mean loss of all that underestimate this share (Lagrange).
    """
    price = math.exp(log_price)
    if objective == "accuracy":
        return seconds_of(best_bin(shares, price), walltime)
    return seconds_of(least_error_bin(shares, price * (HOUR / walltime)), walltime)


def least_error_bin(shares: Floats, price: float) -> int:
    """Return the bin whose upper end p has the least expected abs(p - t) + ``price`` if p < t, in walltimes."""
    below, short = shares.cumsum(), (shares * MIDDLE).cumsum()
    # E|p - t| is p x P(t <= p) - E[t; t <= p] + E[t; t > p] - p x P(t > p).
    loss = UPPER * (2.0 * below - below[REACHES]) - 2.0 * short - price * below
    return int(np.argmin(loss))
