"""Calibrate forecasts by the errors of past ones: expected starts with small errors, ranges with their coverage.

Three forecasts of a wait are combined: the median of simulations with drawn runtimes, a simulation with walltimes,
and the median wait of like jobs (medians minimise the mean absolute error).  The walltimes matter because jobs
submitted later use processors that others release early, up to the starts promised by walltimes; a simulation without
later jobs does not show this.  The weights are learnt online for each class of similar expected waits.  Only the drawn
runtimes are used until enough forecasts were evaluated, and where the combination was worse.

Ranges are those of the simulations, shifted with the combination, and corrected as in conformalised quantile regression
(Romano, Patterson & Candes 2019), each quantile by the quantile of its own past errors in log(wait + 30 min).
A forecast is corrected by errors of forecasts with similar expected waits.  Forecasts at submission and of jobs that
have waited are separate, because their errors have opposite signs: a job that still waits was expected too early.  Jobs
expected to start at once are a separate class: a scheduling cycle and the start of a job take a few seconds, and their
ranges have no width before calibration.

:mod:`.past_errors` computes quantiles of few errors, and of errors of jobs that still wait.

Errors change over time, so the level of the quantile is adapted: up by LEVEL_STEP for each start above the quantile,
down for each one below, in the proportion that gives the nominal coverage in the long run for any errors (adaptive
conformal inference, Gibbs & Candes 2021).  A start is known to be above as soon as the quantile has passed.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softwalltime.measure.forecast.past_errors import MIN_JUDGED_JOBS, WAIT_OFFSET_S, PastErrors
from softwalltime.measure.forecast.start_times import LEVELS
from softwalltime.measure.simulation.simulated_jobs import Floats

RETAINED_SHARE = 0.995
"""Forgetting factor per forecast: half of the weight is left after 138."""
_MIN_DIVISOR = 1e-9


class OnlineWeights:
    """Weights of several forecasts, equal at first, learnt online: never much worse than the best forecast.

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
        """Update the weights by the differences between the mixture's error and each forecast's."""
        gains = gains * weight
        self.known += weight
        self._largest = np.maximum(RETAINED_SHARE * self._largest, np.abs(gains))
        self._squares = RETAINED_SHARE * self._squares + gains**2
        self._regrets = RETAINED_SHARE * self._regrets + gains - self._rates() * gains**2

    def _rates(self) -> Floats:
        rates: Floats = np.minimum(
            0.5 / np.maximum(self._largest, _MIN_DIVISOR),
            np.sqrt(self._doubt / np.maximum(self._squares, _MIN_DIVISOR)),
        )
        return rates


class Mixtures:
    """Weights of the parts of a forecast by class; the first part is used alone until others are known to be better.

    Of each class the parts are mixed by the slope of the error, so that the mixture may be better than each of them.
    Of each phase that mixture is weighed against the first part by their errors.
    """

    def __init__(self) -> None:
        self._mixed: defaultdict[Hashable, OnlineWeights] = defaultdict(lambda: OnlineWeights(3))
        self._trusted: defaultdict[Hashable, OnlineWeights] = defaultdict(lambda: OnlineWeights(2))

    def weights(self, group: Hashable, phase: Hashable) -> Floats:
        """Return the weights of the parts; while there is too little data, only the first one has weight."""
        weights, trusted = np.array((1.0, 0.0, 0.0)), self._trusted[phase]
        if trusted.known >= MIN_MIXED_JOBS:
            alone, mixed = trusted.values
            weights = alone * weights + mixed * self._mixed[group].values
        return weights

    def learn(self, group: Hashable, phase: Hashable, parts: Sequence[float], actual: float, weight: float) -> None:
        values, mixed, trusted = np.array(parts), self._mixed[group], self._trusted[phase]
        mixture = float(mixed.values @ values)
        errors = np.abs(np.array((values[0], mixture)) - actual)
        trusted.learn(float(trusted.values @ errors) - errors, weight)
        mixed.learn(np.sign(mixture - actual) * (mixture - values), weight)


