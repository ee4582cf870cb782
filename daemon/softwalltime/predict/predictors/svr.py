"""Support vector regression in TRIP's frame; needs scikit-learn to fit, and nothing to predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
from pydantic import Field

from softwalltime.predict.predictors.regression.class_regression import (
    FEATURES,
    ClassRegression,
    ClassRegressionOptions,
    Floats,
)

# Importing it takes a second and much memory, which only a command that fits should spend.
if find_spec("sklearn") is None:
    raise ImportError("scikit-learn is missing: pip install 'pbs-softwalltime[learned]'", name="sklearn")

_GAMMA = 1.0 / len(FEATURES)


class SvrOptions(ClassRegressionOptions):
    c: float = Field(default=1.0, gt=0, description="strength of the fit: the smaller, the flatter")
    epsilon: float = Field(
        default=0.1, ge=0, description="error that costs nothing, in standard deviations of the runtimes"
    )


@dataclass(frozen=True, slots=True)
class SupportVectors:
    """A sum of Gaussian kernels around past jobs, over standardised features; in seconds."""

    mean: Floats
    scale: Floats
    vectors: Floats
    weights: Floats
    intercept: float

    def predict(self, row: Sequence[float]) -> float:
        away = self.vectors - (np.array(row) - self.mean) / self.scale
        return self.intercept + float(self.weights @ np.exp(-_GAMMA * np.einsum("ij,ij->i", away, away)))


class SupportVectorRegression(ClassRegression):
    """Support vector regression with a Gaussian kernel for each class of jobs, in place of TRIP's Tobit model."""

    name: ClassVar[str] = "svr"
    summary: ClassVar[str] = "support vector regression over the jobs with the same user, project and name"
    source: ClassVar[str] = "Fan, Rich, Allcock, Papka & Lan 2017, section V; Cortes & Vapnik 1995"
    options: SvrOptions

    def _train(self, x: Floats, y: Floats) -> SupportVectors:
        from sklearn.svm import SVR  # type: ignore[import-untyped]  # it has no types

        mean, level, unit = x.mean(axis=0), float(y.mean()), float(y.std()) or 1.0
        scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), np.inf)
        fit = SVR(kernel="rbf", gamma=_GAMMA, C=self.options.c, epsilon=self.options.epsilon)
        fit.fit((x - mean) / scale, (y - level) / unit)
        return SupportVectors(
            mean, scale, fit.support_vectors_, unit * fit.dual_coef_[0], level + unit * float(fit.intercept_[0])
        )
