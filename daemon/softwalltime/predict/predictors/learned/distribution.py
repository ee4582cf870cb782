"""Runtime distributions on a grid: shares of the walltime in equal steps of their logarithm.

Bin k below the last one holds runtimes t with ``UPPER[k - 1] <= t / walltime < UPPER[k]``.  The last bin, ``REACHES``,
holds the jobs that reach their walltime.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 16
"""Bins for each factor e."""
SIZE = 13 * STEPS + 2
REACHES = SIZE - 1
UPPER: Floats = np.exp(np.minimum(np.arange(SIZE) - SIZE + 2, 0) / STEPS)
"""Upper end of each bin as a share of the walltime."""
MIDDLE: Floats = np.exp(np.minimum(np.arange(SIZE) - SIZE + 1.5, 0) / STEPS)
"""Representative runtime of each bin, as a share of the walltime."""
SAMPLE = 400
"""Number of quantiles that represent a distribution."""
KNOTS: Floats = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95, 1.0])
"""Probabilities between which quantiles are corrected linearly (see :mod:`.levels`)."""

_LEVELS: Floats = (np.arange(SAMPLE) + 0.5) / SAMPLE


def bin_of(log_share: float) -> int:
    """Return the bin of a runtime by the logarithm of its share of the walltime."""
    return min(max(math.floor(log_share * STEPS) + REACHES, 0), REACHES)


def seconds_of(place: int, walltime: float) -> float:
    """Return the longest runtime in a bin, in whole seconds."""
    return walltime if place == REACHES else max(math.ceil(float(UPPER[place]) * walltime) - 1.0, 1.0)


def remaining(shares: Floats, log_share: float) -> Floats:
    """Return the distribution given the elapsed time, as the logarithm of its share of the walltime."""
    first = bin_of(log_share)
    remainder = shares.copy()
    remainder[:first] = 0.0
    total = float(remainder.sum())
    if total <= 1e-9:
        remainder[:] = 0.0
        remainder[REACHES] = total = 1.0
    return remainder / total


def part_below(below: Floats, log_share: float) -> float:
    """Return the share of a distribution that ends before a runtime, by log(runtime / walltime).

    Interpolates linearly in the logarithm within a bin, as for quantiles; the last bin is at the walltime.

    :param below: the cumulative sum of the distribution.
    """
    place = bin_of(log_share)
    before = float(below[place - 1]) if place else 0.0
    if place == REACHES:
        return before
    return before + min(max(log_share * STEPS + REACHES - place, 0.0), 1.0) * (float(below[place]) - before)


def logs_at(below: Floats, levels: Floats) -> Floats:
    """Return log(runtime / walltime) at levels of a distribution, given as in :func:`part_below`; linear in a bin."""
    place = np.minimum(below.searchsorted(levels), REACHES)
    before = np.where(place > 0, below[place - 1], 0.0)
    part = (levels - before) / np.maximum(below[place] - before, 1e-300)
    return np.where(place == REACHES, 0.0, (place - REACHES + np.minimum(part, 1.0)) / STEPS)


class Quantiles(Sequence[float]):
    """A distribution as a sample: the middle quantiles of equal parts, in shares of the walltime, ascending.

    They are computed when they are first used, because most predictions are used as one number.
    """

    __slots__ = ("__dict__", "_least", "_levels", "_shares")

    def __init__(self, shares: Floats, least: float = 0.0, levels: Floats = KNOTS) -> None:
        """Create the sample of a distribution.

        :param least: elapsed time as a share of the walltime.
        :param levels: probabilities of the distribution at which the quantiles for ``KNOTS`` are.
        """
        self._shares = shares
        self._least = least
        self._levels = levels

    @cached_property
    def _values(self) -> list[float]:
        below = self._shares.cumsum()
        below /= below[REACHES]
        logs = logs_at(below, np.interp(_LEVELS, KNOTS, self._levels))
        return np.maximum(np.exp(logs), self._least).tolist()  # type: ignore[no-any-return]  # tolist has no type

    def __len__(self) -> int:
        return SAMPLE

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    def __getitem__(self, index: int | slice) -> float | list[float]:
        return self._values[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantiles):
            return NotImplemented
        same = self._least == other._least and np.array_equal(self._levels, other._levels)
        return same and np.array_equal(self._shares, other._shares)
