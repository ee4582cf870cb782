"""Forecasts corrected by earlier ones of the same source that were judged.

The daemon and ``replay-starts`` correct in this one way, so that what is measured is what is published.  Each forecast
that is kept holds what was forecast before any correction.  When its job has started, it teaches
:class:`.calibration.Calibration`, in the order of the starts, so that a restarted daemon that reads the last of them
corrects as before.  Several forecasts of one job count as one.  That a job still waits at the end of a range is learnt
at that moment, and so is which part of a forecast of a job that has waited was the best, once the job has outlasted all
of them: jobs that wait for weeks would teach weeks later.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

from softwalltime.measure.forecast.calibration import Calibration, Corrections, WaitForecast, later
from softwalltime.measure.forecast.past_errors import OF_JOB
from softwalltime.measure.forecast.start_times import LEVELS

REMEMBERED = 3000
"""Judged forecasts from which a new process learns, and at most at once: about a millisecond each."""
FORGOTTEN = 7 * 86400
"""Seconds after which the start of a job that waits no more is not expected to be stored: it was deleted."""
_OUTLASTED = len(LEVELS)
"""In place of the number of a quantile: all parts of the forecast have passed."""


@dataclass(frozen=True, slots=True)
class RawForecast:
    """What was forecast before any correction, and how long after the forecast its waits begin, in seconds."""

    delay: float
    wait: WaitForecast

    @property
    def values(self) -> tuple[float, ...]:
        """All values, as the store has them."""
        wait = self.wait
        return self.delay, wait.waited, wait.median, wait.by_walltimes, wait.like_jobs, *wait.ranges

    @classmethod
    def of(cls, values: Sequence[float]) -> "RawForecast":
        """The forecast with these values.

        >>> RawForecast.of((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)).wait.ranges
        (5.0, 6.0, 7.0, 8.0)
        """
        delay, waited, median, by_walltimes, like_jobs, *ranges = values
        return cls(delay, WaitForecast(median, by_walltimes, like_jobs, tuple(ranges), waited))


@dataclass(frozen=True, slots=True)
class JudgedForecast:
    """A forecast of a job that has started since; times in epoch seconds."""

    job_id: str
    made: int
    started: int
    raw: RawForecast


class SelfCalibration:
    def __init__(self) -> None:
        self.jobs = 0
        """Jobs whose forecasts were learnt."""
        self._calibration = Calibration()
        self._open: list[_RangeEnd] = []
        self._given: dict[str, _Given] = {}
        self._left: dict[str, int] = {}
        self._passed: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    def learn(self, judged: Iterable[JudgedForecast]) -> None:
        """Learn from forecasts that were judged since: from the last :data:`REMEMBERED` of them.

        A log that comes days later judges tens of thousands at once, of which only the last ones still count.
        """
        ordered = sorted(judged, key=lambda forecast: (forecast.started, forecast.job_id, forecast.made))
        self.withdraw({forecast.job_id for forecast in ordered})
        for (job_id, _), forecasts in groupby(
            ordered[-REMEMBERED:], lambda forecast: (forecast.job_id, forecast.started)
        ):
            self.jobs += 1
            self._learn_job(list(forecasts), self._passed.get(job_id, frozenset()))
            for known in (self._passed, self._left):
                known.pop(job_id, None)

    def _learn_job(self, judged: Sequence[JudgedForecast], passed: Collection[tuple[int, int]]) -> None:
        """Learn from the forecasts of one job.

        :param passed: which quantiles of which of them were learnt to have passed.
        """
        last = len(judged) - 1
        # At most OF_JOB of them, chosen evenly.
        learnt = {place * last // (OF_JOB - 1) for place in range(OF_JOB)} if last >= OF_JOB else {*range(last + 1)}
        for number, forecast in enumerate(judged):
            raw, weight = forecast.raw.wait, _step(number)
            given = self._calibration.corrections_for(raw)
            actual = max(forecast.started - forecast.made - forecast.raw.delay, 0.0)
            for column, end in enumerate(_ends(given, raw)):
                if not weight or (forecast.made, column) in passed:
                    continue
                self._calibration.range_end(raw, column, weight, passed=actual > end)
            share = 1 / len(learnt) if number in learnt else 0.0
            if later(raw):
                share = 0.0 if (forecast.made, _OUTLASTED) in passed else _share(number)
            if share:
                self._calibration.weigh(raw, actual, share)
            if number in learnt:
                self._calibration.add(raw, given, actual, (forecast.job_id, forecast.started))

    def watch(self, job_id: str, made: int, raw: RawForecast) -> None:
        """Note a forecast that is given now and kept, corrected by what is known.

        :param made: now, in epoch seconds.
        """
        before = self._given.get(job_id, _Given(made, 0))
        self._given[job_id] = _Given(before.first, before.forecasts + 1)
        corrections = self._calibration.corrections_for(raw.wait)
        self._calibration.watch(raw.wait, corrections, job_id, made + raw.delay)
        if share := _share(before.forecasts):
            wait, weight, begin = raw.wait, _step(before.forecasts), made + raw.delay
            for column, end in enumerate(_ends(corrections, wait)):
                heappush(self._open, _RangeEnd(begin + end, job_id, made, column, wait, weight))
            if later(wait):
                heappush(self._open, _RangeEnd(begin + max(wait.parts), job_id, made, _OUTLASTED, wait, share))

    def resume(self, job_id: str, made: int, raw: RawForecast, forecasts: int) -> None:
        """Note a forecast that another process gave of a job that may wait still, so that its error counts as before.

        The ends of its ranges are learnt when the job starts.

        :param made: when it was given, in epoch seconds; those of a job in order of time.
        """
        first = self._given[job_id].first if job_id in self._given else made
        self._given[job_id] = _Given(first, forecasts)
        self._calibration.watch(raw.wait, self._calibration.corrections_for(raw.wait), job_id, made + raw.delay)

    def withdraw(self, jobs: Iterable[str]) -> None:
        """Forget what is watched of jobs that wait no more, or were held or delayed, so that it is not judged."""
        for job_id in jobs:
            self._given.pop(job_id, None)
            self._calibration.forget(job_id)

    def still_waiting(self, jobs: Set[str], now: int) -> None:
        """Learn which ends of ranges have passed while their jobs wait.

        :param jobs: ids of the jobs that wait for the scheduler: that are neither held nor suspended.
        """
        self._calibration.advance(now)
        while self._open and self._open[0].time < now:
            end = heappop(self._open)
            given = self._given.get(end.job_id)
            if end.job_id in jobs and given is not None and end.made >= given.first:
                if end.column == _OUTLASTED:
                    # By how much one part is better than another is known now, whenever the job starts.
                    self._calibration.weigh(end.wait, max(end.wait.parts) + 1, end.weight)
                else:
                    self._calibration.range_end(end.wait, end.column, end.weight, passed=True)
                self._passed[end.job_id].add((end.made, end.column))
        self.withdraw(self._given.keys() - jobs)
        # The record of a start may come after the look that sees the job run: what has passed is known until then.
        for job_id in self._left.keys() & jobs:
            del self._left[job_id]
        for job_id in self._passed.keys() - jobs:
            if now - self._left.setdefault(job_id, now) > FORGOTTEN:
                del self._passed[job_id], self._left[job_id]

    def corrections_for(self, wait: WaitForecast) -> Corrections:
        return self._calibration.corrections_for(wait)


class _Given(NamedTuple):
    """The first of the forecasts of a job that are watched (epoch seconds), and how many there are."""

    first: int
    forecasts: int


class _RangeEnd(NamedTuple):
    """When a quantile of a forecast passes, or the last of its parts, in epoch seconds.

    ``made``: when the forecast was.
    """

    time: float
    job_id: str
    made: int
    column: int
    wait: WaitForecast
    weight: float


def _ends(given: Corrections, wait: WaitForecast) -> list[float]:
    return given.quantiles(wait).tolist() if given.shifts else []


def _share(number: int) -> float:
    """What the nth forecast of a job (from 0) counts as: a job that waits for a month has 700.

    Of later ones ever fewer count, each for more, so that few of them are watched.

    >>> [_share(number) for number in (0, 1, 14, 15, 16, 17, 30, 31)]
    [1.0, 0.5, 0.06666666666666667, 0.125, 0.0, 0.1111111111111111, 0.0, 0.125]
    """
    count = number + 1
    apart = 1 << max(count.bit_length() - 4, 0)
    return 0.0 if count % apart else apart / count


def _step(number: int) -> float:
    """By how much the nth forecast of a job (from 0) moves a level."""
    return min(3 * _share(number), 1.0)
