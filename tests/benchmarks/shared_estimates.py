"""Measure several variants of the predictor calibrated in one pass over the jobs.

They have the same weights, and therefore the same distributions: the first one estimates them, the others take its
estimates.  For that, methods of the objects are replaced.
"""

from collections.abc import Callable, Sequence
from time import thread_time_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.calibrated import Calibrated
from softwalltime.predict.predictors.learned.features import Estimate, Known
from softwalltime.predict.predictors.registry import make


class SharedEstimates:
    """The predictors of some specifications, which all have the same weights."""

    def __init__(self, specs: Sequence[str]) -> None:
        self.models: list[Calibrated] = []
        self._made: list[Estimate] = []
        self._known: tuple[Known, list[str]]
        self._place = 0
        self._inside = False
        self._estimating = 0
        self.spent = [0] * len(specs)
        """Nanoseconds of processor time of each predictor; of all but the first without the estimates."""
        for spec in specs:
            model = make(spec)
            assert isinstance(model, Calibrated)
            if self.models:
                self._follow(model)
            else:
                self._lead(model)
            self.models.append(model)

    @property
    def seconds(self) -> list[float]:
        """Processor time that each predictor would have used alone."""
        first, *others = self.spent
        return [first / 1e9, *((each + self._estimating) / 1e9 for each in others)]

    def predict(self, submission: Submission, now: int) -> list[Prediction | NoPrediction]:
        """Return each predictor's answer at ``now`` (epoch seconds)."""
        self._made.clear()
        answers: list[Prediction | NoPrediction] = []
        for place, model in enumerate(self.models):
            self._place, begin = 0, thread_time_ns()
            answers.append(model.predict(submission, now))
            self.spent[place] += thread_time_ns() - begin
        return answers

    def learn(self, job: CompletedJob) -> None:
        """Let each predictor learn a job."""
        self._made.clear()
        for place, model in enumerate(self.models):
            self._place, begin = 0, thread_time_ns()
            model.learn(job)
            self.spent[place] += thread_time_ns() - begin

    def _lead(self, model: Calibrated) -> None:
        estimate = model._estimate

        def keep(known: Known) -> Estimate:
            self._made.append(estimate(known))
            return self._made[-1]

        known = self._timed(model.known)

        def keep_known(submission: Submission, now: int) -> tuple[Known, list[str]]:
            self._known = known(submission, now)
            return self._known

        model._estimate = self._timed(keep)  # type: ignore[method-assign]  # keeps what it returns
        model.known = keep_known  # type: ignore[method-assign]  # is timed, and keeps what it returns
        model._known_then = self._timed(model._known_then)  # type: ignore[method-assign]  # is timed

    def _follow(self, model: Calibrated) -> None:
        # What was known then is only handed on to the estimate.
        then: Any = None
        model.known = lambda *_: self._known  # type: ignore[method-assign]  # costs nothing
        model._known_then = lambda *_: then  # type: ignore[method-assign]  # costs nothing
        model._estimate = lambda known: self._next()  # type: ignore[method-assign]  # takes the first one's

    def _next(self) -> Estimate:
        self._place += 1
        return self._made[self._place - 1]

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            if self._inside:
                return function(*arguments)
            self._inside, begin = True, thread_time_ns()
            try:
                return function(*arguments)
            finally:
                self._inside = False
                self._estimating += thread_time_ns() - begin

        return call


def record_together(workload: Workload, specs: Sequence[str], minimum: int) -> list[tuple[NDArray[np.int64], float]]:
    """Let predictors with the same weights learn each job at its end and predict it at its submission.

    Return the soft walltime of each job in seconds, -1 for none, and the processor time in seconds, for each one.

    :param minimum: the least soft walltime in seconds.
    """
    shared = SharedEstimates(specs)
    found = np.full((len(specs), len(workload.jobs)), -1)
    for stride in workload.stream(starts=True, everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            submission = job.submission
            if kind == Kind.SUBMITTED and not submission.shrink_to_fit:
                answers = shared.predict(submission, submission.submitted)
                values = [soft_walltime(answer, submission, minimum) for answer in answers]
                found[:, number] = [-1 if value is None else value for value in values]
            shared.models[0].observe(event_of(kind, now, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                shared.learn(job)
    return list(zip(found, shared.seconds, strict=True))
