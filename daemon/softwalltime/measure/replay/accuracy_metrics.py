"""Compute the metrics of predictions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.replay.workload import Workload, in_period

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
    soft, walltime = soft_walltimes[chosen], workload.walltime[chosen]
    adjusted = soft >= 0
    # A job killed at its walltime is not underestimated by a prediction equal to it.
    p, t = np.where(adjusted, soft, walltime), np.minimum(workload.runtime[chosen], walltime)
    accuracy, under = accuracies(p, t), p < t
    means = (under, t - p > BAD_UNDERESTIMATE_S, adjusted & ~under, ~adjusted, np.abs(p - t), (t - 1) // p)
    return Scores(
        len(chosen), float(accuracy.mean()), float(np.median(accuracy)), *(float(values.mean()) for values in means)
    )
