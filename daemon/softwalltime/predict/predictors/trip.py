"""Tobit regression with an elastic net for each class of jobs (TRIP)."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import mul
from typing import ClassVar

import numpy as np
from pydantic import Field

from softwalltime.predict.predictors.regression.class_regression import (
    SUPPLIED,
    ClassJob,
    ClassRegression,
    ClassRegressionOptions,
    Floats,
    training_rows,
)
from softwalltime.predict.predictors.regression.tobit import TobitFit, fit_tobit

GRID = (0.1, 1.0, 10.0, 100.0)
"""Strengths of both penalties that cross-validation chooses from."""
_MAX_CLASSES = 20
"""Classes that cross-validation uses, those with the most jobs: a fit takes a millisecond, and there are 160 each."""
_MIN_SIGMA = 0.05
"""Lower bound of the standard deviation of the errors, as a share of that of the runtimes."""


class TripOptions(ClassRegressionOptions):
    l1: float = Field(default=-1.0, ge=-1, description="strength of the L1 penalty; -1: by cross-validation")
    l2: float = Field(default=-1.0, ge=-1, description="strength of the L2 penalty; -1: by cross-validation")
    first: int = Field(default=30, ge=1, le=365, description="days of history that cross-validation waits for")
    folds: int = Field(default=10, ge=2, le=100, description="folds of cross-validation")
    seed: int = Field(default=1, ge=0, le=2**32 - 1, description="of the random folds")


@dataclass(frozen=True, slots=True)
class CensoredLine:
    """A linear prediction in seconds, at least ``lower``: equations (1) and (2) of the paper."""

    lower: float
    intercept: float
    coefficients: tuple[float, ...]

    def predict(self, row: Sequence[float]) -> float:
        return max(self.lower, self.intercept + sum(map(mul, self.coefficients, row), 0.0))


class Trip(ClassRegression):
    """Tobit regression for each class, censored from the left at the least runtime of the class, as in the paper.

    A runtime at the bound is an upper bound, and no prediction is below it.  A job that was killed at its walltime
    would be right-censored; neither the paper nor this class does that.  The penalties are on the coefficients of
    standardised features and runtimes.  Cross-validation over the jobs of the largest classes chooses them once, as
    soon as the history spans ``first`` days.  Until then there is no prediction.

    A restarted daemon chooses the penalties again, from the jobs that it loads, and may choose others: with the default
    options predictions may change at a restart.  Set ``l1`` and ``l2`` to keep the penalties.
    """

    name: ClassVar[str] = "trip"
    summary: ClassVar[str] = "Tobit regression with elastic net over the jobs with the same user, project and name"
    source: ClassVar[str] = "Fan, Rich, Allcock, Papka & Lan 2017, section IV"
    options: TripOptions

    def __init__(self, options: TripOptions) -> None:
        super().__init__(options)
        self.penalties = (options.l1, options.l2) if min(options.l1, options.l2) >= 0 else None
        """The strengths of the L1 and the L2 penalty, once they are known."""

    def _prepare(self, known: dict[Hashable, list[ClassJob]], before: int) -> bool:
        options = self.options
        oldest = before if self._oldest is None else self._oldest
        if self.penalties is None and known and before - oldest >= options.first * 86400:
            # Break ties of size independently of the order of arrival.
            largest = sorted(known.values(), key=lambda jobs: (-len(jobs), jobs))[:_MAX_CLASSES]
            rows = (training_rows(jobs) for jobs in largest)
            self.penalties = choose_penalties(rows, options.folds, options.seed)
        return self.penalties is not None

    def _train(self, x: Floats, y: Floats) -> CensoredLine:
        assert self.penalties is not None  # noqa: S101 - by _prepare
        return fit_line(x, y, *self.penalties)


class _Standardised:
    """Features and runtimes of a class in units of their standard deviations."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.lower, self._level, self._unit = float(y.min()), float(y.mean()), float(y.std())
        self._mean = x.mean(axis=0)
        # A feature that never varies has no coefficient; its standard deviation is hardly ever exactly 0.
        self._scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), np.inf)
        self._x = (x - self._mean) / self._scale
        self._y = (y - self._level) / self._unit if self._unit else None

    def fit(self, l1: float, l2: float, start: TobitFit | None = None) -> TobitFit | None:
        """Return the Tobit regression with these penalties; ``None`` if all runtimes are equal."""
        if self._y is None:
            return None
        lower = (self.lower - self._level) / self._unit
        return fit_tobit(self._x, self._y, lower, l1, l2, least_sigma=_MIN_SIGMA, start=start)

    def line(self, fit: TobitFit | None) -> CensoredLine:
        if fit is None:
            return CensoredLine(self.lower, self.lower, (0.0,) * len(self._mean))
        coefficients = fit.coefficients * self._unit / self._scale
        intercept = self._level + self._unit * fit.intercept - float(self._mean @ coefficients)
        return CensoredLine(self.lower, intercept, tuple(coefficients.tolist()))


def fit_line(x: Floats, y: Floats, l1: float, l2: float) -> CensoredLine:
    """Return the Tobit regression of runtimes by features; penalties are for both standardised."""
    standardised = _Standardised(x, y)
    return standardised.line(standardised.fit(l1, l2))


def choose_penalties(classes: Iterable[tuple[Floats, Floats]], folds: int, seed: int) -> tuple[float, float]:
    """Return the strengths in :data:`GRID` with the highest mean accuracy over the held-out jobs of these classes.

    Predictions are capped at the walltime, as in use; accuracy is the paper's equation (5).
    """
    totals = dict.fromkeys(product(GRID, GRID), 0.0)
    for x, y in classes:
        fold = np.random.default_rng(seed).permutation(len(y)) % min(folds, len(y))
        for held_out in range(min(folds, len(y))):
            test, training = fold == held_out, fold != held_out
            standardised = _Standardised(x[training], y[training])
            fit = None
            for penalties in totals:
                # Start from the result of the neighbour on the grid.
                fit = standardised.fit(*penalties, fit)
                line = standardised.line(fit)
                seconds = np.maximum(line.intercept + x[test] @ np.array(line.coefficients), line.lower)
                seconds = np.maximum(np.minimum(seconds, x[test, SUPPLIED]), 1.0)
                totals[penalties] += float((np.minimum(seconds, y[test]) / np.maximum(seconds, y[test])).sum())
    return max(totals, key=totals.__getitem__)
