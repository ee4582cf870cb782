"""Drive predictors through a workload: the fast replay."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, nan
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.pass_events import Ask, pass_events
from softwalltime.measure.replay.workload import Stride, Workload
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.decide import decide
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make

_SUBMITTED, _STARTED = int(Kind.SUBMITTED), int(Kind.STARTED)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The soft walltime of each job at its submission and at its start, in seconds; -1 for none.

    In ``at_start``, -1 also means the walltime, which is the same for the scheduler, and jobs that never started.
    """

    soft_walltimes: NDArray[np.int64]
    at_start: NDArray[np.int64]
    seconds: float

    @property
    def jobs_per_second(self) -> float:
        """Jobs per second of wall-clock time that the predictors learnt and predicted."""
        return len(self.soft_walltimes) / self.seconds if self.seconds else 0.0


def drive(
    workload: Workload, waiting: Predictor, minimum: int = MIN_SOFT_WALLTIME_S,
    progress: Callable[[int], None] = lambda _: None, *, running: Predictor | str = WALLTIME,
) -> ReplayResult:  # fmt: skip
    """Let predictors learn each job at its end; decide about each job at its submission and its start.

    :param waiting: the predictor for waiting jobs, called at the submission.
    :param running: the predictor for running jobs, called at the start; may be the same one.  Or ``walltime``: the
        walltime from the start on; or ``keep``: the waiting value.
    """
    run = _driver(workload, waiting, running, minimum)
    _drive_all([run], workload, progress)
    return run.result()


def drive_specs(
    workload: Workload, specs: Sequence[str], running: str = WALLTIME, minimum: int = MIN_SOFT_WALLTIME_S,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ReplayResult]:  # fmt: skip
    """Drive new, independent predictors in one pass, one for waiting jobs for each of these specs, as :func:`drive`.

    :param running: the same predictor is used where the specification is the same, as in the daemon.
    """
    runs = {}
    for spec in specs:
        waiting = make(spec)
        other = waiting if spec == running else running if running in (WALLTIME, KEEP) else make(running)
        runs[spec] = _driver(workload, waiting, other, minimum)
    _drive_all(list(runs.values()), workload, progress)
    return {spec: run.result() for spec, run in runs.items()}


def drive_ordering(workload: Workload, spec: str) -> NDArray[np.int64]:
    """Return each job's ordering value at its submission in seconds, by a new predictor or ``walltime``; -1: none."""
    predictors = {} if spec == WALLTIME else {spec: make(spec)}
    run = _EventDriver(workload, predictors, JobPolicy("on", KEEP, KEEP, MIN_SOFT_WALLTIME_S, spec))
    _drive_all([run], workload, lambda _: None)
    return run.ordering()


def _driver(
    workload: Workload, waiting: Predictor, running: Predictor | str, minimum: int
) -> "_SubmissionDriver | _EventDriver":
    """Return the driver of a pair of predictors; if both are the same, it learns each job once."""
    if isinstance(running, str):
        if not (waiting.observes or waiting.fits):
            return _SubmissionDriver(workload, waiting, minimum, keep=running == KEEP)
        predictors, spec = {"waiting": waiting}, running
    else:
        spec = "waiting" if running is waiting else "running"
        predictors = {"waiting": waiting, spec: running}
    return _EventDriver(workload, predictors, JobPolicy("on", "waiting", spec, minimum))


def _drive_all(
    runs: "Sequence[_SubmissionDriver | _EventDriver]", workload: Workload, progress: Callable[[int], None]
) -> None:
    """Pass the events to all drivers; those that need the same events share the job objects."""
    for needs in sorted({run.needs for run in runs}):
        alike = [run for run in runs if run.needs == needs]
        starts, everything = needs
        together = partial(lambda drivers, jobs: progress(drivers * jobs), len(alike))
        for stride in workload.stream(starts=starts, everything=everything, progress=together):
            for run in alike:
                begin = perf_counter()
                run.go(stride)
                run.seconds += perf_counter() - begin


