"""The order in which predictors are driven, and that an error of one costs only itself."""

import logging
from typing import ClassVar

import pytest

from softwalltime.core.events import Ended, Event, Submitted
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.predict.drive import PredictorDriver, PredictorErrors, PredictorFailure
from softwalltime.predict.predictors.base import EVERYTHING, History, Options, Predictor
from tests.samples import job

STEPS = ("history", "fit", "predict", "observe", "learn")


class Steps(Predictor):
    """Writes down its steps; fails in those of ``failing``."""

    name: ClassVar[str] = "steps"
    summary: ClassVar[str] = "writes down its steps"
    source: ClassVar[str] = "the tests"

    def __init__(self, failing: str = "", answer: object = Prediction(100.0, "")) -> None:
        super().__init__(Options())
        self.failing, self.answer = failing, answer
        self.steps: list[str] = []

    def _step(self, step: str) -> None:
        self.steps.append(step)
        if step == self.failing:
            raise ArithmeticError(f"no {step}")

    @property
    def history(self) -> History:
        self._step("history")
        return History(per_user=2)

    def fit(self, now: int) -> None:
        self._step("fit")

    def observe(self, event: Event) -> None:
        self._step("observe")

    def learn(self, job: CompletedJob) -> None:
        self._step("learn")

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        self._step("predict")
        return self.answer  # type: ignore[return-value]  # of another package it may be anything


def run(driver: PredictorDriver, count: int = 3) -> list[Prediction | NoPrediction]:
    """Pass the ends of some jobs; ask each predictor at each of them."""
    answers: list[Prediction | NoPrediction] = []
    driver.histories()
    for number in range(count):
        ended = job(job_id=f"{number}.srv", end=500 + number)

        def ask(submission: Submission, now: int) -> None:
            answers.extend(driver.predict(spec, submission, now) for spec in driver.predictors)

        driver.step(ended.end, ask, Ended(ended.end, ended), ended, ended.submission, ended.end)
    return answers


def test_at_each_event_predictors_are_fitted_if_due_asked_shown_the_event_and_taught() -> None:
    driven = Steps()
    run(PredictorDriver({"a": driven}))
    first, later = ["fit", "predict", "observe", "learn"], ["predict", "observe", "learn"]
    assert driven.steps == ["history", *first, *later, *later]


def test_predictors_are_fitted_after_their_own_interval() -> None:
    driven = Steps()
    driver = PredictorDriver({"a": driven})
    for now in (0, 3599, 3600, 7199, 7200):
        driver.step(now)
    assert driven.steps == ["fit"] * 3


def test_only_predictors_that_observe_are_shown_the_event() -> None:
    class Blind(Steps):
        observe = Predictor.observe

    blind, driven = Blind(), Steps()
    assert not PredictorDriver({"blind": blind}).observes
    driver = PredictorDriver({"blind": blind, "a": driven})
    driver.step(0, event=Ended(0, job()), job=job())
    assert driver.observes
    assert (blind.steps, driven.steps) == (["fit", "learn"], ["fit", "observe", "learn"])


def test_a_predictor_that_takes_the_place_of_another_one_gets_its_events_and_fits() -> None:
    old, new = Steps(), Steps()
    driver = PredictorDriver({"a": old})
    driver.step(0)
    driver.replace({"a": new})
    driver.step(3600, event=Submitted(3600, job().submission))
    assert (old.steps, new.steps) == (["fit"], ["fit", "observe"])


@pytest.mark.parametrize("step", STEPS)
def test_an_error_costs_the_other_predictors_nothing(step: str, caplog: pytest.LogCaptureFixture) -> None:
    errors = PredictorErrors()
    bad, good, alone = Steps(step), Steps(), Steps()
    with caplog.at_level(logging.ERROR):
        # The bad one comes first.
        run(PredictorDriver({"bad": bad, "good": good}, errors))
        run(PredictorDriver({"good": alone}, errors))
    assert good.steps == alone.steps
    assert bad.steps.count("learn") == 3, "no job is taught twice or not at all"
    count = 3 if step in ("predict", "observe", "learn") else 1
    of = ", job 2.srv" if count == 3 else ""
    assert errors.failures() == (PredictorFailure("bad", step, count, f"ArithmeticError: no {step}{of}"),)
    of = ", job 0.srv" if count == 3 else ""
    (record,) = caplog.records
    assert record.getMessage() == f"predictor bad failed in {step}{of}; the others continue"


@pytest.mark.parametrize("step", STEPS)
def test_without_counting_errors_are_raised(step: str) -> None:
    with pytest.raises(ArithmeticError, match=f"no {step}"):
        run(PredictorDriver({"bad": Steps(step), "good": Steps()}))


@pytest.mark.parametrize("answer", [None, 5, "x", Prediction(float("nan"), ""), Prediction(-1.0, "")])
def test_an_answer_that_is_none_is_an_error(answer: object) -> None:
    errors = PredictorErrors()
    found = PredictorDriver({"a": Steps(answer=answer)}, errors).predict("a", job().submission, 0)
    assert isinstance(found, NoPrediction)
    assert found.reason is Reason.OTHER
    assert "predictor a failed" in found.basis
    assert [(failure.step, failure.count) for failure in errors.failures()] == [("predict", 1)]


def test_each_kind_of_error_is_logged_once_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    errors = PredictorErrors()
    with caplog.at_level(logging.ERROR):
        for number in range(10):
            errors.note("a", "learn", f"{number}.srv", (ValueError if number % 2 else KeyError)("x"))
    assert [record.getMessage() for record in caplog.records] == [
        f"predictor a failed in learn, job {number}.srv; the others continue" for number in (0, 1)
    ]
    assert [(failure.count, failure.last) for failure in errors.failures()] == [(10, "ValueError: x, job 9.srv")]


def test_a_predictor_whose_history_is_unknown_gets_all_jobs() -> None:
    driver = PredictorDriver({"a": Steps("history"), "b": Steps()}, PredictorErrors())
    assert driver.histories() == [EVERYTHING, History(per_user=2)]


def test_copies_that_cannot_be_fitted_are_left_out() -> None:
    errors = PredictorErrors()
    driver = PredictorDriver({"a": Steps("fit"), "b": Steps(), "c": Steps("learn")}, errors)
    fitted = driver.copies().fit(0)
    assert fitted.predictors.keys() == {"b", "c"}
    assert all(predictor is not driver.predictors[spec] for spec, predictor in fitted.predictors.items())
    driver.observe(Submitted(0, job().submission))
    assert [(failure.predictor, failure.step) for failure in errors.failures()] == [("a", "fit")]
