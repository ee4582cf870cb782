"""Forecasts corrected by the errors of past ones: expected starts of small error, ranges that hold what they promise.

Three forecasts of one wait are mixed: the median of the simulations with drawn runtimes, the simulation with walltimes,
and the wait of like jobs: medians, because the median of a distribution has the least mean absolute error.  Jobs that
come later fill the processors that others leave early, up to what is promised by walltimes, which no simulation without
them can show: so the walltimes have their weight.  The weights are learnt online for each class of forecasts that
expect about the same wait; the drawn runtimes stay alone until enough jobs were judged, and where the mixture was
worse.

Ranges are those of the simulations, moved with the mixture, and corrected as in conformalised quantile regression
(Romano, Patterson & Candes 2019), each quantile by the quantile of its own past errors in log(wait + 30 min).
A forecast is compared with those that expected a wait of about the same length, and those at the submission apart from
those of jobs that have waited, as errors have another sign: a job that waits still is one that was expected too early.
Jobs that are expected to start at once are a class of their own: a scheduling cycle and the start of a job take a few
seconds, and their ranges have no width before any correction.

Quantiles of few past errors, and of the errors of jobs that wait still, are in :mod:`.past_errors`.

Past errors are not those of the next month, so the level at which their quantile is taken is itself corrected: by
STEP up for each start above the quantile and down for each one below, in the proportion that holds the promised share
in the long run whatever the errors are (adaptive conformal inference, Gibbs & Candes 2021).  That a start is above is
known when the quantile has passed, not only when the job starts.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softwalltime.measure.forecast.past_errors import MIN_JUDGED_JOBS, WAIT_OFFSET_S, PastErrors
from softwalltime.measure.forecast.start_times import LEVELS
from softwalltime.measure.simulation.simulated_jobs import Floats

FORGOTTEN = 0.995
"""Share of what is known that is left after one more forecast: half of it after 138."""
_MIN_DIVISOR = 1e-9


class OnlineWeights:
    """Weights of some forecasts, equal at first, learnt online: never much worse than the best of them.

    Bernstein online aggregation (Wintenberger 2017, "Optimal learning with Bernstein online aggregation", Machine
    Learning 106): the weight of a forecast grows with its regret, the sum of how much smaller its error was than that
    of the mixture, less the squares of these differences, so that one that is better by luck gains little.

    ``known`` is the sum of the weights of the forecasts that were learnt.
    """

    def __init__(self, count: int) -> None:
        self.known = 0.0
        self._regrets = np.zeros(count)
        self._squares = np.zeros(count)
        self._largest = np.zeros(count)
        self._doubt = np.log(count)

    @property
    def values(self) -> Floats:
        rates = self._rates()
        exponents = np.log(rates) + rates * self._regrets
        weights: Floats = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        return weights

    def learn(self, gains: Floats, weight: float = 1.0) -> None:
        """Learn by how much the error of each was smaller than the mixture's."""
        gains = gains * weight
        self.known += weight
        self._largest = np.maximum(FORGOTTEN * self._largest, np.abs(gains))
        self._squares = FORGOTTEN * self._squares + gains**2
        self._regrets = FORGOTTEN * self._regrets + gains - self._rates() * gains**2

    def _rates(self) -> Floats:
        rates: Floats = np.minimum(
            0.5 / np.maximum(self._largest, _MIN_DIVISOR),
            np.sqrt(self._doubt / np.maximum(self._squares, _MIN_DIVISOR)),
        )
        return rates


