"""Forecasts corrected by the errors of past ones: expected starts of small error, ranges that hold what they promise.

Three forecasts of one wait are mixed: the median of the simulations with drawn runtimes, the simulation with walltimes,
and the wait of like jobs: medians, because the median of a distribution has the least mean absolute error.  Jobs that
come later fill the processors that others leave early, up to what is promised by walltimes, which no simulation without
them can show: so the walltimes have their weight.  The weights are learnt online (:mod:`.weighting`) for each class of
forecasts that expect about the same wait; the drawn runtimes stay alone until enough jobs were judged, and where the
mixture was worse.

Ranges are those of the simulations, moved with the mixture, and corrected as in conformalised quantile regression
(Romano, Patterson & Candes 2019), each quantile by the quantile of its own past errors in log(wait + 30 min).
A forecast is compared with those that expected a wait of about the same length, and those at the submission apart from
those of jobs that have waited, as errors have another sign: a job that waits still is one that was expected too early.
Jobs that are expected to start at once are a class of their own: a scheduling cycle and the start of a job take a few
seconds, and their ranges have no width before any correction.

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
from softwalltime.forecast.weighting import Mixtures

Floats = NDArray[np.float64]

POINT = 2
"""Place of the expected wait among the five values of a forecast: two lower ends, it, two upper ends."""
SOON = 1800.0
"""Seconds that are added to a wait before its logarithm is taken."""
CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
KEPT = 400
"""Past errors that are kept of each class for its ranges."""
LEAST, MIXED = 20, 40
"""Judged jobs from which the ranges of a class are corrected, and from which the forecasts of a phase are mixed."""
LATER, SHORTLY = 1800.0, 30.0
"""Seconds that a job has waited from which a forecast is no longer one at the submission, at most and at least.

