"""Compute the metrics of predictions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.replay.workload import Workload, in_period

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BAD_UNDERESTIMATE_S = 1800
"""Minimum error of a bad underestimate in seconds (Tang, Desai, Buettner & Lan 2013)."""
WARM_UP_SHARE = 0.01
"""Share of the scored jobs, the first ones submitted, that the second set of scores excludes."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One predictor's figures over a set of scored jobs; ``None`` where there are no jobs.

    For one job, p is its soft walltime, or its walltime without one, and t its runtime, at most its walltime.
    """

    jobs: int
    """Number of jobs."""
    accuracy_mean: float | None
    """Mean of min(p, t) / max(p, t)."""
    accuracy_median: float | None
    """Median of min(p, t) / max(p, t)."""
    underestimated: float | None
    """Share of jobs with p < t."""
    badly_underestimated: float | None
    """Share of jobs with p < t by more than 30 min (Tang's BE; his UE is the rest)."""
    over: float | None
    """Share of jobs with a soft walltime that was long enough (Tang's OE)."""
    not_adjusted: float | None
    """Share of jobs without a soft walltime (Tang's NA)."""
    mean_absolute_error: float | None
    """Mean of the absolute value of p - t, in seconds."""
    extensions_mean: float | None
    """Extensions of a soft walltime per job: a job still running after k soft walltimes is extended to k + 1."""


def accuracies(p: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return min(p, t) / max(p, t) of each job, from 0 to 1 (Tsafrir, Etsion & Feitelson 2007; Tang 2013, eq. 3).

    Both in seconds, t above 0.
    """
    return np.minimum(p, t) / np.maximum(p, t)


@dataclass(frozen=True, slots=True)
class Errors:
    """Predictions and runtimes of jobs, one entry per job; all metrics are computed from them.

    ``p``: soft walltime, or the walltime where there is none (``adjusted`` is false).  ``t``: runtime, at most the
    walltime, so a job killed at its walltime is not underestimated by a prediction equal to it.
    """

    adjusted: Flags
    p: Integers
    t: Integers

    @classmethod
    def of(cls, soft_walltimes: Integers, walltimes: Integers, runtimes: Integers) -> "Errors":
        """Compare soft walltimes (-1 for none) with runtimes, which are capped at the walltimes; all in seconds."""
        adjusted = soft_walltimes >= 0
        return cls(adjusted, np.where(adjusted, soft_walltimes, walltimes), np.minimum(runtimes, walltimes))

    def __len__(self) -> int:
        return len(self.p)

    @property
    def error(self) -> Integers:
        return self.p - self.t

    @property
    def accuracy(self) -> Floats:
        return accuracies(self.p, self.t)

    @property
    def under(self) -> Flags:
        return self.p < self.t

    @property
    def badly(self) -> Flags:
        return self.t - self.p > BAD_UNDERESTIMATE_S

    @property
    def over(self) -> Flags:
        return self.adjusted & ~self.under

    @property
    def extensions(self) -> Integers:
        return (self.t - 1) // self.p


def score(
    workload: Workload, soft_walltimes: NDArray[np.int64], warm_up: float = 0.0, since: int | None = None,
    until: int | None = None,
) -> Scores:  # fmt: skip
    """Compute the scores of the soft walltimes (-1 for none) of a workload's scored jobs.

    :param warm_up: share of the jobs to exclude at the beginning, between 0 and 1.
    :param since: only jobs submitted from this time on (epoch seconds).
    :param until: only jobs submitted before.
    """
    chosen = np.flatnonzero(workload.scored & in_period(workload.submitted, since, until))
    chosen = chosen[int(len(chosen) * warm_up) :]
    if not len(chosen):
        return Scores(0, *[None] * 8)
    errors = Errors.of(soft_walltimes[chosen], workload.walltime[chosen], workload.runtime[chosen])
    accuracy = errors.accuracy
    means = (errors.under, errors.badly, errors.over, ~errors.adjusted, np.abs(errors.error), errors.extensions)
    return Scores(
        len(chosen), float(accuracy.mean()), float(np.median(accuracy)), *(float(values.mean()) for values in means)
    )