CLASSES = (600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0)
"""Bounds of the classes of expected waits, in seconds."""
MIN_MIXED_JOBS = 40
"""Minimum number of evaluated jobs of a phase for combining forecasts."""
LATER, SHORTLY = 1800.0, 30.0
"""Maximum and minimum seconds of wait after which a forecast no longer counts as one at submission.

In between the limit is the expected remaining wait, which is some seconds on a server with short waits.
"""
AT_ONCE = -1
"""Class of jobs expected to start at once."""
Group = tuple[str, int]
"""Phase (submission, or later of jobs that have waited) and class of a forecast."""
LEVEL_STEP = 0.01
"""Step of a quantile's level per start, multiplied by the nominal share on the other side."""
_MAX_LEVEL_SHIFT = 0.2
"""Maximum shift of a level, for the group and for its phase each."""


class WaitForecast(NamedTuple):
    """Uncalibrated forecasts of a job's remaining wait, in seconds.

    ``median`` and ``ranges`` (the quantiles :data:`.start_times.LEVELS`) are of the runs with drawn runtimes,
    ``like_jobs`` is a median too.  ``waited`` is how long the job has waited already, ``delay`` when these waits begin,
    after the forecast.
    """

    median: float
    by_walltimes: float
    like_jobs: float
    ranges: tuple[float, ...]
    waited: float = 0.0
    delay: float = 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """Return all values in the order of the store."""
        return self.delay, self.waited, *self.parts, *self.ranges

    @classmethod
    def of(cls, values: Sequence[float]) -> "WaitForecast":
        """Create the forecast from these values.

        >>> WaitForecast.of((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)).ranges
        (5.0, 6.0, 7.0, 8.0)
        """
        delay, waited, median, by_walltimes, like_jobs, *ranges = values
        return cls(median, by_walltimes, like_jobs, tuple(ranges), waited, delay)

    @property
    def parts(self) -> tuple[float, float, float]:
        return self.median, self.by_walltimes, self.like_jobs


@dataclass(frozen=True, slots=True)
class Corrections:
    """Weights and quantile corrections of one group of forecasts.

    ``weights`` are of the simulation with walltimes and of like jobs.  ``shifts`` are differences of logarithms, a
    value for each quantile; empty where too little is known.  No range goes beyond ``most`` seconds.
    """

    weights: tuple[float, float] = (0.0, 0.0)
    shifts: tuple[float, ...] = ()
    most: float = math.inf

    def mixed(self, wait: WaitForecast) -> tuple[float, Floats]:
        """Return the expected wait, and the ranges shifted with it."""
        walltimes, like = self.weights
        expected = (1 - walltimes - like) * wait.median + walltimes * wait.by_walltimes + like * wait.like_jobs
        ranges = np.array(wait.ranges)
        return expected, (ranges + WAIT_OFFSET_S) * (expected + WAIT_OFFSET_S) / (
            wait.median + WAIT_OFFSET_S
        ) - WAIT_OFFSET_S

    def quantiles(self, wait: WaitForecast) -> Floats:
        """Return the corrected range ends, which need not include the expected wait."""
        _, ranges = self.mixed(wait)
        if self.shifts:
            corrected = np.exp(np.log(np.maximum(ranges, 0) + WAIT_OFFSET_S) + np.array(self.shifts)) - WAIT_OFFSET_S
            ranges = np.minimum(corrected, np.maximum(self.most, ranges))
        # Quantiles are corrected separately and may cross.
        return np.maximum.accumulate(np.maximum(ranges, 0.0))

    def corrected(self, wait: WaitForecast) -> Floats:
        """Return the five quantiles; the expected wait is limited to the 50% range."""
        expected, _ = self.mixed(wait)
        low, lower, upper, high = self.quantiles(wait).tolist()
        lower, upper = min(lower, expected), max(upper, expected)
        return np.array((min(low, lower), lower, expected, upper, max(high, upper)))


