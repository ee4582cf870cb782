"""Forecasts corrected by those of the daemon itself that were judged: nobody need measure a calibration before.

Each forecast that is kept holds what was forecast before any correction.  When its job has started, it teaches
:class:`.calibration.Calibration`, in the order of the starts, so that a restarted daemon that reads the last of them
corrects as before.  Several forecasts of one job count as one.  Jobs that could start at once are a kind of their own:
a scheduling cycle and the start of a job take a few seconds, and their ranges have no width before any correction.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from softwalltime.forecast.calibration import KEPT, LEAST, Calibration, Corrections, Floats, WaitForecast

REMEMBERED = 3000
"""Judged forecasts from which a new process learns, and at most at once: about a millisecond each."""
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


@dataclass(frozen=True, slots=True)
class OwnCorrections:
    """Corrections of jobs that wait for others, and of those that could start at once."""

    waiting: Corrections
    at_once: Corrections

    def corrected(self, found: WaitForecast) -> Floats:
        """Return the five values of a forecast."""
        return (self.at_once if starts_at_once(found) else self.waiting).corrected(found)


def starts_at_once(found: WaitForecast) -> bool:
    """Return whether a job is expected to start at once."""
    return found.median <= 0


class SelfCalibration:
    """Learns from judged forecasts.

    :param base: corrections where too few were judged.
    """

    def __init__(self, base: Corrections | None = None) -> None:
        self.jobs = 0
        """Jobs whose forecasts were learnt."""
        self._base = base
        self._waiting = Calibration()
        self._at_once = Calibration()

    def learn(self, judged: Iterable[JudgedForecast]) -> None:
        """Learn from forecasts that were judged since: from the last :data:`REMEMBERED` of them.

        A log that comes days later judges tens of thousands at once, of which only the last ones still count.
        """
        found = sorted(judged, key=lambda each: (each.started, each.job_id, each.made))
        found = list(_thinned(found[-REMEMBERED:]))
        counts = Counter((each.job_id, each.started) for each in found)
        self.jobs += len(counts)
        for each in found:
            key = each.job_id, each.started
            raw = each.raw.wait
            calibration = self._at_once if starts_at_once(raw) else self._waiting
            given = calibration.corrections_for(raw)
            actual = max(each.started - each.made - each.raw.delay, 0.0)
            weight = 1 / counts[key]
            if any(given.shifts):
                for column, end in enumerate(given.quantiles(raw).tolist()):
                    if actual > end:
                        calibration.passed(raw, column, weight)
            calibration.add(raw, given, actual, key, weight)

    def corrections(self) -> OwnCorrections | None:
        """Return what is known now; ``None`` while too little is, and there is no base."""
        waiting, at_once = self._waiting.corrections(), self._at_once.corrections()
        if self._base is not None:
            waiting = _filled(waiting, self._base)
        known = any(waiting.shifts) or any(at_once.shifts)
        return OwnCorrections(waiting, at_once) if known else None


def _thinned(judged: Iterable[JudgedForecast]) -> Iterator[JudgedForecast]:
    """Yield the forecasts of each job in their order: at most :data:`OF_JOB`, chosen evenly."""
    for _, each in groupby(judged, lambda one: (one.job_id, one.started)):
        of_job = list(each)
        if len(of_job) > OF_JOB:
            of_job = [of_job[place * (len(of_job) - 1) // (OF_JOB - 1)] for place in range(OF_JOB)]
        yield from of_job


def _filled(found: Corrections, base: Corrections) -> Corrections:
    """The corrections, with those of the base where too few forecasts were judged."""
    rows = zip(found.weights, found.shifts, base.weights, base.shifts, strict=True)
    chosen = [(weights, shift) if shift else (of_base, by_base) for weights, shift, of_base, by_base in rows]
    weights, shifts = zip(*chosen, strict=True)
    return Corrections(weights, shifts, max(found.most, base.most))
