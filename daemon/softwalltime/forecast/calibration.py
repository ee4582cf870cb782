"""Forecasts corrected by the errors of past ones: expected starts of small error, ranges that hold what they promise.

Three forecasts of one wait are mixed: the median of the simulations with drawn runtimes, the simulation with walltimes,
and the median wait of like jobs: medians, because the median of a distribution has the least mean absolute error.  The
weights are those that would have made the least error of late, of forecasts that expected about the same wait; where
there are few of these, the other forecasts of the same phase count more.  The simulations stay alone where the gain is
not sure enough (:data:`CERTAIN`), as the best of many weights always seems to gain something.  Jobs that come later
fill the processors that others leave early, up to what is promised by walltimes, which no simulation without them can
show: so the walltimes have their weight.

Ranges are those of the simulations, moved with the mixture, and corrected as in conformalised quantile regression
(Romano, Patterson & Candes 2019), each quantile by the quantile of its own past errors in log(wait + 30 min).
A forecast is compared with those that expected a wait of about the same length, and those at the submission apart from
those of jobs that have waited, as errors have another sign: a job that waits still is one that was expected too early.

Past errors are not those of the next month, so the level at which their quantile is taken is itself corrected: by
STEP up for each start above the quantile and down for each one below, in the proportion that holds the promised share
in the long run whatever the errors are (adaptive conformal inference, Gibbs & Candes 2021).  That a start is above is
known when the quantile has passed, not only when the job starts.
"""

import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.forecast.start_times import LEVELS

Floats = NDArray[np.float64]

POINT = 2
"""Place of the expected wait among the five values of a forecast: two lower ends, it, two upper ends."""
SOON = 1800.0
"""Seconds that are added to a wait before its logarithm is taken."""
CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
KEPT = 400
"""Past errors that are kept of each class for its ranges."""
WEIGHED = 1000
"""Past errors that are kept of each class for its weights."""
LEAST = 40
"""Past errors from which a class is believed, and all classes together."""
PRIOR = 100
"""How many past errors of its own class those of the phase of a forecast count for, in the choice of weights."""
CERTAIN = {"submission": 0.5, "later": 2.0}
"""Standard errors by which weights must be better than the drawn runtimes alone.

More of them later, because several forecasts are of one job then.
"""
LATER = 1800.0
"""Seconds that a job has waited from which a forecast is no longer one at the submission."""
GROUPS = 2 * (len(CLASSES) + 1)
"""Groups of forecasts: the classes of those at the submission, then those of jobs that have waited."""
STEP = 0.01
"""How much one start changes the level of a quantile, times the share of the starts on the other side."""
_OUTERMOST = 0.005
"""A level nearer to 0 or 1 than this is beyond the past errors: the quantile moves on from the last of them."""
_BEYOND = 10.0
"""How far it moves in log(wait + 30 min) by a level of 1: by about a tenth for each start that is outside."""
_FURTHEST = 0.2
"""A level is moved by at most so much, for the group and again for its phase."""
WEIGHTS = tuple(
    (walltimes / 10, like / 10) for walltimes in range(11) for like in range(11) if walltimes + like <= 10
)  # fmt: skip
"""Weights to choose from: of the simulation with walltimes, and of like jobs; the rest is the drawn runtimes'."""
_WALLTIMES, _LIKE = (np.array(column) for column in zip(*WEIGHTS, strict=True))