class Calibration:
    def __init__(self) -> None:
        self._mixtures = Mixtures()
        # By group, by phase, and for all.
        self._errors: defaultdict[Hashable, PastErrors] = defaultdict(PastErrors)
        self._moved: defaultdict[Hashable, list[float]] = defaultdict(lambda: [0.0] * len(LEVELS))
        self._longest = 0.0
        self._now = 0.0
        # Cache by group until the next change: thousands of jobs are corrected with the same state.
        self._known: dict[Group, Corrections] = {}

    def add(self, wait: WaitForecast, given: Corrections, actual: float, job: Hashable) -> None:
        """Learn the errors of a forecast of a job that started.

        :param given: the corrections used for the forecast.
        :param actual: actual wait after the forecast, in seconds.
        :param job: forecasts of one job count as one, as their errors depend on each other.
        """
        self._known.clear()
        self._longest = max(self._longest, actual)
        forecast = _logarithms(given, wait)
        for name in _taught(_group(wait)):
            self._errors[name].judged(job, forecast, actual)

    def weigh(self, wait: WaitForecast, actual: float, weight: float) -> None:
        """Update the weights by a forecast's errors; ``actual`` is the wait after it, in seconds."""
        self._known.clear()
        group = _group(wait)
        self._mixtures.learn(group, _trusted(group), wait.parts, actual, weight)

    def watch(self, wait: WaitForecast, given: Corrections, job: Hashable, begin: float) -> None:
        """Add a forecast of a waiting job: its wait since ``begin`` (epoch seconds) is a lower bound (censored)."""
        forecast = _logarithms(given, wait)
        for name in _taught(_group(wait)):
            self._errors[name].watch(job, forecast, begin)

    def forget(self, job: Hashable) -> None:
        for errors in self._errors.values():
            errors.forget(job)

    def advance(self, now: float) -> None:
        """Update the elapsed waits of the waiting jobs to ``now`` (epoch seconds)."""
        self._known.clear()
        self._now = max(self._now, now)

    def range_end(self, wait: WaitForecast, column: int, weight: float = 1.0, *, passed: bool) -> None:
        """Learn whether a job still waits at a range end of its forecast.

        Adapts the quantile's level of the group, and of its phase, which has more data.  Drivers call it when the range
        end has passed, because the start may be days away.
        """
        self._known.clear()
        amount = weight * (LEVELS[column] if passed else LEVELS[column] - 1)
        for name in _taught(_group(wait))[:2]:
            moved = self._moved[name]
            moved[column] = min(max(moved[column] + LEVEL_STEP * amount, -_MAX_LEVEL_SHIFT), _MAX_LEVEL_SHIFT)

    def corrections_for(self, wait: WaitForecast) -> Corrections:
        """Return the corrections of a forecast's group; with too little data, those of its phase, or of all.

        Ranges are limited to twice the longest known remaining wait.
        """
        group = _group(wait)
        if group not in self._known:
            _, walltimes, like = self._mixtures.weights(group, _trusted(group)).tolist()
            self._known[group] = Corrections((walltimes, like), self._shifts(group), 2 * self._longest or math.inf)
        return self._known[group]

    def _shifts(self, group: Group) -> tuple[float, ...]:
        """Return the correction of each quantile from its past errors; empty while there are few."""
        errors = next(
            (self._errors[name] for name in _chain(group) if self._errors[name].jobs >= MIN_JUDGED_JOBS), None
        )
        own, phase = self._moved[group], self._moved[group[0]]
        levels = [level + sum(moved) for level, *moved in zip(LEVELS, own, phase, strict=True)]
        return () if errors is None else errors.quantiles(levels, self._now)


def _logarithms(given: Corrections, wait: WaitForecast) -> Floats:
    """Return the quantiles of a forecast, shifted with the mixture, to which errors refer."""
    return np.log(np.maximum(given.mixed(wait)[1], 0) + WAIT_OFFSET_S)


def _chain(group: Group) -> tuple[Hashable, ...]:
    """Return the sets of errors for a group, in order of preference."""
    return group, group[0], "all"


def _taught(group: Group) -> tuple[Hashable, ...]:
    """Return the sets that learn from a group; the small errors of jobs that start at once stay separate."""
    return (group,) if group[1] == AT_ONCE else _chain(group)


def _trusted(group: Group) -> Hashable:
    """Return the phase whose errors decide between the group's mixture and the drawn runtimes alone."""
    return group if group[1] == AT_ONCE else group[0]


def later(wait: WaitForecast) -> bool:
    """Return whether the job has waited, that is, the forecast was not made at submission."""
    return wait.waited >= min(LATER, max(wait.median, SHORTLY))


def _group(wait: WaitForecast) -> Group:
    phase = "later" if later(wait) else "submission"
    return phase, AT_ONCE if wait.median <= 0 else bisect_right(CLASSES, wait.median)
