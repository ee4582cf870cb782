"""Compute the metrics of predictions."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.replay.workload import SCORED, Recorded, Workload, in_period

WEEK_S = 7 * 86400
BAD_UNDERESTIMATE_S = 1800
"""Minimum error of a bad underestimate in seconds (Tang, Desai, Buettner & Lan 2013)."""
SUMS = 6
"""Figures of each job that are summed."""
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


def weekly_interval(values: NDArray[np.float64], submitted: NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95% interval of a mean over jobs; the jobs submitted in a week are one sample."""
    _, week = np.unique(submitted // WEEK_S, return_inverse=True)
    mean = float(values.mean())
    of_week = np.bincount(week, values - mean)
    half = 1.96 * math.sqrt(float((of_week**2).sum()) * len(of_week) / max(len(of_week) - 1, 1)) / len(values)
    return mean - half, mean + half


def score(
    workload: Recorded, soft_walltimes: NDArray[np.int64], warm_up: float = 0.0, since: int | None = None,
    until: int | None = None,
) -> Scores:  # fmt: skip
    """Compute the scores of the soft walltimes (-1 for none) of a workload's scored jobs.

    It needs 8 bytes of memory for each job, because the median is exact.

    :param warm_up: share of the jobs to exclude at the beginning, between 0 and 1.
    :param since: only jobs submitted from this time on (epoch seconds).
    :param until: only jobs submitted before.
    """
    begin, end = scored_range(workload, warm_up, since, until)
    accuracy, sums, passed, filled = np.empty(end - begin), np.zeros(SUMS, np.int64), 0, 0
    for part in workload.parts(SCORED):
        which = np.flatnonzero(part.scored)
        passed, which = passed + len(which), which[max(begin - passed, 0) : max(end - passed, 0)]
        here, of_part = job_figures(part, which, soft_walltimes[part.numbers[which]])
        accuracy[filled : filled + len(which)] = here
        filled += len(which)
        sums += of_part.sum(axis=1)
    return scores_of(accuracy, sums)


def scored_range(workload: Recorded, warm_up: float, since: int | None, until: int | None) -> tuple[int, int]:
    """Return which of the scored jobs in order of submission :func:`score` takes: the first, and the one after them."""
    begin = end = 0
    for part in workload.parts(SCORED):
        end += int(np.count_nonzero(part.scored & in_period(part.submitted, None, until)))
        begin += 0 if since is None else int(np.count_nonzero(part.scored & in_period(part.submitted, None, since)))
    begin = min(begin, end)
    return begin + int((end - begin) * warm_up), end


def job_figures(
    part: Workload, which: NDArray[np.int64], soft: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the accuracy of each of these scored jobs with these soft walltimes, and a row for each of the sums."""
    walltime = part.walltime[which]
    adjusted = soft >= 0
    # A job killed at its walltime is not underestimated by a prediction equal to it.
    p, t = np.where(adjusted, soft, walltime), np.minimum(part.runtime[which], walltime)
    under = p < t
    late, extensions = t - p > BAD_UNDERESTIMATE_S, np.maximum(t - 1, 0) // p
    return accuracies(p, t), np.stack([under, late, adjusted & ~under, ~adjusted, np.abs(p - t), extensions])


def scores_of(accuracy: NDArray[np.float64], sums: NDArray[np.int64]) -> Scores:
    """Return the scores of jobs with these accuracies, which are reordered, and sums."""
    jobs = len(accuracy)
    if not jobs:
        return Scores(0, *[None] * 8)
    mean = float(accuracy.mean())
    return Scores(
        jobs, mean, float(np.median(accuracy, overwrite_input=True)), *(total / jobs for total in sums.tolist())
    )
