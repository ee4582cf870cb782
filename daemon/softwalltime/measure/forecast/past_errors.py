"""Errors of past forecasts of one kind, and their quantiles, from which ranges are corrected.

A range between quantiles of few errors would hold too little: the error of a new job is above the largest of n with
probability 1 / (n + 1), not 0.  So quantiles are taken at the level that holds the promised share of new jobs (split
conformal prediction: Vovk, Gammerman & Shafer 2005; Lei et al. 2018), beyond the outermost error if need be.

The jobs that were judged first are those that waited least.  Until :data:`MAX_ERRORS` errors of a kind are known, the
jobs that wait still count as well, with what is known of their errors: they are at least so large (Kaplan & Meier
1958).  Later long waits are among the judged ones as often as they occur.
"""

from collections import Counter, deque
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.simulation.simulated_jobs import Floats

WAIT_OFFSET_S = 1800.0
"""Seconds that are added to a wait before its logarithm is taken."""
MAX_ERRORS = 400
"""Past errors that are kept of each kind."""
MIN_JUDGED_JOBS = 20
"""Judged jobs from which a kind's errors are used."""
OF_JOB = MAX_ERRORS // MIN_JUDGED_JOBS
"""Forecasts of one job that count, so that the errors that are kept are of enough jobs: one that waited for a month has
700."""
_OUTERMOST = 0.005
"""A level nearer to 0 or 1 than this is beyond the past errors: the quantile moves on from the last of them."""
_BEYOND = 10.0
"""How far it moves in log(wait + 30 min) by a level of 1: by about a tenth for each start that is outside."""


class PastErrors:
    """Differences of log(wait + 30 min) between waits and the quantiles that were forecast, a column for each.

    All forecasts of a job together weigh as much as one, because their errors depend on each other.
    """

    def __init__(self) -> None:
        self._judged: deque[Floats] = deque(maxlen=MAX_ERRORS)
        self._jobs: deque[Hashable] = deque(maxlen=MAX_ERRORS)
        self._waiting: dict[Hashable, list[tuple[float, Floats]]] = {}
        # Some of them, with their weights, while no other comes or goes: thousands of errors are learnt at once.
        self._chosen: list[tuple[float, Floats, float]] | None = []

    @property
    def jobs(self) -> int:
        return len(set(self._jobs))

    def judged(self, job: Hashable, forecast: Floats, actual: float) -> None:
        """Take in what was forecast of a job that started.

        :param forecast: log(wait + 30 min) of the quantiles.
        :param actual: how long it waited from the forecast on, in seconds.
        """
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
        if len(known) > OF_JOB:
            del known[1::2]

    def forget(self, job: Hashable) -> None:
        if self._waiting.pop(job, None) is not None:
            self._chosen = None

    def quantiles(self, levels: Sequence[float], now: float) -> tuple[float, ...]:
        """Return the quantile of each column's errors at its level; at least one error must be known.

        :param levels: shares of new jobs whose error is to be below; beyond 0 and 1 if starts were outside too often.
        :param now: epoch seconds, until which the waiting jobs have waited.
        """
        counts = Counter(self._jobs)
        # All errors of a job together weigh 1.
        errors, weights = np.array(self._judged), np.array([1 / counts[job] for job in self._jobs])
        ended = np.ones(len(errors), np.bool_)
        if waiting := [waiting_job for waiting_job in self._some_waiting() if waiting_job[0] < now]:
            begins, forecasts, shares = zip(*waiting, strict=True)
            least = np.log(now - np.array(begins) + WAIT_OFFSET_S)[:, None] - np.array(forecasts)
            errors, weights = np.concatenate((errors, least)), np.concatenate((weights, shares))
            ended = np.concatenate((ended, np.zeros(len(least), np.bool_)))
        jobs = self.jobs
        return tuple(
            _quantile(errors[:, column], ended, weights, _of_new(level, jobs)) for column, level in enumerate(levels)
        )

    def _some_waiting(self) -> list[tuple[float, Floats, float]]:
        """Forecasts of the waiting jobs with their weights: at most :data:`MAX_ERRORS` of them, chosen evenly."""
        if self._chosen is None:
            weighted = [(begin, forecast, 1 / len(own)) for own in self._waiting.values() for begin, forecast in own]
            if (times := len(weighted) / MAX_ERRORS) > 1:
                weighted = [weighted[int(place * times)] for place in range(MAX_ERRORS)]
                weighted = [(begin, forecast, times * weight) for begin, forecast, weight in weighted]
            self._chosen = weighted
        return self._chosen


def _of_new(level: float, jobs: int) -> float:
    """The level among so many jobs below which a new one is with probability ``level``: 0 is the least, 1 the largest.

    >>> round(_of_new(0.95, 19), 6), round(_of_new(0.95, 39), 6), _of_new(0.5, 10)
    (1.0, 0.973684, 0.5)
    """
    return (level * (jobs + 1) - 1) / max(jobs - 1, 1)


def _quantile(errors: Floats, ended: NDArray[np.bool_], weights: Floats, level: float) -> float:
    """The quantile of errors; beyond the outermost ones for a level that is no share.

    :param ended: whether an error is known; otherwise it is at least so large.

    >>> errors, known = np.array([0.0, 1.0, 2.0]), np.array([True, True, True])
    >>> [round(_quantile(errors, known, np.array(weights), 0.5), 3) for weights in ((1, 1, 1), (2, 1, 1))]
    [1.0, 0.75]

    That one of four jobs waits still moves the quantile up:

    >>> errors = np.array([0.0, 0.5, 1.0, 2.0])
    >>> [round(_quantile(errors, np.array([True, ended, True, True]), np.ones(4), 0.5), 3) for ended in (True, False)]
    [0.75, 1.167]
    """
    inside = min(max(level, _OUTERMOST), 1 - _OUTERMOST)
    order = np.argsort(errors, kind="stable")
    errors, ended, weights = errors[order], ended[order], weights[order]
    # The share of the jobs at risk whose wait ends with an error; the last one alone is at risk of its own.
    at_risk = np.cumsum(weights[::-1])[::-1]
    below = 1 - np.cumprod(1 - np.where(ended, weights / at_risk, 0.0))
    known = np.flatnonzero(ended)
    shares, values = np.concatenate(((0.0,), below[:-1]))[known], errors[known]
    if ended[-1]:
        # Linear between the errors, as numpy's quantile is with equal weights.
        shares = shares / (shares[-1] or 1.0)
    else:
        # What lies beyond the last known error is at least where the last job waits still.
        shares, values = np.append(shares, below[-1]), np.append(values, errors[-1])
    return float(np.interp(inside, shares, values)) + _BEYOND * (level - inside)
