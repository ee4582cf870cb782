"""Forecasts corrected by earlier ones of the same source that were judged: nobody need measure a calibration before.

The daemon and ``replay-starts`` correct in this one way, so that what is measured is what is published.  Each forecast
that is kept holds what was forecast before any correction.  When its job has started, it teaches
:class:`.calibration.Calibration`, in the order of the starts, so that a restarted daemon that reads the last of them
corrects as before.  Several forecasts of one job count as one.  That a job still waits at the end of a range is learnt
at that moment.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

from softwalltime.forecast.calibration import KEPT, LEAST, Calibration, Corrections, WaitForecast

REMEMBERED = 3000
"""Judged forecasts from which a new process learns, and at most at once: about a millisecond each."""
FORGOTTEN = 7 * 86400
"""Seconds after which the start of a job that waits no more is not expected to be stored: it was deleted."""
OF_JOB = KEPT // LEAST
"""Judged forecasts of one job that are learnt, so that the errors that are kept are of enough jobs: one that waited for
a month has 700."""


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
    """Learns from judged forecasts.

    :param base: corrections where too few were judged.
    """

    def __init__(self, base: Corrections | None = None) -> None:
        self.jobs = 0
        """Jobs whose forecasts were learnt."""
        self._base = base
        self._calibration = Calibration()
        self._open: list[_RangeEnd] = []
        self._given = Counter[str]()
        self._left: dict[str, int] = {}
        self._passed: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    def learn(self, judged: Iterable[JudgedForecast]) -> None:
        """Learn from forecasts that were judged since: from the last :data:`REMEMBERED` of them.

        A log that comes days later judges tens of thousands at once, of which only the last ones still count.
        """
        found = sorted(judged, key=lambda each: (each.started, each.job_id, each.made))
        for (job_id, _), each in groupby(found[-REMEMBERED:], lambda one: (one.job_id, one.started)):
            self.jobs += 1
            self._learn_job(list(each), self._passed.get(job_id, frozenset()))
            for known in (self._given, self._passed, self._left):
                known.pop(job_id, None)

    def _learn_job(self, judged: Sequence[JudgedForecast], passed: Collection[tuple[int, int]]) -> None:
        """Learn from the forecasts of one job.

        :param passed: which quantiles of which of them were learnt to have passed.
        """
        learnt = set(_thinned(range(len(judged))))
        for number, each in enumerate(judged):
            raw, weight = each.raw.wait, _step(number)
            given = self._calibration.corrections_for(raw)
            actual = max(each.started - each.made - each.raw.delay, 0.0)
            for column, end in enumerate(_ends(given, raw)):
                if (each.made, column) in passed:
                    continue
                learn = self._calibration.passed if actual > end else self._calibration.held
                learn(raw, column, weight)
            if number in learnt:
                self._calibration.add(raw, given, actual, (each.job_id, each.started), 1 / len(learnt))

    def watch(self, job_id: str, made: int, raw: RawForecast) -> None:
        """Note a forecast that is given now and kept, corrected by what is known.

        :param made: now, in epoch seconds.
        """
        weight = _step(self._given[job_id])
        self._given[job_id] += 1
        for column, end in enumerate(_ends(self._calibration.corrections_for(raw.wait), raw.wait)):
            heappush(self._open, _RangeEnd(made + raw.delay + end, job_id, made, column, raw.wait, weight))

    def still_waiting(self, jobs: Set[str], now: int) -> None:
        """Learn which ends of ranges have passed while their jobs wait.

        :param jobs: ids of the jobs that wait.
        """
        while self._open and self._open[0].time < now:
            end = heappop(self._open)
            if end.job_id in jobs and end.job_id in self._given:
                self._calibration.passed(end.found, end.column, end.weight)
                self._passed[end.job_id].add((end.made, end.column))
        for job_id in self._given.keys() - jobs:
            del self._given[job_id]
        # The record of a start may come after the look that sees the job run: what has passed is known until then.
        for job_id in self._left.keys() & jobs:
            del self._left[job_id]
        for job_id in self._passed.keys() - jobs:
            if now - self._left.setdefault(job_id, now) > FORGOTTEN:
                del self._passed[job_id], self._left[job_id]

    def corrections_for(self, found: WaitForecast) -> Corrections:
        """Return what is known now of forecasts such as this one; the others are left as they are."""
        return _filled(self._calibration.corrections_for(found), self._base)

    def corrections(self) -> Corrections | None:
        """Return what is known now; ``None`` while too little is, and there is no base."""
        found = _filled(self._calibration.corrections(), self._base)
        return found if any(found.shifts) else None


class _RangeEnd(NamedTuple):
    """When a quantile of a forecast passes, in epoch seconds; ``made``: when the forecast was."""

    time: float
    job_id: str
    made: int
    column: int
    found: WaitForecast
    weight: float


def _ends(given: Corrections, found: WaitForecast) -> list[float]:
    """The corrected quantiles of a forecast; none where it is not corrected."""
    return given.quantiles(found).tolist() if any(given.shifts) else []


def _step(number: int) -> float:
    """By how much the nth forecast of a job (from 0) moves a level: a job that waits for a month has 700."""
    return min(3 / (number + 1), 1.0)


def _thinned(numbers: Sequence[int]) -> Sequence[int]:
    """At most :data:`OF_JOB` of them, chosen evenly."""
    last = len(numbers) - 1
    return numbers if last < OF_JOB else [numbers[place * last // (OF_JOB - 1)] for place in range(OF_JOB)]


def _filled(found: Corrections, base: Corrections | None) -> Corrections:
    """The corrections, with those of the base where too few forecasts were judged."""
    if base is None:
        return found
    rows = zip(found.weights, found.shifts, base.weights, base.shifts, strict=True)
    chosen = [(weights, shift) if shift else (of_base, by_base) for weights, shift, of_base, by_base in rows]
    weights, shifts = zip(*chosen, strict=True)
    return Corrections(weights, shifts, max(found.most, base.most))
