"""The daemon fits predictors in another thread: no answer waits, and no job learnt in the meantime is lost."""

import copy
from collections.abc import Iterator
from threading import Event, Thread
from typing import ClassVar

import pytest

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.protocol import Request
from tests.samples import job
from tests.spy import registered

PATIENT = 60.0
AT: dict[str, Event] = {}
GO: dict[str, Event] = {}


def pause(where: str) -> None:
    AT[where].set()
    assert GO[where].wait(PATIENT)


class Slow(Predictor):
    """Predicts the number of jobs learnt before the last fit; copy and fit take as long as a test needs."""

    name: ClassVar[str] = "slow"
    summary: ClassVar[str] = "as many seconds as jobs were learnt at the last fit"
    source: ClassVar[str] = "the tests"
    fails: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.learnt = 0
        self.fitted: int | None = None

    def learn(self, job: CompletedJob) -> None:
        self.learnt += 1

    def fit(self, now: int) -> None:
        pause("fit")
        if self.fails:
            raise ArithmeticError("it does not converge")
        self.fitted = self.learnt

    def __deepcopy__(self, memo: dict[int, object]) -> "Slow":
        pause("copy")
        return copy.copy(self)

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        if self.fitted is None:
            return NoPrediction(Reason.OTHER, ("it was not fitted yet",))
        return Prediction(100.0 * self.fitted + self.learnt, "{} jobs at the last fit", (self.fitted,))


@pytest.fixture(params=[False, True])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PredictionService]:
    monkeypatch.setattr(Slow, "fails", request.param)
    for where in ("copy", "fit"):
        AT[where], GO[where] = Event(), Event()
    with registered(Slow):
        service = PredictionService(SitePolicy(mode="on", waiting="slow"), clock=lambda: 1000.0)
        service.ready = True
        yield service


def predicted(service: PredictionService) -> float | None:
    return service.decide(Request("predict", job=job(walltime=10_000).submission))[1].predicted


def test_answers_and_learning_continue_while_a_predictor_is_copied_and_fitted(service: PredictionService) -> None:
    service.learn([job(end=n) for n in range(500, 503)])
    thread = Thread(target=service.fit, args=[1000], daemon=True)
    thread.start()
    for where in ("copy", "fit"):
        assert AT[where].wait(PATIENT)
        # Both return while the other thread is blocked in the copy or the fit.
        assert predicted(service) is None
        service.learn([job(end=600)])
        assert service.learnt == {"copy": 4, "fit": 5}[where]
        GO[where].set()
    thread.join(PATIENT)
    if Slow.fails:
        assert [(failure.step, failure.count) for failure in service.errors.failures()] == [("fit", 1)]
        (slow,) = service.driver.predictors.values()
        assert isinstance(slow, Slow)
        assert slow.learnt == 5, "the original lacks nothing"
        assert predicted(service) is None
    else:
        assert predicted(service) == 100 * 3 + 5, "fitted to the jobs that were known when it was copied; knows all"
    service.learn([job(end=700)])
    assert service.learnt == 6


def test_a_policy_without_such_a_predictor_needs_no_fit() -> None:
    assert PredictionService(SitePolicy(waiting="v1")).driver.fit_seconds is None
    with registered(Slow):
        assert PredictionService(SitePolicy(waiting="slow")).driver.fit_seconds == 3600
