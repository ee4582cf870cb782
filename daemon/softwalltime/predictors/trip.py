"""Tobit regression with an elastic net for each class of jobs (TRIP)."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import mul
from typing import ClassVar

import numpy as np
from pydantic import Field

from softwalltime.predictors.class_features import SUPPLIED, ClassJob, Floats, training_rows
from softwalltime.predictors.class_regression import ClassRegression, ClassRegressionOptions
from softwalltime.predictors.tobit import fit_tobit

GRID = (0.1, 1.0, 10.0, 100.0)
"""Strengths of both penalties that cross-validation chooses from."""
_LEAST_SIGMA = 0.05
"""Lower bound of the standard deviation of the errors, as a share of that of the runtimes."""


class TripOptions(ClassRegressionOptions):
    """Options of ``trip``."""

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
        """Return the runtime of a job with these features."""
        return max(self.lower, self.intercept + sum(map(mul, self.coefficients, row), 0.0))


class Trip(ClassRegression):
    """Tobit regression for each class, censored from the left at the least runtime of the class, as in the paper.

    A runtime at the bound means "at most this", and no prediction is below it.  A job that was killed at its walltime
    would be censored from the right; neither the paper nor this does that.  The penalties are on the coefficients of
    standardised features and runtimes.  Cross-validation over the jobs of all classes chooses them once, as soon as the
    history spans ``first`` days.  Until then there is no prediction.
    """

    name: ClassVar[str] = "trip"
    summary: ClassVar[str] = "Tobit regression with elastic net over the jobs with the same user, project and name"
    source: ClassVar[str] = "Fan, Rich, Allcock, Papka & Lan 2017, section IV"
    options_type: ClassVar[type[ClassRegressionOptions]] = TripOptions

    def __init__(self, options: TripOptions) -> None:
        super().__init__(options)
        self._penalties = (options.l1, options.l2) if min(options.l1, options.l2) >= 0 else None

    @property
    def penalties(self) -> tuple[float, float] | None:
        """The strengths of the L1 and the L2 penalty, once they are known."""
        return self._penalties

    def _prepare(self, known: dict[Hashable, list[ClassJob]], before: int) -> bool:
        """Choose the penalties if there is a month of history."""
        options = self.options
        assert isinstance(options, TripOptions)  # noqa: S101 - by options_type
        oldest = before if self._oldest is None else self._oldest
        if self._penalties is None and known and before - oldest >= options.first * 86400:
            rows = (training_rows(jobs) for jobs in known.values())
            self._penalties = choose_penalties(rows, options.folds, options.seed)
        return self._penalties is not None

    def _train(self, x: Floats, y: Floats) -> CensoredLine:
        """Fit to the jobs of a class."""
        assert self._penalties is not None  # noqa: S101 - by _prepare
        return fit_line(x, y, *self._penalties)


def fit_line(x: Floats, y: Floats, l1: float, l2: float) -> CensoredLine:
    """Return the Tobit regression of runtimes by features; penalties are for both standardised."""
    lower = float(y.min())
    unit = float(y.std())
    if unit == 0.0:
        return CensoredLine(lower, lower, (0.0,) * x.shape[1])
    mean = x.mean(axis=0)
    # A feature that never varies has no coefficient; its standard deviation is hardly ever exactly 0.
    scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), np.inf)
    level = float(y.mean())
    fit = fit_tobit((x - mean) / scale, (y - level) / unit, (lower - level) / unit, l1, l2, least_sigma=_LEAST_SIGMA)
    coefficients = fit.coefficients * unit / scale
    return CensoredLine(lower, level + unit * fit.intercept - float(mean @ coefficients), tuple(coefficients.tolist()))


def choose_penalties(classes: Iterable[tuple[Floats, Floats]], folds: int, seed: int) -> tuple[float, float]:
    """Return the strengths in :data:`GRID` with the highest mean accuracy over the held-out jobs of all classes.

    A prediction counts as at most the walltime, as in use; accuracy is the paper's equation (5).
    """
    totals = dict.fromkeys(product(GRID, GRID), 0.0)
    draw = np.random.default_rng(seed)
    for x, y in classes:
        fold = draw.permutation(len(y)) % min(folds, len(y))
        for held_out in range(min(folds, len(y))):
            test, training = fold == held_out, fold != held_out
            for penalties in totals:
                line = fit_line(x[training], y[training], *penalties)
                seconds = np.maximum(line.intercept + x[test] @ np.array(line.coefficients), line.lower)
                seconds = np.maximum(np.minimum(seconds, x[test, SUPPLIED]), 1.0)
                totals[penalties] += float((np.minimum(seconds, y[test]) / np.maximum(seconds, y[test])).sum())
    return max(totals, key=totals.__getitem__)
