"""Ranges that hold what they promise: corrected by the errors of past forecasts whose jobs have started.

The method is that of conformalised quantile regression (Romano, Patterson & Candes 2019), for each quantile by itself
and walk-forward: the error of a quantile is log(wait + C) minus the same of the forecast; the quantile is moved by the
quantile of its own past errors.  A forecast is compared with those that expected a wait of about the same length.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SOON = 60.0
"""Seconds that are added to a wait before its logarithm is taken."""
CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
KEPT = 400
"""Past errors that are kept of each class."""
LEAST = 40
"""Past errors from which a class is believed, and all classes together."""


class Calibration:
    """Past errors of forecasts, each a set of quantiles of one job's remaining wait."""

    def __init__(self, levels: Sequence[float]) -> None:
        """:param levels: the quantile that each value of a forecast is to be, ascending."""
        self._levels = tuple(levels)
        self._errors: list[deque[Floats]] = [deque(maxlen=KEPT) for _ in range(len(CLASSES) + 1)]
        self._all: deque[Floats] = deque(maxlen=2 * KEPT)

    def add(self, expected: float, waits: Sequence[float] | Floats, actual: float) -> None:
        """Learn from a job that started.

        :param expected: the point forecast of its remaining wait, in seconds, which chooses the class.
        :param waits: the quantiles that were forecast, in seconds, not corrected.
        :param actual: how long it waited from the moment of the forecast on.
        """
        error = np.log(actual + SOON) - np.log(np.asarray(waits, np.float64) + SOON)
        self._errors[_class(expected)].append(error)
        self._all.append(error)

    def corrected(self, expected: float, waits: Sequence[float] | Floats) -> Floats:
        """The quantiles, corrected; as they are while too little is known."""
        raw = np.asarray(waits, np.float64)
        errors = self._errors[_class(expected)]
        if len(errors) < LEAST:
            errors = self._all
        if len(errors) < LEAST:
            return raw
        past = np.array(errors)
        shift = np.array([np.quantile(past[:, column], level) for column, level in enumerate(self._levels)])
        found = np.exp(np.log(raw + SOON) + shift) - SOON
        # Quantiles that were corrected apart from each other may cross.
        return np.maximum.accumulate(np.maximum(found, 0.0))


class Weights:
    """How much weight the first of two forecasts deserves: what would have made the least error of late."""

    def __init__(self, weights: Sequence[float]) -> None:
        """:param weights: to choose from; the last one is used while too little is known."""
        self._weights = np.array(weights)
        self._errors: list[deque[Floats]] = [deque(maxlen=KEPT) for _ in range(len(CLASSES) + 1)]

    def add(self, expected: float, first: float, second: float, actual: float) -> None:
        """Learn from a job that started; all in seconds."""
        mixed = self._weights * first + (1 - self._weights) * second
        self._errors[_class(expected)].append(np.abs(mixed - actual))

    def best(self, expected: float) -> float:
        """The weight of the first forecast, from 0 to 1."""
        errors = self._errors[_class(expected)]
        if len(errors) < LEAST:
            return float(self._weights[-1])
        return float(self._weights[np.array(errors).mean(axis=0).argmin()])


def _class(expected: float) -> int:
    return bisect_right(CLASSES, expected)
