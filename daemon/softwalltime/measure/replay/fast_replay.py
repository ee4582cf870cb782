"""Drive predictors through a workload: the fast replay.

Memory holds the jobs that wait and run, the state of the predictors, and the results of the jobs.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.workload import EventStream, Recorded, Stride, Workload, event_of
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.policy.decide import decide
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make

_SUBMITTED, _STARTED, _ENDED = int(Kind.SUBMITTED), int(Kind.STARTED), int(Kind.ENDED)
Ask = Callable[[int, int, int, CompletedJob], object]
"""Function called to predict at an event: (time in epoch seconds, kind, index of the job, job)."""


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
    workload: Recorded, waiting: Predictor, minimum: int = MIN_SOFT_WALLTIME_S,
    progress: Callable[[int], None] = lambda _: None, *, running: Predictor | str = WALLTIME, begin: int = 0,
) -> ReplayResult:  # fmt: skip
    """Let predictors learn each job at its end; decide about each job at its submission and its start.

    :param waiting: the predictor for waiting jobs, called at the submission.
    :param running: the predictor for running jobs, called at the start; may be the same one.  Or ``walltime``: the
        walltime from the start on; or ``keep``: the waiting value.
    :param begin: jobs with lower numbers are learnt, and get no soft walltime.
    """
    run = _driver(workload, waiting, running, minimum, begin)
    _drive_all([run], workload, progress)
    return run.result()


def drive_specs(
    workload: Recorded, specs: Sequence[str], running: str = WALLTIME, minimum: int = MIN_SOFT_WALLTIME_S,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ReplayResult]:  # fmt: skip
    """Drive new, independent predictors in one pass, one for waiting jobs for each of these specs, as :func:`drive`.

    :param running: the same predictor is used where the specification is the same, as in the daemon.
    """
    runs = drivers(workload, specs, running, minimum)
    _drive_all(list(runs.values()), workload, progress)
    return {spec: run.result() for spec, run in runs.items()}


def drivers(workload: Recorded, specs: Sequence[str], running: str, minimum: int) -> "dict[str, _EventDriver]":
    """Return the drivers of :func:`drive_specs`."""
    runs = {}
    for spec in specs:
        waiting = make(spec)
        other = waiting if spec == running else running if running in (WALLTIME, KEEP) else make(running)
        runs[spec] = _driver(workload, waiting, other, minimum)
    return runs


def drive_ordering(workload: Recorded, spec: str) -> NDArray[np.int64]:
    """Return each job's ordering value at its submission in seconds, by a new predictor or ``walltime``; -1: none."""
    predictors = {} if spec == WALLTIME else {spec: make(spec)}
    run = _EventDriver(workload, predictors, JobPolicy("on", KEEP, WALLTIME, MIN_SOFT_WALLTIME_S, spec))
    _drive_all([run], workload, lambda _: None)
    return run.ordering


def _driver(
    workload: Recorded, waiting: Predictor, running: Predictor | str, minimum: int, begin: int = 0
) -> "_EventDriver":
    """Return the driver of a pair of predictors; if both are the same, it learns each job once."""
    if isinstance(running, str):
        predictors, spec = {"waiting": waiting}, running
    else:
        spec = "waiting" if running is waiting else "running"
        predictors = {"waiting": waiting, spec: running}
    return _EventDriver(workload, predictors, JobPolicy("on", "waiting", spec, minimum), begin)


def _drive_all(runs: "Sequence[_EventDriver]", workload: Recorded, progress: Callable[[int], None]) -> None:
    """Pass the events to all drivers; those that need the same events share the job objects."""
    for needs in sorted({run.needs for run in runs}):
        alike = [run for run in runs if run.needs == needs]
        starts, everything = needs
        events = EventStream(starts=starts, everything=everything)
        for part in chain(workload.parts(), [None]):
            for stride in events.strides(part):
                for run in alike:
                    begin = perf_counter()
                    run.go(stride)
                    run.seconds += perf_counter() - begin
                progress(len(alike) * stride.kinds.count(_SUBMITTED))
            for run in alike:
                begin = perf_counter()
                run.finish(part)
                run.seconds += perf_counter() - begin


