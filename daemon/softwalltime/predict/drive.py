"""Drive predictors through the events of jobs: fit, predict, observe, learn, in this order at each event.

Daemon, replay, tuning, training, forecast and simulator supply the events and use the predictions.  With a
:class:`PredictorErrors` a predictor's error is counted and logged, and the other predictors continue; otherwise it is
raised.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from threading import Lock
from typing import TypeVarTuple

from softwalltime.core.events import Ended, Event
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.predictors.base import EVERYTHING, History, Predictor

log = logging.getLogger(__name__)
Details = TypeVarTuple("Details")


@dataclass(frozen=True, slots=True)
class PredictorFailure:
    """Errors of one predictor in one step."""

    predictor: str
    """Specification of the predictor."""
    step: str
    """Method that raised: history, fit, predict, observe or learn."""
    count: int
    """Number of errors since the history was loaded."""
    last: str
    """The last error, and the job if there is one."""


class PredictorErrors:
    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], PredictorFailure] = {}
        self._logged: set[tuple[str, str, type[Exception]]] = set()
        self._lock = Lock()

    def note(self, spec: str, step: str, job_id: str, error: Exception) -> None:
        """Count an error; log it if it is the first of this predictor, step and type.

        :param job_id: the job that was passed; empty: the step is not about one job.
        """
        about = f", job {job_id}" if job_id else ""
        last = f"{type(error).__name__}: {error}{about}"
        with self._lock:
            before = self._failures.get((spec, step))
            self._failures[spec, step] = PredictorFailure(spec, step, before.count + 1 if before else 1, last)
            kind = spec, step, type(error)
            if kind in self._logged:
                return
            self._logged.add(kind)
        log.error("predictor %s failed in %s%s; the others continue", spec, step, about, exc_info=error)

    def failures(self) -> tuple[PredictorFailure, ...]:
        with self._lock:
            return tuple(failure for _, failure in sorted(self._failures.items()))


class PredictorDriver:
    """A set of predictors that receive the same events; not thread-safe.

    :param errors: counts the predictors' errors instead of raising them.
    """

    def __init__(self, predictors: Mapping[str, Predictor], errors: PredictorErrors | None = None) -> None:
        self.predictors = dict(predictors)
        self._errors = errors
        self._next_fits: dict[str, float] = {}
        self._select()

    def _select(self) -> None:
        # Computed once: a replay of millions of jobs takes a tenth less time.
        self._observers = {spec: predictor for spec, predictor in self.predictors.items() if predictor.observes}
        self._fitted = {spec: predictor for spec, predictor in self.predictors.items() if predictor.fits}
        self.observes = bool(self._observers)
        """Whether a predictor observes events."""
        self.fits = bool(self._fitted)
        """Whether a predictor needs fitting."""

    def replace(self, predictors: Mapping[str, Predictor]) -> None:
        self.predictors.update(predictors)
        self._select()

    @property
    def fit_seconds(self) -> int | None:
        """Shortest ``fit_seconds`` of all predictors; ``None``: none needs fitting."""
        return min((predictor.fit_seconds for predictor in self._fitted.values()), default=None)

    def histories(self) -> list[History]:
        """Return the history that each predictor needs; all jobs for one that raises an error."""
        histories = []
        for spec, predictor in self.predictors.items():
            history = EVERYTHING
            with self._isolated(spec, "history"):
                history = predictor.history
            histories.append(history)
        return histories

    def step(
        self,
        now: int,
        ask: Callable[[*Details], object] | None = None,
        event: Event | None = None,
        job: CompletedJob | None = None,
        *details: *Details,
    ) -> None:
        """Process one event: fit predictors that are due, predict, observe the event, learn the job.

        :param now: time of the event, epoch seconds.
        :param ask: called with ``details`` to predict as of this event.
        :param event: the event; ``None`` where no predictor observes (:attr:`observes`).
        :param job: the job that ended with this event, if it is to be learnt.
        """
        if self.fits:
            self.fit_due(now)
        if ask is not None:
            ask(*details)
        if event is not None:
            self.observe(event)
        if job is not None:
            self.learn(job)

    def fit_due(self, now: int) -> None:
        """Fit each predictor whose ``fit_seconds`` have passed since its last fit."""
        for spec, predictor in self._fitted.items():
            if now >= self._next_fits.get(spec, -math.inf):
                self._next_fits[spec] = now + predictor.fit_seconds
                with self._isolated(spec, "fit"):
                    predictor.fit(now)

    def copies(self) -> "PredictorDriver":
        copies = {}
        for spec, predictor in self._fitted.items():
            with self._isolated(spec, "fit"):
                copies[spec] = deepcopy(predictor)
        return PredictorDriver(copies, self._errors)

    def fit(self, now: int) -> "PredictorDriver":
        """Fit all predictors; return a driver of those that were fitted without error."""
        fitted = {}
        for spec, predictor in self.predictors.items():
            with self._isolated(spec, "fit"):
                predictor.fit(now)
                fitted[spec] = predictor
        return PredictorDriver(fitted, self._errors)

    def predict(self, spec: str, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return a predictor's answer; an error that is counted becomes ``NoPrediction`` with the error as reason."""
        if self._errors is None:
            return self.predictors[spec].predict(submission, now, elapsed)
        try:
            return require_answer(self.predictors[spec].predict(submission, now, elapsed))
        # A predictor of another package may raise any exception.
        except Exception as error:
            self._errors.note(spec, "predict", submission.job_id, error)
            reason = f"predictor {spec} failed: {type(error).__name__}, see softwalltime status"
            return NoPrediction(Reason.OTHER, (reason,))

    def observe(self, event: Event) -> None:
        for spec, predictor in self._observers.items():
            try:
                predictor.observe(event)
            except Exception as error:
                submission = event.job.submission if isinstance(event, Ended) else event.submission
                self._failed(spec, "observe", submission.job_id, error)

    def learn(self, job: CompletedJob) -> None:
        """Let each predictor learn this job once, even if another one fails."""
        for spec, predictor in self.predictors.items():
            try:
                predictor.learn(job)
            except Exception as error:
                self._failed(spec, "learn", job.submission.job_id, error)

    @contextmanager
    def _isolated(self, spec: str, step: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._failed(spec, step, "", error)

    def _failed(self, spec: str, step: str, job_id: str, error: Exception) -> None:
        if self._errors is None:
            raise error
        self._errors.note(spec, step, job_id, error)


def require_answer(answer: object) -> Prediction | NoPrediction:
    """Return the answer of a predictor.

    :raises TypeError: if it is no answer.
    :raises ValueError: if its seconds are negative or not finite.
    """
    if isinstance(answer, NoPrediction):
        return answer
    if not isinstance(answer, Prediction):
        raise TypeError(f"predict returned {type(answer).__name__}, not Prediction or NoPrediction")
    if not isinstance(answer.seconds, Real) or not 0 <= answer.seconds < math.inf:
        raise ValueError(f"predict returned {answer.seconds!r} seconds")
    return answer