class WaitForecast(NamedTuple):
    """What is forecast of one job's remaining wait before any correction, in seconds.

    ``median`` and ``ranges`` (the quantiles :data:`.start_times.LEVELS`) are of the runs with drawn runtimes,
    ``like_jobs`` is a median too.  ``waited`` is how long the job has waited already.
    """

    median: float
    by_walltimes: float
    like_jobs: float
    ranges: tuple[float, ...]
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Corrections:
    """Weights and corrections of the quantiles for each of the :data:`GROUPS` of forecasts.

    ``weights`` are of the simulation with walltimes and of like jobs.  ``shifts`` are differences of logarithms, a
    value for each quantile; empty where too little is known.  No range goes beyond ``most`` seconds.
    """

    weights: tuple[tuple[float, float], ...]
    shifts: tuple[tuple[float, ...], ...]
    most: float = math.inf

    def mixed(self, found: WaitForecast) -> tuple[float, Floats]:
        """Return the expected wait, and the ranges moved with it."""
        walltimes, like = self.weights[_group(found)]
        expected = (1 - walltimes - like) * found.median + walltimes * found.by_walltimes + like * found.like_jobs
        ranges = np.array(found.ranges)
        return expected, (ranges + SOON) * (expected + SOON) / (found.median + SOON) - SOON

    def quantiles(self, found: WaitForecast) -> Floats:
        """Return the ends of the ranges, corrected, whether or not the expected wait is within them."""
        _, ranges = self.mixed(found)
        if shift := self.shifts[_group(found)]:
            corrected = np.exp(np.log(np.maximum(ranges, 0) + SOON) + np.array(shift)) - SOON
            ranges = np.minimum(corrected, np.maximum(self.most, ranges))
        # Quantiles that were corrected apart from each other may cross.
        return np.maximum.accumulate(np.maximum(ranges, 0.0))

    def corrected(self, found: WaitForecast) -> Floats:
        """Return the five values of a forecast; the expected wait is within the 50% range."""
        expected, _ = self.mixed(found)
        low, lower, upper, high = self.quantiles(found).tolist()
        lower, upper = min(lower, expected), max(upper, expected)
        return np.array((min(low, lower), lower, expected, upper, max(high, upper)))


