"""Predictors of unknown quality: each call is checked, and an error names the predictor and the job."""

import math
from collections.abc import MutableMapping, MutableSequence, MutableSet
from numbers import Real
from typing import Any
from weakref import WeakValueDictionary

from softwalltime.errors import OptionError, SoftwalltimeError
from softwalltime.events import Event
from softwalltime.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predictors.base import History, Predictor

_driven: WeakValueDictionary[int, Predictor] = WeakValueDictionary()
"""Predictors that were driven once, by identity."""


class CheckedPredictor(Predictor):
    """A predictor whose calls are checked.

    ``name`` is that of the predictor, for messages.  An answer must be a :class:`Prediction` of seconds, not
    negative and not NaN, or a :class:`NoPrediction`.
    """

    name, summary, source = "checked", "", ""

    def __init__(self, predictor: Predictor, name: str) -> None:
        super().__init__(predictor.options)
        self._predictor = predictor
        self._name = name
        self.fit_seconds = predictor.fit_seconds  # type: ignore[misc]  # a driver reads it of the object

    @property
    def history(self) -> History:
        """That of the predictor."""
        return self._predictor.history

    @property
    def observes(self) -> bool:
        """Whether the predictor observes."""
        return self._predictor.observes

    @property
    def fits(self) -> bool:
        """Whether the predictor is fitted."""
        return self._predictor.fits

    def observe(self, event: Event) -> None:
        """Let the predictor observe."""
        try:
            self._predictor.observe(event)
        except Exception as error:
            raise self._failed("observe", _submission_of(event), error) from error

    def fit(self, now: int) -> None:
        """Fit the predictor."""
        try:
            self._predictor.fit(now)
        except Exception as error:
            raise self._failed("fit", None, error) from error

    def learn(self, job: CompletedJob) -> None:
        """Let the predictor learn."""
        try:
            self._predictor.learn(job)
        except Exception as error:
            raise self._failed("learn", job.submission, error) from error

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        """Return the predictor's answer.

        :raises SoftwalltimeError: if it raises, or its answer is none.
        """
        try:
            answer: Any = self._predictor.predict(submission, now, elapsed)
        except Exception as error:
            raise self._failed("predict", submission, error) from error
        if isinstance(answer, NoPrediction):
            return answer
        where = f"predictor {self._name}: job {submission.job_id}: predict returned"
        if not isinstance(answer, Prediction):
            raise SoftwalltimeError(f"{where} {answer!r}: return a Prediction or a NoPrediction")
        seconds: Any = answer.seconds
        if not isinstance(seconds, Real) or math.isnan(seconds) or seconds < 0:
            raise SoftwalltimeError(f"{where} {seconds!r} as seconds: return a number, 0 or more")
        return answer

    def _failed(self, call: str, submission: Submission | None, error: Exception) -> SoftwalltimeError:
        job = f"job {submission.job_id}: " if submission is not None else ""
        return SoftwalltimeError(f"predictor {self._name}: {job}{call}: {type(error).__name__}: {error}")


def checked(predictor: Predictor, name: str) -> CheckedPredictor:
    """Return a new predictor with checks, which may be driven once.

    :raises OptionError: if it has learnt already: it would know jobs before they end.
    """
    if _driven.get(id(predictor)) is predictor or _has_learnt(predictor):
        raise OptionError(
            f"predictor {name} has learnt already, and would know jobs before their end: make a new object for each "
            "replay or simulation"
        )
    _driven[id(predictor)] = predictor
    return CheckedPredictor(predictor, name)


def _has_learnt(predictor: Predictor) -> bool:
    """Whether a list, dictionary or set of the predictor holds more than in a new predictor of its class."""
    try:
        new = type(predictor)(predictor.options)
    # A class may need other arguments; then nothing is known of a new one.
    except Exception:
        return False
    return any(_size(value) > _size(getattr(new, name, None)) for name, value in vars(predictor).items())


def _size(value: object) -> int:
    return len(value) if isinstance(value, (MutableMapping, MutableSequence, MutableSet)) else 0


def _submission_of(event: Event) -> Submission | None:
    job: Any = getattr(event, "job", None)
    submission = getattr(event, "submission", None) or getattr(job, "submission", None)
    return submission if isinstance(submission, Submission) else None
