"""Linear regression by normalised adaptive gradient descent (Ross, Mineiro & Langford 2013, algorithm NAG)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TINY = 1e-100
"""In place of 0 in a divisor; features and gradients that are not 0 are far above it."""


class NormalisedGradient:
    """A linear function learned one example at a time, whatever the scales of its features.

    ``scales`` are the greatest magnitudes of the features so far.  A coefficient is reduced when the scale of its
    feature rises, and its step is in units of the feature's scale and of the gradients so far.
    """

    __slots__ = ("_count", "_eta", "_l2", "_norm", "_squares", "coefficients", "scales")

    def __init__(self, features: int, eta: float, l2: float = 0.0) -> None:
        """Begin with coefficients 0.

        :param eta: greatest step of the prediction, about, in its unit.
        :param l2: strength of the penalty ``l2 / 2 x sum of squared coefficients``.
        """
        self._eta = eta
        self._l2 = l2
        self._count = 0
        self._norm = 0.0
        self._squares: Floats = np.full(features, _TINY)
        self.coefficients: Floats = np.zeros(features)
        self.scales: Floats = np.full(features, _TINY)

    @property
    def count(self) -> int:
        return self._count

    def predict(self, x: Floats) -> float:
        return float(self.coefficients @ x)

    def rescale(self, x: Floats) -> float:
        """Take the scales of an example's features into account before its :meth:`step`; return its prediction."""
        scales = np.maximum(self.scales, np.abs(x))
        self.coefficients *= self.scales / scales
        self.scales = scales
        return float(self.coefficients @ x)

    def step(self, x: Floats, slope: float) -> None:
        """Follow the gradient of the loss at an example.

        :param slope: derivative of the loss by the prediction, its weight included.
        """
        self._count += 1
        self._norm += float(np.add.reduce(np.square(x / self.scales)))
        gradient = slope * x + self._l2 * self.coefficients
        self._squares += np.square(gradient)
        rate = self._eta * (self._count / self._norm) ** 0.5 if self._norm else 0.0
        self.coefficients -= rate * gradient / (self.scales * np.sqrt(self._squares))
