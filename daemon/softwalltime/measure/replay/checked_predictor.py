"""Check each call of a predictor; errors name the predictor and the job."""

from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from typing import TypeVar
from weakref import WeakValueDictionary

from softwalltime.core.errors import OptionError, SoftwalltimeError
from softwalltime.core.events import Ended, Event
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predict.drive import require_answer
from softwalltime.predict.predictors.base import History, Predictor

T = TypeVar("T")

_driven: WeakValueDictionary[int, Predictor] = WeakValueDictionary()
"""Predictors that were already used in a replay, by identity."""


class CheckedPredictor(Predictor):
    """A predictor whose calls and answers are checked (:func:`.require_answer`)."""

    name, summary, source = "checked", "", ""

    def __init__(self, predictor: Predictor, name: str) -> None:
        super().__init__(predictor.options)
        self._predictor = predictor
        self._name = name
        self.fit_seconds = predictor.fit_seconds  # type: ignore[misc]  # a driver reads it of the object

    @property
    def history(self) -> History:
        return self._predictor.history

    @property
    def observes(self) -> bool:
        return self._predictor.observes

    @property
    def fits(self) -> bool:
        return self._predictor.fits

    def observe(self, event: Event) -> None:
        submission = event.job.submission if isinstance(event, Ended) else event.submission
        self._called("observe", submission, lambda: self._predictor.observe(event))

    def fit(self, now: int) -> None:
        self._called("fit", None, lambda: self._predictor.fit(now))

    def learn(self, job: CompletedJob) -> None:
        self._called("learn", job.submission, lambda: self._predictor.learn(job))

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        return self._called(
            "predict", submission, lambda: require_answer(self._predictor.predict(submission, now, elapsed))
        )

    def _called(self, call: str, submission: Submission | None, function: Callable[[], T]) -> T:
        """Call the predictor.

        :raises SoftwalltimeError: if it raises, or its answer is none; names it and the job.
        """
        try:
            return function()
        except Exception as error:
            job = f"job {submission.job_id}: " if submission is not None else ""
            raise SoftwalltimeError(f"predictor {self._name}: {job}{call}: {type(error).__name__}: {error}") from error


def checked(predictor: Predictor, name: str) -> CheckedPredictor:
    """Wrap a new predictor with checks; it may be used for one replay.

    :raises OptionError: if it has learnt already: it would know jobs before they end.
    """
    if _driven.get(id(predictor)) is predictor or _has_learnt(predictor):
        raise OptionError(
            f"predictor {name} has learnt already, and would know jobs before their end: make a new one for each replay"
        )
    _driven[id(predictor)] = predictor
    return CheckedPredictor(predictor, name)


def _has_learnt(predictor: Predictor) -> bool:
    """Return whether a container of the predictor has more items than in a new predictor of its class."""
    try:
        new = type(predictor)(predictor.options)
    # The class may need other arguments: then there is no new instance to compare with.
    except Exception:
        return False
    return any(_size(value) > _size(getattr(new, name, None)) for name, value in vars(predictor).items())


def _size(value: object) -> int:
    return len(value) if isinstance(value, (MutableMapping, MutableSequence, MutableSet)) else 0