def pass_events(stride: Stride, driver: PredictorDriver, ask: Ask) -> None:
    events = zip(*stride, strict=True)
    if not (driver.observes or driver.fits):
        # Inlined step: the full step would take a third of the time of cheap predictors.
        learn = driver.learn
        for kind, number, job, now, taught in events:
            if kind != _ENDED:
                ask(now, kind, number, job)
            elif taught:
                learn(job)
        return
    for kind, number, job, now, taught in events:
        event = event_of(kind, now, job) if driver.observes else None
        if kind != _ENDED:
            driver.step(now, ask, event, None, now, kind, number, job)
        else:
            driver.step(now, None, event, job if taught else None)


class _EventDriver:
    """Predictors driven through the events of jobs; each value is the decision under the same terms for all jobs.

    :param predictors: by the specification that they have in ``terms``.
    :param begin: the first job about which they decide.
    """

    def __init__(
        self, workload: Recorded, predictors: Mapping[str, Predictor], terms: JobPolicy, begin: int = 0
    ) -> None:
        self.seconds = 0.0
        self._first = begin
        self._driver = PredictorDriver(predictors)
        self._terms = terms
        self._waits = workload.array()
        # The walltime at the start is -1 for all jobs, which needs no memory.
        self._keeps_starts = terms.running != WALLTIME
        self._runs = workload.array() if self._keeps_starts else np.broadcast_to(np.int64(-1), len(workload))
        self.ordering = workload.array() if terms.ordering else np.empty(0, np.int64)
        self.needs = (self._keeps_starts or self._driver.observes, self._driver.observes)
        """Two flags: the driver needs the starts of jobs; it needs all events."""
        self._waiting: dict[int, int] = {}
        """Soft walltimes of jobs that have not started, by number of the job."""
        self._begin()

    def _begin(self) -> None:
        # Values of the jobs of the current part, in order of submission; numbers and values of jobs that started.
        self._submitted, self._ordered, self._started, self._at_start = (array("q") for _ in range(4))

    def go(self, stride: Stride) -> None:
        pass_events(stride, self._driver, self._decider())

    def _decider(self) -> Ask:
        """Return the function that decides at an event; local names instead of attributes save a tenth of a replay."""
        terms, predictors, waiting = self._terms, self._driver.predictors, self._waiting
        submitted, ordered, started, at_start = self._submitted, self._ordered, self._started, self._at_start
        keeps_starts, first, time = self._keeps_starts, self._first, 0

        def predict(spec: str, submission: Submission) -> Prediction | NoPrediction:
            return predictors[spec].predict(submission, time)

        def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
            nonlocal time
            if kind != _SUBMITTED and not (kind == _STARTED and keeps_starts):
                return
            submission = job.submission
            # The hook sends no request about a shrink-to-fit job.
            if submission.min_walltime is not None or number < first:
                if kind == _SUBMITTED:
                    submitted.append(-1)
                    ordered.append(-1)
                return
            time, has = now, waiting.pop(number, None)
            decision = decide(terms, kind, submission, has, predict)
            value = has if decision.soft_walltime is None else decision.soft_walltime
            if kind == _STARTED:
                if value is not None and value != submission.walltime:
                    started.append(number)
                    at_start.append(value)
                return
            submitted.append(-1 if value is None else value)
            ordered.append(-1 if decision.ordering is None else ceil(decision.ordering))
            if keeps_starts and value is not None and job.start is not None:
                waiting[number] = value

        return ask

    def finish(self, part: Workload | None) -> None:
        """Keep the results of a part whose jobs were all submitted; after the last part, of the jobs left."""
        if part is not None:
            self._waits[part.numbers] = np.array(self._submitted)
            if self._terms.ordering:
                self.ordering[part.numbers] = np.array(self._ordered)
            if self._keeps_starts:
                self._runs[part.numbers] = -1
        if self._keeps_starts:
            self._runs[np.array(self._started)] = np.array(self._at_start)
        self._begin()

    def result(self) -> ReplayResult:
        return ReplayResult(self._waits, self._runs, self.seconds)


def predicted_quantiles(workload: Workload, predictor: Predictor, shares: Sequence[float]) -> NDArray[np.float64]:
    """Return a row for each job and a column for each share, in seconds; NaN where there is no distribution."""
    quantiles = np.full((len(workload.jobs), len(shares)), np.nan)
    driver = PredictorDriver({"": predictor})

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind == Kind.SUBMITTED:
            answer = predictor.predict(job.submission, now)
            if isinstance(answer, Prediction) and answer.is_distribution:
                quantiles[number] = answer.quantiles(shares)

    for stride in workload.stream(starts=driver.observes, everything=driver.observes):
        pass_events(stride, driver, ask)
    return quantiles