class _SubmissionDriver:
    """One predictor that neither observes nor is fitted, called at submission only.

    It clamps all predictions at once: :class:`_EventDriver`, with the same results, would take twice the time.
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
        learn, predict, predicted = self._waiting.learn, self._waiting.predict, self._predicted
        no_prediction = NoPrediction
        for kind, number, job in zip(*stride, strict=True):
            if kind:
                submission = job.submission
                prediction = predict(submission, submission.submitted)
                if type(prediction) is not no_prediction:
                    predicted[number] = prediction.seconds  # type: ignore[union-attr]  # isinstance costs 8%
            else:
                learn(job)

    def result(self) -> ReplayResult:
        begin = perf_counter()
        waits = clamp_all(self._workload, np.frombuffer(self._predicted, np.float64), self._minimum)
        # Free the predictions: only the clamped values are kept for each predictor.
        self._predicted = array("d")
        self.seconds += perf_counter() - begin
        count = len(waits)
        # The walltime at the start is -1 for all jobs, which needs no memory.
        at_start = _at_start(self._workload, waits) if self._keep else np.broadcast_to(np.int64(-1), count)
        return ReplayResult(waits, at_start, self.seconds)


class _EventDriver:
    """Predictors driven through the events of jobs; each value is the decision under the same terms for all jobs.

    :param predictors: by the specification that they have in ``terms``.
    """

    def __init__(self, workload: Workload, predictors: Mapping[str, Predictor], terms: JobPolicy) -> None:
        self.seconds = 0.0
        self._workload = workload
        self._driver = PredictorDriver(predictors)
        self._terms = terms
        count = len(workload.jobs)
        self._waits, self._runs = _none(count), _none(count)
        self._ordering = _none(count if terms.ordering else 0)
        self.needs = (terms.waiting != KEEP or self._driver.observes, self._driver.observes)

    def go(self, stride: Stride) -> None:
        pass_events(self._workload, stride, self._driver, self._decider())

    def _decider(self) -> Ask:
        """Return the function that decides at an event; local names instead of attributes save a tenth of a replay."""
        terms, predictors = self._terms, self._driver.predictors
        waits, runs, ordering = self._waits, self._runs, self._ordering
        time = 0

        def predict(spec: str, submission: Submission) -> Prediction | NoPrediction:
            return predictors[spec].predict(submission, time)

        def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
            nonlocal time
            submission = job.submission
            # The hook sends no request about a shrink-to-fit job.
            if submission.min_walltime is not None or (kind != _SUBMITTED and kind != _STARTED):
                return
            time, has = now, waits[number]
            decision = decide(terms, kind, submission, None if has < 0 else has, predict)
            value = has if decision.soft_walltime is None else decision.soft_walltime
            if kind == _STARTED:
                runs[number] = value
                return
            waits[number] = value
            if decision.ordering is not None:
                ordering[number] = ceil(decision.ordering)

        return ask

    def result(self) -> ReplayResult:
        waits, runs = (np.frombuffer(values, np.int64) for values in (self._waits, self._runs))
        return ReplayResult(waits, _at_start(self._workload, runs), self.seconds)

    def ordering(self) -> NDArray[np.int64]:
        return np.frombuffer(self._ordering, np.int64)


def _none(count: int) -> "array[int]":
    """Return -1 for each of ``count`` jobs; an array is filled as fast as a list, in a quarter of the memory."""
    return array("q", [-1]) * count


def _at_start(workload: Workload, soft_walltimes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where((workload.started < 0) | (soft_walltimes == workload.walltime), -1, soft_walltimes)


def clamp_all(
    workload: Workload, seconds: NDArray[np.float64], minimum: int = MIN_SOFT_WALLTIME_S
) -> NDArray[np.int64]:
    """Return the soft walltime of each job in whole seconds, -1 for none.

    The result is that of :func:`softwalltime.predict.policy.clamp.soft_walltime` for each job.

    :param seconds: the prediction for each job, NaN for none.
    """
    walltime = workload.walltime
    # Comparisons with NaN are false, so a job without a prediction or a walltime gets no soft walltime.
    below = (seconds < walltime) & ~workload.shrink_to_fit
    rounded = np.ceil(np.maximum(np.where(below, seconds, 0.0), minimum)).astype(np.int64)
    return np.where(below & (rounded < walltime), rounded, -1)
