"""Forecasts corrected by the errors of past ones: unbiased expected starts, ranges that hold what they promise.

Three forecasts of one wait are mixed: the mean of the simulations with drawn runtimes, the simulation with walltimes,
and the mean wait of like jobs.  The weights are those that would have made the least error of late.  Jobs that come
later fill the processors that others leave early, up to what is promised by walltimes, which no simulation without
them can show: so the walltimes have their weight.

Ranges are those of the simulations, moved with the mixture, and corrected as in conformalised quantile regression
(Romano, Patterson & Candes 2019), each quantile by the quantile of its own past errors in log(wait + 30 min).
A forecast is compared with those that expected a wait of about the same length.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.forecast.start_times import LEVELS

Floats = NDArray[np.float64]

POINT = 2
"""Place of the expected wait among the five values of a forecast: two lower ends, it, two upper ends."""
SOON = 1800.0
"""Seconds that are added to a wait before its logarithm is taken."""
CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
KEPT = 400
"""Past errors that are kept of each class."""
LEAST = 40
"""Past errors from which a class is believed, and all classes together."""
WEIGHTS = tuple(
    (walltimes / 10, like / 10) for walltimes in range(11) for like in range(6) if walltimes + like <= 10
)  # fmt: skip
"""Weights to choose from: of the simulation with walltimes, and of like jobs; the rest is the drawn runtimes'."""
_WALLTIMES, _LIKE = (np.array(column) for column in zip(*WEIGHTS, strict=True))


class WaitForecast(NamedTuple):
    """What is forecast of one job's remaining wait before any correction, in seconds.

    ``mean`` and ``ranges`` (the quantiles :data:`.start_times.LEVELS`) are of the runs with drawn runtimes.
    """

    mean: float
    by_walltimes: float
    like_jobs: float
    ranges: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Corrections:
    """Weights and corrections of the quantiles for each class of expected waits.

    ``weights`` are of the simulation with walltimes and of like jobs.  ``shifts`` are differences of logarithms, a
    value for each quantile; empty where too little is known.
    """

    weights: tuple[tuple[float, float], ...]
    shifts: tuple[tuple[float, ...], ...]

    def mixed(self, found: WaitForecast) -> tuple[float, Floats]:
        """Return the expected wait, and the ranges moved with it."""
        walltimes, like = self.weights[_class(found.mean)]
        expected = (1 - walltimes - like) * found.mean + walltimes * found.by_walltimes + like * found.like_jobs
        ranges = np.array(found.ranges)
        return expected, (ranges + SOON) * (expected + SOON) / (found.mean + SOON) - SOON

    def corrected(self, found: WaitForecast) -> Floats:
        """Return the five values of a forecast; the expected wait is within the 50% range."""
        expected, ranges = self.mixed(found)
        if shift := self.shifts[_class(found.mean)]:
            ranges = np.exp(np.log(np.maximum(ranges, 0) + SOON) + np.array(shift)) - SOON
        # Quantiles that were corrected apart from each other may cross.
        low, lower, upper, high = np.maximum.accumulate(np.maximum(ranges, 0.0)).tolist()
        lower, upper = min(lower, expected), max(upper, expected)
        return np.array((min(low, lower), lower, expected, upper, max(high, upper)))


class Calibration:
    """What past forecasts teach."""

    def __init__(self) -> None:
        classes = range(len(CLASSES) + 1)
        self._absolute: list[deque[Floats]] = [deque(maxlen=KEPT) for _ in classes]
        self._relative: list[deque[Floats]] = [deque(maxlen=KEPT) for _ in classes]
        self._all_absolute: deque[Floats] = deque(maxlen=2 * KEPT)
        self._all_relative: deque[Floats] = deque(maxlen=2 * KEPT)

    def add(self, found: WaitForecast, moved: Floats, actual: float) -> None:
        """Learn from a job that started.

        :param moved: the ranges as :meth:`Corrections.mixed` moved them when they were forecast.
        :param actual: how long it waited from the moment of the forecast on, in seconds.
        """
        rest = 1 - _WALLTIMES - _LIKE
        mixed = rest * found.mean + _WALLTIMES * found.by_walltimes + _LIKE * found.like_jobs
        absolute = np.abs(mixed - actual)
        relative = np.log(actual + SOON) - np.log(np.maximum(moved, 0) + SOON)
        index = _class(found.mean)
        self._absolute[index].append(absolute)
        self._all_absolute.append(absolute)
        self._relative[index].append(relative)
        self._all_relative.append(relative)

    def corrections(self) -> Corrections:
        """Return what is known now; a class of which too little is known is corrected as all together are."""
        weights, shifts = _weights(self._all_absolute), _shifts(self._all_relative)
        return Corrections(
            tuple(_weights(errors) or weights or (0.0, 0.0) for errors in self._absolute),
            tuple(_shifts(errors) or shifts for errors in self._relative),
        )

    def corrections_for(self, expected: float) -> Corrections:
        """Return what is known now of the class of one expected wait; the others are left as they are."""
        index = _class(expected)
        none: list[tuple[float, ...]] = [()] * (len(CLASSES) + 1)
        weights = [(0.0, 0.0)] * (len(CLASSES) + 1)
        weights[index] = _weights(self._absolute[index]) or _weights(self._all_absolute) or (0.0, 0.0)
        none[index] = _shifts(self._relative[index]) or _shifts(self._all_relative)
        return Corrections(tuple(weights), tuple(none))


def _weights(errors: Sequence[Floats]) -> tuple[float, float] | None:
    """The weights with the least mean error; ``None`` while there are few errors."""
    if len(errors) < LEAST:
        return None
    return WEIGHTS[int(np.array(errors).mean(axis=0).argmin())]


def _shifts(errors: Sequence[Floats]) -> tuple[float, ...]:
    """The quantile of each quantile's past errors; empty while there are few."""
    if len(errors) < LEAST:
        return ()
    past = np.array(errors)
    return tuple(float(np.quantile(past[:, column], level)) for column, level in enumerate(LEVELS))


def _class(expected: float) -> int:
    return bisect_right(CLASSES, expected)
