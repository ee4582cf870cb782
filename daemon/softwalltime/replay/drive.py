"""Drive predictors through a workload: the fast replay."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Kind
from softwalltime.jobs import ColdStart, Prediction, Submission
from softwalltime.policy.clamp import MINIMUM
from softwalltime.policy.decide import decide
from softwalltime.policy.site import KEEP, WALLTIME, Terms
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.replay.clamp_all import clamp_all
from softwalltime.replay.workload import Stride, Workload

_FIXED: Final = (WALLTIME, KEEP)
_SUBMITTED, _STARTED, _ENDED = int(Kind.SUBMITTED), int(Kind.STARTED), int(Kind.ENDED)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The soft walltime of each job, in the order of the workload, in seconds; -1 for none.

    ``soft_walltimes`` are set at the submission, ``at_start`` at the start.  In ``at_start``, -1 also means the
    walltime, which is the same for the scheduler, and jobs that never started.
    """

    soft_walltimes: NDArray[np.int64]
    at_start: NDArray[np.int64]
    seconds: float

    @property
    def jobs_per_second(self) -> float:
        """Jobs per second of wall-clock time that the predictors learnt and predicted."""
        return len(self.soft_walltimes) / self.seconds if self.seconds else 0.0


def drive(
    workload: Workload,
    waiting: Predictor,
    minimum: int = MINIMUM,
    progress: Callable[[int], None] = lambda _: None,
    *,
    running: Predictor | str = WALLTIME,
) -> ReplayResult:
    """Let predictors learn each job at its end; decide about each job at its submission and its start.

    :param waiting: the predictor for waiting jobs, called at the submission.
    :param minimum: least soft walltime in seconds.
    :param progress: called with the number of jobs done since the last call.
    :param running: the predictor for running jobs, asked at the start; may be the same one.  Or ``walltime``: the
        walltime from the start on; or ``keep``: what the job has.
    """
    (result,) = _drive_all(workload, [(waiting, running)], minimum, progress)
    return result


def drive_specs(
    workload: Workload,
    specs: Sequence[str],
    running: str = WALLTIME,
    minimum: int = MINIMUM,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ReplayResult]:
    """Drive new, independent predictors in one pass, one for waiting jobs for each of these specs.

    :param running: the one for running jobs, the same predictor where the specification is the same, as in the daemon;
        may also be ``walltime`` or ``keep``.
    :param progress: called with the number of jobs done since the last call, by all predictors together.
    """
    pairs: list[tuple[Predictor, Predictor | str]] = []
    for spec in specs:
        waiting = make(spec)
        pairs.append((waiting, waiting if spec == running else running if running in _FIXED else make(running)))
    return dict(zip(specs, _drive_all(workload, pairs, minimum, progress), strict=True))


def drive_ordering(
    workload: Workload, spec: str, progress: Callable[[int], None] = lambda _: None
) -> NDArray[np.int64]:
    """Return the ordering value of each job at its submission, in seconds, by a fresh predictor; -1 for none.

    :param spec: the predictor for the value; may also be ``walltime``.
    """
    run = _Ordering(workload, spec)
    starts, everything = run.needs
    for stride in workload.stream(starts=starts, everything=everything, progress=progress):
        run.go(stride)
    return run.values()


def _drive_all(
    workload: Workload,
    pairs: Sequence[tuple[Predictor, Predictor | str]],
    minimum: int,
    progress: Callable[[int], None],
) -> list[ReplayResult]:
    """Drive each pair of predictors; pairs that need the same events share the job objects."""
    runs = [
        _EventDriver(workload, waiting, running, minimum)
        if isinstance(running, Predictor) or waiting.observes or waiting.fits
        else _SubmissionDriver(workload, waiting, minimum, keep=running == KEEP)
        for waiting, running in pairs
    ]
    for needs in sorted({run.needs for run in runs}):
        together = [run for run in runs if run.needs == needs]
        starts, everything = needs
        told = partial(_times, progress, len(together))
        for stride in workload.stream(starts=starts, everything=everything, progress=told):
            for run in together:
                begin = perf_counter()
                run.go(stride)
                run.seconds += perf_counter() - begin
    return [run.result() for run in runs]


def _times(progress: Callable[[int], None], count: int, jobs: int) -> None:
    progress(count * jobs)


class _SubmissionDriver:
    """One predictor, called at submission only.

    If the policy is on for all jobs, the decision at submission is the clamped prediction.  Therefore this class clamps
    all predictions at once: ``decide`` would double the time of a replay.  A test compares the results of both classes.
    """

    needs = (False, False)
    """Whether the driver needs the starts, and all events."""

    def __init__(self, workload: Workload, waiting: Predictor, minimum: int, *, keep: bool) -> None:
        self.seconds = 0.0
        self._workload = workload
        self._waiting = waiting
        self._minimum = minimum
        self._keep = keep
        self._predicted = array("d", [nan]) * len(workload.jobs)

    def go(self, stride: Stride) -> None:
        """Go through some events."""
        learn, predict, predicted, cold_start = self._waiting.learn, self._waiting.predict, self._predicted, ColdStart
        for kind, number, job in zip(*stride, strict=True):
            if kind:
                submission = job.submission
                prediction = predict(submission, submission.submitted)
                if type(prediction) is not cold_start:
                    predicted[number] = prediction.seconds  # type: ignore[union-attr]  # isinstance costs 8%
            else:
                learn(job)

    def result(self) -> ReplayResult:
        """The soft walltimes."""
        begin = perf_counter()
        waits = clamp_all(self._workload, np.frombuffer(self._predicted, np.float64), self._minimum)
        # Other predictors' results come next, and two arrays for each would add up.
        self._predicted = array("d")
        self.seconds += perf_counter() - begin
        count = len(waits)
        # The walltime at the start is -1 for all jobs, which needs no memory.
        at_start = _at_start(self._workload, waits) if self._keep else np.broadcast_to(np.int64(-1), count)
        return ReplayResult(waits, at_start, self.seconds)


