"""Errors of past forecasts of one group, and their quantiles, by which ranges are corrected.

A range between quantiles of few errors has too little coverage: the error of a new job exceeds the largest of n with
probability 1 / (n + 1), not 0.  So levels are adjusted to give the nominal coverage of new jobs (split conformal
prediction: Vovk, Gammerman & Shafer 2005; Lei et al. 2018), beyond the outermost error if necessary.

The first errors known are those of short waits.  Until :data:`MAX_ERRORS` errors of a group are known, waiting jobs
count as right-censored errors (Kaplan & Meier 1958).  Later long waits are among the known ones as often as they occur.
"""

from collections import Counter, deque
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.simulation.simulated_jobs import Floats

WAIT_OFFSET_S = 1800.0
"""Seconds added to a wait before taking its logarithm."""
MAX_ERRORS = 400
"""Maximum past errors kept for each group."""
MIN_JUDGED_JOBS = 20
"""Minimum jobs with known errors for a group to be used."""
MAX_OF_JOB = MAX_ERRORS // MIN_JUDGED_JOBS
"""Maximum forecasts of one job that count, so that the kept errors are of enough jobs."""
_OUTERMOST = 0.005
"""Distance of a level from 0 or 1 below which the quantile is extrapolated beyond the past errors."""
_BEYOND = 10.0
"""Slope of the extrapolation: log(wait + 30 min) per unit of level."""


class PastErrors:
    """Differences of log(wait + 30 min) between waits and forecast quantiles, one column per quantile.

    All forecasts of a job have a total weight of one, because their errors are correlated.
    """

    def __init__(self) -> None:
        self._judged: deque[Floats] = deque(maxlen=MAX_ERRORS)
        self._jobs: deque[Hashable] = deque(maxlen=MAX_ERRORS)
        self._waiting: dict[Hashable, list[tuple[float, Floats]]] = {}
        # Cached sample of the waiting jobs' forecasts with weights.
        self._chosen: list[tuple[float, Floats, float]] | None = []

    @property
    def jobs(self) -> int:
        return len(set(self._jobs))

    def judged(self, job: Hashable, forecast: Floats, actual: float) -> None:
        """Add a forecast, log(wait + 30 min) of its quantiles, of a job that waited ``actual`` seconds after it."""
        self._judged.append(np.log(actual + WAIT_OFFSET_S) - forecast)
        self._jobs.append(job)
        if len(self._judged) == MAX_ERRORS:
            self._waiting.clear()
            self._chosen = []

    def watch(self, job: Hashable, forecast: Floats, begin: float) -> None:
        if len(self._judged) == MAX_ERRORS:
            return
        self._chosen = None
        known = self._waiting.setdefault(job, [])
        known.append((begin, forecast))
        if len(known) > MAX_OF_JOB:
            del known[1::2]

    def forget(self, job: Hashable) -> None:
        if self._waiting.pop(job, None) is not None:
            self._chosen = None

    def quantiles(self, levels: Sequence[float], now: float) -> tuple[float, ...]:
        """Return the quantile of each column's errors at its level; at least one error must be known.

        :param levels: target shares of new jobs with smaller errors; outside [0, 1] if coverage was too low.
        :param now: epoch seconds, until which the waiting jobs have waited.
        """
        counts = Counter(self._jobs)
        # All errors of a job have a total weight of 1.
        errors, weights = np.array(self._judged), np.array([1 / counts[job] for job in self._jobs])
        ended = np.ones(len(errors), np.bool_)
        if waiting := [waiting_job for waiting_job in self._some_waiting() if waiting_job[0] < now]:
            begins, forecasts, shares = zip(*waiting, strict=True)
            least = np.log(now - np.array(begins) + WAIT_OFFSET_S)[:, None] - np.array(forecasts)
            errors, weights = np.concatenate((errors, least)), np.concatenate((weights, shares))
            ended = np.concatenate((ended, np.zeros(len(least), np.bool_)))
        of_new = (_of_new(level, len(counts)) for level in levels)
        return tuple(_quantile(column, ended, weights, level) for column, level in zip(errors.T, of_new, strict=True))

    def _some_waiting(self) -> list[tuple[float, Floats, float]]:
        """Return forecasts of the waiting jobs with their weights: at most :data:`MAX_ERRORS`, evenly spaced."""
        if self._chosen is None:
            weighted = [(begin, forecast, 1 / len(own)) for own in self._waiting.values() for begin, forecast in own]
            if (times := len(weighted) / MAX_ERRORS) > 1:
                some = (weighted[int(place * times)] for place in range(MAX_ERRORS))
                weighted = [(begin, forecast, times * weight) for begin, forecast, weight in some]
            self._chosen = weighted
        return self._chosen


def _of_new(level: float, jobs: int) -> float:
    """Return the level in a sample of that size for a coverage ``level`` of new jobs; 0: smallest error, 1: largest.

    >>> round(_of_new(0.95, 19), 6), round(_of_new(0.95, 39), 6), _of_new(0.5, 10)
    (1.0, 0.973684, 0.5)
    """
    return (level * (jobs + 1) - 1) / max(jobs - 1, 1)


def _quantile(errors: Floats, ended: NDArray[np.bool_], weights: Floats, level: float) -> float:
    """Return the quantile of errors, extrapolated for levels outside [0, 1].

    :param ended: whether an error is known; otherwise it is a lower bound.

    >>> errors, known = np.array([0.0, 1.0, 2.0]), np.array([True, True, True])
    >>> [round(_quantile(errors, known, np.array(weights), 0.5), 3) for weights in ((1, 1, 1), (2, 1, 1))]
    [1.0, 0.75]

    A censored error increases the quantile:

    >>> errors = np.array([0.0, 0.5, 1.0, 2.0])
    >>> [round(_quantile(errors, np.array([True, ended, True, True]), np.ones(4), 0.5), 3) for ended in (True, False)]
    [0.75, 1.167]
    """
    inside = min(max(level, _OUTERMOST), 1 - _OUTERMOST)
    order = np.argsort(errors, kind="stable")
    errors, ended, weights = errors[order], ended[order], weights[order]
    # Kaplan-Meier estimator: share of the jobs at risk whose wait ends at each error.
    at_risk = np.cumsum(weights[::-1])[::-1]
    below = 1 - np.cumprod(1 - np.where(ended, weights / at_risk, 0.0))
    known = np.flatnonzero(ended)
    shares, values = np.concatenate(((0.0,), below[:-1]))[known], errors[known]
    if ended[-1]:
        # Interpolate linearly, as numpy.quantile does with equal weights.
        shares = shares / (shares[-1] or 1.0)
    else:
        # The mass beyond the last known error is placed at the largest lower bound.
        shares, values = np.append(shares, below[-1]), np.append(values, errors[-1])
    return float(np.interp(inside, shares, values)) + _BEYOND * (level - inside)