class Mixtures:
    """Weights of several forecasts for each class, the first of which is trusted until others are known to be better.

    Of each class the forecasts are mixed by the slope of the error, so that the mixture may be better than each of
    them.  Of each phase that mixture is weighed against the first forecast by their errors.

    :param least: forecasts of a phase from which others than the first one have weight.
    """

    def __init__(self, count: int, least: int) -> None:
        self._count = count
        self._least = least
        self._mixed: dict[Hashable, OnlineWeights] = {}
        self._trusted: dict[Hashable, OnlineWeights] = {}

    def weights(self, group: Hashable, phase: Hashable) -> Floats:
        """The weights of the forecasts; all of it the first one's while little is known."""
        trusted = self._of(self._trusted, phase, 2)
        weights = np.zeros(self._count)
        weights[0] = 1.0
        if trusted.known < self._least:
            return weights
        alone, mixed = trusted.values
        weights *= alone
        weights += mixed * self._of(self._mixed, group, self._count).values
        return weights

    def learn(self, group: Hashable, phase: Hashable, forecasts: Sequence[float], actual: float, weight: float) -> None:
        values = np.array(forecasts)
        mixed, trusted = self._of(self._mixed, group, self._count), self._of(self._trusted, phase, 2)
        mixture = float(mixed.values @ values)
        errors = np.abs(np.array((values[0], mixture)) - actual)
        trusted.learn(float(trusted.values @ errors) - errors, weight)
        mixed.learn(np.sign(mixture - actual) * (mixture - values), weight)

    @staticmethod
    def _of(known: dict[Hashable, OnlineWeights], name: Hashable, count: int) -> OnlineWeights:
        return known.setdefault(name, OnlineWeights(count))


POINT = 2
"""Place of the expected wait among the five values of a forecast: two lower ends, it, two upper ends."""
CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
MIXED = 40
"""Judged jobs from which the forecasts of a phase are mixed."""
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

    @property
    def parts(self) -> tuple[float, float, float]:
        return self.median, self.by_walltimes, self.like_jobs


@dataclass(frozen=True, slots=True)
class Corrections:
    """Weights, and corrections of the quantiles, of one group of forecasts.

    ``weights`` are of the simulation with walltimes and of like jobs.  ``shifts`` are differences of logarithms, a
    value for each quantile; empty where too little is known.  No range goes beyond ``most`` seconds.
    """

    weights: tuple[float, float] = (0.0, 0.0)
    shifts: tuple[float, ...] = ()
    most: float = math.inf

    def mixed(self, wait: WaitForecast) -> tuple[float, Floats]:
        """Return the expected wait, and the ranges moved with it."""
        walltimes, like = self.weights
        expected = (1 - walltimes - like) * wait.median + walltimes * wait.by_walltimes + like * wait.like_jobs
        ranges = np.array(wait.ranges)
        return expected, (ranges + WAIT_OFFSET_S) * (expected + WAIT_OFFSET_S) / (
            wait.median + WAIT_OFFSET_S
        ) - WAIT_OFFSET_S

    def quantiles(self, wait: WaitForecast) -> Floats:
        """Return the ends of the ranges, corrected, whether or not the expected wait is within them."""
        _, ranges = self.mixed(wait)
        if self.shifts:
            corrected = np.exp(np.log(np.maximum(ranges, 0) + WAIT_OFFSET_S) + np.array(self.shifts)) - WAIT_OFFSET_S
            ranges = np.minimum(corrected, np.maximum(self.most, ranges))
        # Quantiles that were corrected apart from each other may cross.
        return np.maximum.accumulate(np.maximum(ranges, 0.0))

    def corrected(self, wait: WaitForecast) -> Floats:
        """Return the five values of a forecast; the expected wait is within the 50% range."""
        expected, _ = self.mixed(wait)
        low, lower, upper, high = self.quantiles(wait).tolist()
        lower, upper = min(lower, expected), max(upper, expected)
        return np.array((min(low, lower), lower, expected, upper, max(high, upper)))