Between them a job has waited long that has waited as long as it is still expected to: on a server of short waits that
is a matter of seconds.
"""
AT_ONCE = 0
"""The first group of each phase: jobs that are expected to start at once, which is a matter of a few seconds."""
OF_PHASE = len(CLASSES) + 2
GROUPS = 2 * OF_PHASE
"""Groups of forecasts: those at the submission, at once and by class, then those of jobs that have waited."""
STEP = 0.01
"""How much one start changes the level of a quantile, times the share of the starts on the other side."""
_OUTERMOST = 0.005
"""A level nearer to 0 or 1 than this is beyond the past errors: the quantile moves on from the last of them."""
_BEYOND = 10.0
"""How far it moves in log(wait + 30 min) by a level of 1: by about a tenth for each start that is outside."""
_FURTHEST = 0.2
"""A level is moved by at most so much, for the group and again for its phase."""


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

    def of_waiting(self) -> "Corrections":
        """Return these without those of jobs that start at once, where they were measured on jobs that waited only."""
        groups = range(GROUPS)
        weights = tuple((0.0, 0.0) if group % OF_PHASE == AT_ONCE else self.weights[group] for group in groups)
        shifts = tuple(() if group % OF_PHASE == AT_ONCE else self.shifts[group] for group in groups)
        return Corrections(weights, shifts, self.most)

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
        self._mixtures = Mixtures(3, MIXED)
        self._relative: dict[int | str, deque[Floats]] = {name: deque(maxlen=KEPT) for name in names}
        self._jobs: dict[int | str, deque[Hashable]] = {name: deque(maxlen=KEPT) for name in names}
        self._moved = {name: [0.0] * len(LEVELS) for name in names}
        self._longest = 0.0
        # Of each group as far as it was asked for since the last change: thousands of jobs are corrected by one state.
        self._known: dict[int, Corrections] = {}

    def add(
        self, found: WaitForecast, given: Corrections, actual: float, job: Hashable = None, weight: float = 1.0
    ) -> None:  # fmt: skip
        """Learn from a job that started.

        :param given: the corrections with which its start was forecast.
        :param actual: how long it waited from the moment of the forecast on, in seconds.
        :param job: forecasts of one job count as one, as their errors depend on each other; ``None``: of another job.
        :param weight: what the forecast counts as in the weights.
        """
        self._known.clear()
        job = object() if job is None else job
        relative = np.log(actual + SOON) - np.log(np.maximum(given.mixed(found)[1], 0) + SOON)
        group = _group(found)
        self._longest = max(self._longest, actual)
        self._mixtures.learn(
            group, _trusted(group), (found.median, found.by_walltimes, found.like_jobs), actual, weight
        )
        for name in _taught(group):
            self._relative[name].append(relative)
            self._jobs[name].append(job)

    def held(self, found: WaitForecast, column: int, weight: float = 1.0) -> None:
        """Learn that a job started before the end of a range that was given for it.

        :param weight: share of a step by which the level moves.
        """
        self._change(_group(found), column, weight * (LEVELS[column] - 1))

    def passed(self, found: WaitForecast, column: int, weight: float = 1.0) -> None:
        """Learn that a job still waits at the end of a range that was given for it.

        Drivers call it at that moment, because the job's start may be days away.
        """
        self._change(_group(found), column, weight * LEVELS[column])

    def _change(self, group: int, column: int, amount: float) -> None:
        """Move the level of a quantile, for the group and for its phase, of which there is more to learn from."""
        self._known.clear()
        for name in _taught(group)[:2]:
            moved = self._moved[name]
            moved[column] = min(max(moved[column] + STEP * amount, -_FURTHEST), _FURTHEST)

    def corrections(self) -> Corrections:
        """Return what is known now; a group of which too little is known is corrected as its phase, or as all."""
        groups = range(GROUPS)
        return Corrections(tuple(map(self._weights, groups)), tuple(map(self._shifts, groups)), self._most)

    def corrections_for(self, found: WaitForecast) -> Corrections:
        """Return what is known now of the group of one forecast; the others are left as they are."""
        group = _group(found)
        if (known := self._known.get(group)) is not None:
            return known
        weights = [(0.0, 0.0)] * GROUPS
        shifts: list[tuple[float, ...]] = [()] * GROUPS
        weights[group], shifts[group] = self._weights(group), self._shifts(group)
        self._known[group] = Corrections(tuple(weights), tuple(shifts), self._most)
        return self._known[group]

    @property
    def _most(self) -> float:
        """Twice the longest remaining wait that is known; no limit before there is one."""
        return 2 * self._longest or math.inf

    def _weights(self, group: int) -> tuple[float, float]:
        """The weights of the simulation with walltimes and of like jobs."""
        _, walltimes, like = self._mixtures.weights(group, _trusted(group)).tolist()
        return walltimes, like

    def _shifts(self, group: int) -> tuple[float, ...]:
        """The quantile of each quantile's past errors; empty while there are few."""
        name = self._enough(*_chain(group))
        if name is None:
            return ()
        past, own, phase = np.array(self._relative[name]), self._moved[group], self._moved[_phase(group)]
        weights = _by_job(self._jobs[name])
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
    """Whose errors correct a group, the first of which enough are known."""
    return group, _phase(group), "all"


def _taught(group: int) -> tuple[int | str, ...]:
    """Whom a group teaches: errors of jobs that start at once are so small that they say nothing of others."""
    return (group,) if group % OF_PHASE == AT_ONCE else _chain(group)


def _trusted(group: int) -> int | str:
    """Whose errors tell whether a group's mixture is better than the drawn runtimes alone."""
    return group if group % OF_PHASE == AT_ONCE else _phase(group)


def _phase(group: int) -> str:
    return "submission" if group < OF_PHASE else "later"


def _group(found: WaitForecast) -> int:
    own = AT_ONCE if found.median <= 0 else 1 + bisect_right(CLASSES, found.median)
    return own + (OF_PHASE if found.waited >= min(LATER, max(found.median, SHORTLY)) else 0)
