"""Calibrate forecasts by the errors of earlier ones of the same source.

The daemon and ``replay-starts`` share this code, so measured and published forecasts agree.  Each kept forecast has its
uncalibrated values.  When its job has started, it updates :class:`.calibration.Calibration`, in the order of the
starts, so that a restarted daemon that reads the last of them has the same state.  Several forecasts of one job count
as one.  Long waits are learnt before their end: that a job still waits at a range end, and which part of its forecast
was best once it has outlasted all parts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

from softwalltime.measure.forecast.calibration import Calibration, Corrections, WaitForecast, later
from softwalltime.measure.forecast.past_errors import MAX_OF_JOB
from softwalltime.measure.forecast.start_times import LEVELS

MAX_JUDGED = 3000
"""Maximum evaluated forecasts to learn from at once or at start-up: about a millisecond each."""
START_TIMEOUT_S = 7 * 86400
"""Seconds after which a job that left the queue without a stored start counts as deleted."""
_OUTLASTED = len(LEVELS)
"""Event after all quantiles: the job has outlasted all parts of its forecast."""


@dataclass(frozen=True, slots=True)
class JudgedForecast:
    """A forecast whose job has started; times in epoch seconds."""

    job_id: str
    made: int
    started: int
    raw: WaitForecast


class SelfCalibration:
    def __init__(self) -> None:
        self.jobs = 0
        """Number of jobs whose forecasts were learnt."""
        self._calibration = Calibration()
        self._open: list[_RangeEnd] = []
        self._given: dict[str, _Given] = {}
        self._left: dict[str, int] = {}
        self._passed: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    def learn(self, judged: Iterable[JudgedForecast]) -> None:
        """Learn from forecasts that were judged since: from the last :data:`MAX_JUDGED` of them.

        A log that comes days later judges tens of thousands at once, of which only the last ones still count.
        """
        ordered = sorted(judged, key=lambda forecast: (forecast.started, forecast.job_id, forecast.made))
        self.withdraw({forecast.job_id for forecast in ordered})
        for (job_id, _), forecasts in groupby(
            ordered[-MAX_JUDGED:], lambda forecast: (forecast.job_id, forecast.started)
        ):
            self.jobs += 1
            self._learn_job(list(forecasts), self._passed.pop(job_id, set()))
            self._left.pop(job_id, None)

    def _learn_job(self, judged: Sequence[JudgedForecast], passed: Collection[tuple[int, int]]) -> None:
        """Learn from the forecasts of one job; ``passed``: quantiles, by forecast, that are known to have passed."""
        last = len(judged) - 1
        # At most MAX_OF_JOB of them, evenly spaced.
        many = last >= MAX_OF_JOB
        learnt = {place * last // (MAX_OF_JOB - 1) for place in range(MAX_OF_JOB)} if many else {*range(last + 1)}
        for number, forecast in enumerate(judged):
            raw, weight = forecast.raw, _step(number)
            given = self._calibration.corrections_for(raw)
            actual = max(forecast.started - forecast.made - raw.delay, 0.0)
            for column, end in enumerate(_ends(given, raw)):
                if weight and (forecast.made, column) not in passed:
                    self._calibration.range_end(raw, column, weight, passed=actual > end)
            share = 1 / len(learnt) if number in learnt else 0.0
            if later(raw):
                share = 0.0 if (forecast.made, _OUTLASTED) in passed else _share(number)
            if share:
                self._calibration.weigh(raw, actual, share)
            if number in learnt:
                self._calibration.add(raw, given, actual, (forecast.job_id, forecast.started))

    def watch(self, job_id: str, made: int, raw: WaitForecast) -> None:
        """Record a new kept forecast with its corrections; ``made`` is now, in epoch seconds."""
        before = self._given.get(job_id, _Given(made, 0))
        self._given[job_id] = _Given(before.first, before.forecasts + 1)
        corrections, begin = self._calibration.corrections_for(raw), made + raw.delay
        self._calibration.watch(raw, corrections, job_id, begin)
        if share := _share(before.forecasts):
            for column, end in enumerate(_ends(corrections, raw)):
                heappush(self._open, _RangeEnd(begin + end, job_id, made, column, raw, _step(before.forecasts)))
            if later(raw):
                heappush(self._open, _RangeEnd(begin + max(raw.parts), job_id, made, _OUTLASTED, raw, share))

    def resume(self, job_id: str, made: int, raw: WaitForecast, forecasts: int) -> None:
        """Record a forecast of an earlier process whose job may still wait, so that its error counts.

        The ends of its ranges are learnt when the job starts.

        :param made: time of the forecast, in epoch seconds; call in order of time for each job.
        """
        first = self._given[job_id].first if job_id in self._given else made
        self._given[job_id] = _Given(first, forecasts)
        self._calibration.watch(raw, self._calibration.corrections_for(raw), job_id, made + raw.delay)

    def withdraw(self, jobs: Iterable[str]) -> None:
        """Drop the forecasts of jobs that no longer wait, or were held or delayed, without evaluation."""
        for job_id in jobs:
            self._given.pop(job_id, None)
            self._calibration.forget(job_id)

    def still_waiting(self, jobs: Set[str], now: int) -> None:
        """Learn which range ends have passed while their jobs wait.

        :param jobs: ids of the jobs that wait for the scheduler: that are neither held nor suspended.
        """
        self._calibration.advance(now)
        while self._open and self._open[0].time < now:
            end = heappop(self._open)
            given = self._given.get(end.job_id)
            if end.job_id in jobs and given is not None and end.made >= given.first:
                if end.column == _OUTLASTED:
                    # All parts have passed, so their ranking no longer depends on the start.
                    self._calibration.weigh(end.wait, max(end.wait.parts) + 1, end.weight)
                else:
                    self._calibration.range_end(end.wait, end.column, end.weight, passed=True)
                self._passed[end.job_id].add((end.made, end.column))
        self.withdraw(self._given.keys() - jobs)
        # Keep the passed quantiles until the start record arrives, which may be after the job is seen running.
        for job_id in self._left.keys() & jobs:
            del self._left[job_id]
        for job_id in self._passed.keys() - jobs:
            if now - self._left.setdefault(job_id, now) > START_TIMEOUT_S:
                del self._passed[job_id], self._left[job_id]

    def corrections_for(self, wait: WaitForecast) -> Corrections:
        return self._calibration.corrections_for(wait)


class _Given(NamedTuple):
    """The first of the forecasts of a job that are watched (epoch seconds), and how many there are."""

    first: int
    forecasts: int


class _RangeEnd(NamedTuple):
    """Time at which a quantile of a forecast, or the last of its parts, passes, in epoch seconds.

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
    """Return the weight of the nth forecast of a job (from 0).

    Fewer and fewer later forecasts count, each with a larger weight, because a job that waits for a month has 700.

    >>> [_share(number) for number in (0, 1, 14, 15, 16, 17, 30, 31)]
    [1.0, 0.5, 0.06666666666666667, 0.125, 0.0, 0.1111111111111111, 0.0, 0.125]
    """
    count = number + 1
    apart = 1 << max(count.bit_length() - 4, 0)
    return 0.0 if count % apart else apart / count


def _step(number: int) -> float:
    """Return the step factor of the nth forecast of a job (from 0)."""
    return min(3 * _share(number), 1.0)
