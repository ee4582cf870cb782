"""Weights of several forecasts of the same waits, learnt online: never much worse than the best of them.

Bernstein online aggregation (Wintenberger 2017, "Optimal learning with Bernstein online aggregation", Machine Learning
106): the weight of a forecast grows with its regret, the sum of how much smaller its error was than that of the
mixture, less the squares of these differences, so that one that is better by luck gains little.  The rates are found
from the differences themselves.  It is used twice.  For each class of forecasts it mixes the drawn runtimes, the
walltimes and the waits of like jobs, by the slope of the error, so that the mixture may be better than each of them.
For each phase it then weighs that mixture against the drawn runtimes alone by their errors, so that a mixture that is
wrong costs little where few forecasts were judged.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FORGOTTEN = 0.995
"""Share of what is known that is left after one more forecast: half of it after 138."""
_MIN_DIVISOR = 1e-9


class OnlineWeights:
    """Weights of some forecasts, equal at first.

    ``known`` is the sum of the weights of the forecasts that were learnt.
    """

    def __init__(self, count: int) -> None:
        self.known = 0.0
        self._regrets = np.zeros(count)
        self._squares = np.zeros(count)
        self._largest = np.zeros(count)
        self._doubt = np.log(count)

    @property
    def values(self) -> Floats:
        """The weights, of sum 1."""
        rates = self._rates()
        exponents = np.log(rates) + rates * self._regrets
        weights: Floats = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        return weights

    def learn(self, gains: Floats, weight: float = 1.0) -> None:
        """Learn by how much the error of each was smaller than the mixture's.

        :param weight: share of a forecast that this one counts as.
        """
        gains = gains * weight
        self.known += weight
        self._largest = np.maximum(FORGOTTEN * self._largest, np.abs(gains))
        self._squares = FORGOTTEN * self._squares + gains**2
        self._regrets = FORGOTTEN * self._regrets + gains - self._rates() * gains**2

    def _rates(self) -> Floats:
        rates: Floats = np.minimum(
            0.5 / np.maximum(self._largest, _MIN_DIVISOR),
            np.sqrt(self._doubt / np.maximum(self._squares, _MIN_DIVISOR)),
        )
        return rates


class Mixtures:
    """Weights of several forecasts for each class, the first of which is trusted until others are known to be better.

    :param count: of the forecasts.
    :param least: forecasts of a phase from which others than the first one have weight.
    """

    def __init__(self, count: int, least: int) -> None:
        self._count = count
        self._least = least
        self._mixed: dict[Hashable, OnlineWeights] = {}
        self._trusted: dict[Hashable, OnlineWeights] = {}

    def weights(self, group: Hashable, phase: Hashable) -> Floats:
        """The weights of the forecasts; all of it the first one's while little is known."""
        trusted = self._of(self._trusted, phase, 2)
        weights = np.zeros(self._count)
        weights[0] = 1.0
        if trusted.known < self._least:
            return weights
        alone, mixed = trusted.values
        weights *= alone
        weights += mixed * self._of(self._mixed, group, self._count).values
        return weights

    def learn(self, group: Hashable, phase: Hashable, forecasts: Sequence[float], actual: float, weight: float) -> None:
        """Learn what was forecast, and what was right."""
        values = np.array(forecasts)
        mixed, trusted = self._of(self._mixed, group, self._count), self._of(self._trusted, phase, 2)
        mixture = float(mixed.values @ values)
        errors = np.abs(np.array((values[0], mixture)) - actual)
        trusted.learn(float(trusted.values @ errors) - errors, weight)
        mixed.learn(np.sign(mixture - actual) * (mixture - values), weight)

    @staticmethod
    def _of(known: dict[Hashable, OnlineWeights], name: Hashable, count: int) -> OnlineWeights:
        return known.setdefault(name, OnlineWeights(count))
