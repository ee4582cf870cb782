"""Drive predictors through a workload: the fast replay."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Kind
from softwalltime.jobs import ColdStart, Prediction, Submission
from softwalltime.policy.clamp import MINIMUM, soft_walltime
from softwalltime.policy.decide import decide
from softwalltime.policy.site import KEEP, WALLTIME, Terms
from softwalltime.predictors.base import Predictor
from softwalltime.predictors.registry import make
from softwalltime.replay.workload import Workload

_FIXED: Final = (WALLTIME, KEEP)
_SUBMITTED, _STARTED, _ENDED = int(Kind.SUBMITTED), int(Kind.STARTED), int(Kind.ENDED)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The soft walltime of every job of the workload in its order, in seconds; -1 for none.

    ``soft_walltimes`` are those from the submission on, ``at_start`` those from the start on; there -1 stands for the
    walltime too, which is the same to the scheduler, and for jobs that never started.
    """

    soft_walltimes: NDArray[np.int64]
    at_start: NDArray[np.int64]
    seconds: float

    @property
    def jobs_per_second(self) -> float:
        """Jobs that the predictors learnt and predicted in a second of wall-clock time."""
        return len(self.soft_walltimes) / self.seconds if self.seconds else 0.0


def drive(
    workload: Workload,
    waiting: Predictor,
    minimum: int = MINIMUM,
    progress: Callable[[int], None] = lambda _: None,
    *,
    running: Predictor | str = WALLTIME,
) -> ReplayResult:
    """Let predictors learn each job at its end, and decide about each at its submission and its start.

    :param waiting: the predictor for waiting jobs, asked at the submission.
    :param minimum: least soft walltime in seconds.
    :param progress: called with the number of jobs done since the last call.
    :param running: the predictor for running jobs, asked at the start; may be the same one.  Or ``walltime``: the
        walltime from the start on; or ``keep``: what the job has.
    """
    waits = [-1] * len(workload.jobs)
    runs = waits if running == KEEP else [-1] * len(workload.jobs)
    begin = perf_counter()
    if isinstance(running, Predictor) or waiting.observes or waiting.fits:
        _drive_both(workload, waiting, running, minimum, progress, waits, runs)
    else:
        _drive_waiting(workload, waiting, minimum, progress, waits)
    seconds = perf_counter() - begin
    at_start = np.array(runs, np.int64)
    at_start[(workload.started < 0) | (at_start == workload.walltime)] = -1
    return ReplayResult(np.array(waits, np.int64), at_start, seconds)


def drive_specs(
    workload: Workload,
    waiting: str,
    running: str = WALLTIME,
    minimum: int = MINIMUM,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayResult:
    """Drive fresh predictors by their specifications; as in the daemon, one specification is one predictor.

    :param running: may also be ``walltime`` or ``keep``.
    """
    first = make(waiting)
    if running == waiting:
        return drive(workload, first, minimum, progress, running=first)
    return drive(workload, first, minimum, progress, running=running if running in _FIXED else make(running))


def _drive_waiting(
    workload: Workload, waiting: Predictor, minimum: int, progress: Callable[[int], None], waits: list[int]
) -> None:
    """Ask at submission only.

    Of a policy that is on for all jobs, the decision at submission is the clamped prediction and nothing else, so the
    clamp alone is called: ``decide`` would double the time of a replay.  A test holds both loops to the same results.
    """
    jobs, learn, predict = workload.jobs, waiting.learn, waiting.predict
    for kinds, numbers in workload.stream(progress=progress):
        for kind, number in zip(kinds, numbers, strict=True):
            if kind:
                submission = jobs[number].submission
                seconds = soft_walltime(predict(submission, submission.submitted), submission, minimum)
                if seconds is not None:
                    waits[number] = seconds
            else:
                learn(jobs[number])


def _drive_both(
    workload: Workload,
    waiting: Predictor,
    running: Predictor | str,
    minimum: int,
    progress: Callable[[int], None],
    waits: list[int],
    runs: list[int],
) -> None:
    """Ask at submission and at start, show the events to predictors that observe, fit those that are to be fitted."""
    predictors = {"waiting": waiting}
    terms = Terms("on", "waiting", running if isinstance(running, str) else "running", minimum)
    if isinstance(running, Predictor):
        predictors["running"] = running
    pupils = list({id(each): each for each in predictors.values()}.values())
    observers = [each for each in pupils if each.observes]
    fitted = [each for each in pupils if each.fits]
    next_fit = int(workload.submitted[0]) if fitted and len(workload.jobs) else None
    jobs, started, teaches = workload.jobs, workload.started.tolist(), workload.teaches.tolist()
    now = 0

    def predict(spec: str, submission: Submission) -> Prediction | ColdStart:
        return predictors[spec].predict(submission, now)

    for kinds, numbers in workload.stream(starts=True, everything=bool(observers), progress=progress):
        for kind, number in zip(kinds, numbers, strict=True):
            job = jobs[number]
            if next_fit is not None and workload.time(kind, number) >= next_fit:
                next_fit = workload.time(kind, number) + min(each.fit_seconds for each in fitted)
                for each in fitted:
                    each.fit(workload.time(kind, number))
            if kind == _SUBMITTED:
                now = job.submission.submitted
                decision = decide(terms, kind, job.submission, None, predict)
                if decision.soft_walltime is not None:
                    waits[number] = decision.soft_walltime
            elif kind == _STARTED:
                now, has = started[number], waits[number]
                decision = decide(terms, kind, job.submission, None if has < 0 else has, predict)
                runs[number] = has if decision.soft_walltime is None else decision.soft_walltime
            for observer in observers:
                observer.observe(workload.event(kind, number))
            if kind == _ENDED and teaches[number]:
                for pupil in pupils:
                    pupil.learn(job)
