"""How good predictions were.

For one scored job let t be its runtime, capped at its walltime, and p the soft walltime, or the walltime where there
is none.  A job killed at its walltime is thus not underestimated by a prediction equal to it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.replay.workload import Workload

BADLY = 1800
"""Seconds by which an underestimation must miss to be called bad (Tang, Desai, Buettner & Lan 2013)."""
WARM_UP = 0.01
"""Share of the scored jobs, the first ones submitted, that the second set of scores leaves out."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One predictor's figures over a set of scored jobs; ``None`` where there are no jobs.

    ``accuracy_mean`` and ``accuracy_median``: of the jobs' :func:`accuracies`.  ``underestimated``: share of jobs with
    p < t; ``badly_underestimated``: by more than 30 min (Tang's BE; his UE is the rest); ``over``: share with a soft
    walltime that held (OE); ``not_adjusted``: share without one (NA).  ``mean_absolute_error``: of p - t in seconds.
    ``extensions_mean``: how often the scheduler would have had to extend a soft walltime: a job still running after k
    soft walltimes is taken to need k + 1.
    """

    jobs: int
    accuracy_mean: float | None
    accuracy_median: float | None
    underestimated: float | None
    badly_underestimated: float | None
    over: float | None
    not_adjusted: float | None
    mean_absolute_error: float | None
    extensions_mean: float | None


def accuracies(p: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
    """min(p, t) / max(p, t) of each job, between 0 and 1 (Tsafrir, Etsion & Feitelson 2007; Tang et al. 2013, eq. 3).

    Both in seconds, t above 0.
    """
    found: NDArray[np.float64] = np.minimum(p, t) / np.maximum(p, t)
    return found


def score(workload: Workload, soft_walltimes: NDArray[np.int64], warm_up: float = 0.0) -> Scores:
    """Judge the soft walltimes (-1 for none) of a workload's jobs.

    :param warm_up: share of the scored jobs to leave out at the beginning, between 0 and 1.
    """
    chosen = np.flatnonzero(workload.scored)
    chosen = chosen[int(len(chosen) * warm_up) :]
    count = len(chosen)
    if not count:
        return Scores(0, *[None] * 8)
    walltime = workload.walltime[chosen]
    t = np.minimum(workload.runtime[chosen], walltime)
    soft = soft_walltimes[chosen]
    none = soft < 0
    p = np.where(none, walltime, soft)
    accuracy = accuracies(p, t)
    under = p < t
    return Scores(
        count,
        float(accuracy.mean()),
        float(np.median(accuracy)),
        float(under.mean()),
        float((t - p > BADLY).mean()),
        float((~none & ~under).mean()),
        float(none.mean()),
        float(np.abs(p - t).mean()),
        float(((t - 1) // p).mean()),
    )