class Calibration:
    """What past forecasts teach."""

    def __init__(self) -> None:
        # Of each group, of one phase (at the submission, later), and of all.
        names = [*range(GROUPS), "submission", "later", "all"]
        self._absolute: dict[int | str, deque[Floats]] = {name: deque(maxlen=WEIGHED) for name in names}
        self._relative: dict[int | str, deque[Floats]] = {name: deque(maxlen=KEPT) for name in names}
        self._jobs: dict[int | str, deque[Hashable]] = {name: deque(maxlen=WEIGHED) for name in names}
        self._moved = {name: [0.0] * len(LEVELS) for name in names}
        self._longest = 0.0

    def add(
        self, found: WaitForecast, given: Corrections, actual: float, job: Hashable = None, weight: float = 1.0
    ) -> None:  # fmt: skip
        """Learn from a job that started.

        :param given: the corrections with which its start was forecast.
        :param actual: how long it waited from the moment of the forecast on, in seconds.
        :param job: forecasts of one job count as one, as their errors depend on each other; ``None``: of another job.
        :param weight: share of a step by which this forecast moves the levels.
        """
        job = object() if job is None else job
        mixed = (1 - _WALLTIMES - _LIKE) * found.median + _WALLTIMES * found.by_walltimes + _LIKE * found.like_jobs
        absolute = np.abs(mixed - actual)
        relative = np.log(actual + SOON) - np.log(np.maximum(given.mixed(found)[1], 0) + SOON)
        group = _group(found)
        self._longest = max(self._longest, actual)
        for name in _chain(group):
            self._absolute[name].append(absolute)
            self._relative[name].append(relative)
            self._jobs[name].append(job)
        if given.shifts[group]:
            for column, end in enumerate(given.quantiles(found).tolist()):
                if actual <= end:
                    self._change(group, column, weight * (LEVELS[column] - 1))

    def passed(self, found: WaitForecast, column: int, weight: float = 1.0) -> None:
        """Learn that a job still waits at the end of a range that was given for it.

        Drivers call it at that moment, for each quantile that :meth:`Corrections.quantiles` gave, because the job's
        start may be days away.
        """
        self._change(_group(found), column, weight * LEVELS[column])

    def _change(self, group: int, column: int, amount: float) -> None:
        """Move the level of a quantile, for the group and for its phase, of which there is more to learn from."""
        for name in _chain(group)[:2]:
            moved = self._moved[name]
            moved[column] = min(max(moved[column] + STEP * amount, -_FURTHEST), _FURTHEST)

    def corrections(self) -> Corrections:
        """Return what is known now; a group of which too little is known is corrected as its phase, or as all."""
        groups = range(GROUPS)
        return Corrections(tuple(map(self._weights, groups)), tuple(map(self._shifts, groups)), self._most)

    def corrections_for(self, found: WaitForecast) -> Corrections:
        """Return what is known now of the group of one forecast; the others are left as they are."""
        group = _group(found)
        weights = [(0.0, 0.0)] * GROUPS
        shifts: list[tuple[float, ...]] = [()] * GROUPS
        weights[group], shifts[group] = self._weights(group), self._shifts(group)
        return Corrections(tuple(weights), tuple(shifts), self._most)

    @property
    def _most(self) -> float:
        """Twice the longest remaining wait that is known; no limit before there is one."""
        return 2 * self._longest or math.inf

    def _weights(self, group: int) -> tuple[float, float]:
        """The weights with the least mean error; the median of the drawn runs while there are few errors."""
        name = self._enough(_phase(group), "all")
        if name is None:
            return 0.0, 0.0
        past, weights = np.array(self._absolute[name]), _by_job(self._jobs[name])
        errors = np.average(past, axis=0, weights=weights)
        own, of_own = np.array(self._absolute[group]).reshape(-1, len(WEIGHTS)), _by_job(self._jobs[group])
        if len(own):
            # Short waits have small errors: those of the phase are brought to their size.
            mean = np.average(own, axis=0, weights=of_own)
            scale = mean.mean() / max(float(errors.mean()), 1.0)
            jobs = float(of_own.sum())
            errors = (jobs * mean + PRIOR * scale * errors) / (jobs + PRIOR)
            past, weights = (own, of_own) if round(jobs) >= LEAST else (past, weights)
        best = int(errors.argmin())
        gains = past[:, 0] - past[:, best]
        spread = math.sqrt(float(np.average((gains - np.average(gains, weights=weights)) ** 2, weights=weights)))
        certain = errors[0] - errors[best] >= CERTAIN[_phase(group)] * spread / math.sqrt(float(weights.sum()))
        return WEIGHTS[best] if certain else WEIGHTS[0]

    def _shifts(self, group: int) -> tuple[float, ...]:
        """The quantile of each quantile's past errors; empty while there are few."""
        name = self._enough(*_chain(group))
        if name is None:
            return ()
        past, own, phase = np.array(self._relative[name]), self._moved[group], self._moved[_phase(group)]
        weights = _by_job(list(self._jobs[name])[-len(past) :])
        return tuple(
            _quantile(past[:, column], level + own[column] + phase[column], weights)
            for column, level in enumerate(LEVELS)
        )

    def _enough(self, *names: int | str) -> int | str | None:
        """Whose errors to take: the first of these that are of enough jobs; ``None``: none are."""
        return next((name for name in names if len(set(self._jobs[name])) >= LEAST), None)


def _by_job(jobs: Iterable[Hashable]) -> Floats:
    """A weight for each error, 1 in sum for each job."""
    names = list(jobs)
    counts = Counter(names)
    return np.array([1 / counts[name] for name in names])


def _quantile(errors: Floats, level: float, weights: Floats) -> float:
    """The quantile of past errors; beyond the outermost ones for a level that is no share.

    >>> errors = np.array([0.0, 1.0, 2.0])
    >>> _quantile(errors, 0.5, np.array([1.0, 1.0, 1.0])), _quantile(errors, 0.5, np.array([2.0, 1.0, 1.0]))
    (1.0, 0.75)
    """
    inside = min(max(level, _OUTERMOST), 1 - _OUTERMOST)
    if weights.min() == weights.max():
        found = float(np.quantile(errors, inside))
    else:
        # Linear between the errors, as numpy's is with equal weights.
        order = np.argsort(errors)
        below = np.cumsum(weights[order]) - weights[order]
        found = float(np.interp(inside * below[-1], below, errors[order]))
    return found + _BEYOND * (level - inside)


def _chain(group: int) -> tuple[int | str, ...]:
    return group, _phase(group), "all"


def _phase(group: int) -> str:
    return "submission" if group < GROUPS // 2 else "later"


def _group(found: WaitForecast) -> int:
    return bisect_right(CLASSES, found.median) + (GROUPS // 2 if found.waited >= LATER else 0)