class Calibration:
    """What past forecasts teach."""

    def __init__(self) -> None:
        # Of each group, of one phase (at the submission, later), and of all.
        names = [*range(GROUPS), "submission", "later", "all"]
        self._mixtures = Mixtures(3, MIXED)
        self._errors = {name: PastErrors() for name in names}
        self._moved = {name: [0.0] * len(LEVELS) for name in names}
        self._longest = 0.0
        self._now = 0.0
        # Of each group as far as it was asked for since the last change: thousands of jobs are corrected by one state.
        self._known: dict[int, Corrections] = {}

    def add(self, wait: WaitForecast, given: Corrections, actual: float, job: Hashable = None) -> None:
        """Learn the errors of a forecast of a job that started.

        :param given: the corrections with which its start was forecast.
        :param actual: how long it waited from the moment of the forecast on, in seconds.
        :param job: forecasts of one job count as one, as their errors depend on each other; ``None``: of another job.
        """
        self._known.clear()
        job = object() if job is None else job
        self._longest = max(self._longest, actual)
        forecast = _logarithms(given, wait)
        for name in _taught(_group(wait)):
            self._errors[name].judged(job, forecast, actual)

    def weigh(self, wait: WaitForecast, actual: float, weight: float) -> None:
        """Let the weights learn from a forecast.

        :param actual: how long the job waited from the moment of the forecast on, in seconds.
        """
        self._known.clear()
        group = _group(wait)
        self._mixtures.learn(group, _trusted(group), wait.parts, actual, weight)

    def watch(self, wait: WaitForecast, given: Corrections, job: Hashable, begin: float) -> None:
        """Note a forecast of a waiting job: the time that it has waited is a lower bound of its wait.

        :param begin: when the wait that is forecast begins, in epoch seconds.
        """
        forecast = _logarithms(given, wait)
        for name in _taught(_group(wait)):
            self._errors[name].watch(job, forecast, begin)

    def forget(self, job: Hashable) -> None:
        for errors in self._errors.values():
            errors.forget(job)

    def advance(self, now: float) -> None:
        """Let the jobs that wait have waited until ``now`` (epoch seconds)."""
        self._known.clear()
        self._now = max(self._now, now)

    def range_end(self, wait: WaitForecast, column: int, weight: float = 1.0, *, passed: bool) -> None:
        """Learn whether a job still waits at the end of a range that was given for it.

        The level of the quantile moves for the group, and for its phase, of which there is more to learn from.  Drivers
        call it when the end has passed, because the job's start may be days away.

        :param weight: share of a step by which the level moves.
        """
        self._known.clear()
        amount = weight * (LEVELS[column] if passed else LEVELS[column] - 1)
        for name in _taught(_group(wait))[:2]:
            moved = self._moved[name]
            moved[column] = min(max(moved[column] + STEP * amount, -_FURTHEST), _FURTHEST)

    def corrections_for(self, wait: WaitForecast) -> Corrections:
        """Return what is known now of the group of a forecast; of too little, it is corrected as its phase, or as all.

        No range goes beyond twice the longest remaining wait that is known.
        """
        group = _group(wait)
        if group not in self._known:
            _, walltimes, like = self._mixtures.weights(group, _trusted(group)).tolist()
            self._known[group] = Corrections((walltimes, like), self._shifts(group), 2 * self._longest or math.inf)
        return self._known[group]

    def _shifts(self, group: int) -> tuple[float, ...]:
        """The quantile of each quantile's past errors; empty while there are few."""
        name = next((name for name in _chain(group) if self._errors[name].jobs >= MIN_JUDGED_JOBS), None)
        if name is None:
            return ()
        own, phase = self._moved[group], self._moved[_phase(group)]
        levels = [level + sum(moved) for level, *moved in zip(LEVELS, own, phase, strict=True)]
        return self._errors[name].quantiles(levels, self._now)


def _logarithms(given: Corrections, wait: WaitForecast) -> Floats:
    """The quantiles of a forecast, moved with the mixture, as their errors are measured."""
    logarithms: Floats = np.log(np.maximum(given.mixed(wait)[1], 0) + WAIT_OFFSET_S)
    return logarithms


def _chain(group: int) -> tuple[int | str, ...]:
    """Whose errors correct a group, the first of which enough are known."""
    return group, _phase(group), "all"


def _taught(group: int) -> tuple[int | str, ...]:
    """Whom a group teaches: errors of jobs that start at once are so small that they say nothing of others."""
    return (group,) if group % OF_PHASE == AT_ONCE else _chain(group)


def _trusted(group: int) -> int | str:
    """Whose errors tell whether a group's mixture is better than the drawn runtimes alone."""
    return group if group % OF_PHASE == AT_ONCE else _phase(group)


def later(wait: WaitForecast) -> bool:
    """Whether it is the forecast of a job that has waited, not one at the submission."""
    return _group(wait) >= OF_PHASE


def _phase(group: int) -> str:
    return "later" if group >= OF_PHASE else "submission"


def _group(wait: WaitForecast) -> int:
    own = AT_ONCE if wait.median <= 0 else 1 + bisect_right(CLASSES, wait.median)
    return own + (OF_PHASE if wait.waited >= min(LATER, max(wait.median, SHORTLY)) else 0)