class _EventDriver:
    """A pair of predictors, called at submission and at start; they observe events and are fitted."""

    def __init__(self, workload: Workload, waiting: Predictor, running: Predictor | str, minimum: int) -> None:
        self.seconds = 0.0
        self._workload = workload
        self._predictors = {"waiting": waiting}
        self._terms = Terms("on", "waiting", running if isinstance(running, str) else "running", minimum)
        if isinstance(running, Predictor):
            self._predictors["running"] = running
        self._pupils = list({id(each): each for each in self._predictors.values()}.values())
        self._observers = [each for each in self._pupils if each.observes]
        self._fitted = [each for each in self._pupils if each.fits]
        self._next_fit = -1
        self._waits, self._runs = _none(len(workload.jobs)), _none(len(workload.jobs))
        self.needs = (True, bool(self._observers))

    def go(self, stride: Stride) -> None:
        """Go through some events."""
        workload, waits, terms = self._workload, self._waits, self._terms
        now = 0

        def predict(spec: str, submission: Submission) -> Prediction | ColdStart:
            return self._predictors[spec].predict(submission, now)

        for kind, number, job in zip(*stride, strict=True):
            if self._fitted:
                self._fit(workload.time(kind, number))
            if kind == _SUBMITTED:
                now = job.submission.submitted
                decision = decide(terms, kind, job.submission, None, predict)
                if decision.soft_walltime is not None:
                    waits[number] = decision.soft_walltime
            elif kind == _STARTED:
                now, has = int(workload.started[number]), waits[number]
                decision = decide(terms, kind, job.submission, None if has < 0 else has, predict)
                self._runs[number] = has if decision.soft_walltime is None else decision.soft_walltime
            for observer in self._observers:
                observer.observe(workload.event(kind, number, job))
            if kind == _ENDED and workload.teaches[number]:
                for pupil in self._pupils:
                    pupil.learn(job)

    def _fit(self, now: int) -> None:
        if now >= self._next_fit:
            self._next_fit = now + min(each.fit_seconds for each in self._fitted)
            for each in self._fitted:
                each.fit(now)

    def result(self) -> ReplayResult:
        """The soft walltimes."""
        waits, runs = (np.frombuffer(each, np.int64) for each in (self._waits, self._runs))
        return ReplayResult(waits, _at_start(self._workload, runs), self.seconds)


class _Ordering:
    """The predictor for the ordering value, asked at submission."""

    def __init__(self, workload: Workload, spec: str) -> None:
        self._workload = workload
        self._predictor = None if spec == WALLTIME else make(spec)
        self._terms = Terms("on", KEEP, KEEP, MINIMUM, spec)
        self._values = _none(len(workload.jobs))
        self._next_fit = -1
        observes = self._predictor is not None and self._predictor.observes
        self.needs = (observes, observes)

    def go(self, stride: Stride) -> None:
        """Go through some events."""
        workload, predictor = self._workload, self._predictor
        for kind, number, job in zip(*stride, strict=True):
            now = workload.time(kind, number)
            if predictor is not None and predictor.fits and now >= self._next_fit:
                self._next_fit = now + predictor.fit_seconds
                predictor.fit(now)
            # The hook sends no request about a shrink-to-fit job.
            if kind == _SUBMITTED and not job.submission.shrink_to_fit:
                decision = decide(self._terms, kind, job.submission, None, partial(self._predict, now))
                if decision.ordering_seconds is not None:
                    self._values[number] = decision.ordering_seconds
            if predictor is None:
                continue
            if predictor.observes:
                predictor.observe(workload.event(kind, number, job))
            if kind == _ENDED and workload.teaches[number]:
                predictor.learn(job)

    def _predict(self, now: int, _spec: str, submission: Submission) -> Prediction | ColdStart:
        if self._predictor is None:
            raise AssertionError("the walltime needs no predictor")
        return self._predictor.predict(submission, now)

    def values(self) -> NDArray[np.int64]:
        """The values by job."""
        return np.frombuffer(self._values, np.int64)


def _none(count: int) -> "array[int]":
    """Return -1 for each of ``count`` jobs; an array is filled as fast as a list, in a quarter of the memory."""
    return array("q", [-1]) * count


def _at_start(workload: Workload, soft_walltimes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the soft walltimes of the jobs that started; -1 for the walltime."""
    return np.where((workload.started < 0) | (soft_walltimes == workload.walltime), -1, soft_walltimes)
