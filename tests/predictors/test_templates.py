"""Predictions from the last jobs of several categories."""

import pytest

from softwalltime.core.errors import OptionError
from softwalltime.core.jobs import Prediction
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make
from tests.samples import job

DAY = 86400


def taught(spec: str, runtimes: list[int], **more: object) -> Predictor:
    model = make(spec)
    for number, runtime in enumerate(runtimes):
        model.learn(job(end=10_000 * (number + 1), runtime=runtime, **more))
    return model


def predicted(model: Predictor, now: int = DAY, **asked: object) -> float | None:
    answer = model.predict(job(**asked).submission, now)
    return answer.seconds if isinstance(answer, Prediction) else None


def test_windowed_mean_and_line() -> None:
    assert predicted(taught("templates:templates=user,estimators=wm2", [100, 200, 400])) == 300
    assert predicted(taught("templates:templates=user,estimators=lr5", [100, 200, 300])) == pytest.approx(400)
    assert predicted(taught("templates:templates=user,estimators=lr5", [900, 500, 100])) == 1, "never below 1 s"
    assert predicted(taught("templates:templates=user,estimators=lr5", [100])) is None


def test_the_default_averages_what_the_categories_give() -> None:
    model = taught("templates", [100, 100], group="g", job_name="a")
    model.learn(job(end=50_000, runtime=700, group="g", job_name="b"))
    # Of another name: no category with the name, but the user's and the group's, each with a line and a last runtime.
    line = 900.0
    assert predicted(model, group="g", job_name="c") == pytest.approx((line + 700 + line + 700) / 4)


def test_lsterr_takes_the_predictor_that_was_best_of_late() -> None:
    rising = [100, 200, 300, 400, 500, 600]
    assert predicted(taught("templates:templates=user,estimators=lr5+wm1,method=lsterr", rising)) == pytest.approx(700)
    steps = [100, 900, 900, 100, 100, 900, 900, 100, 100]
    assert predicted(taught("templates:templates=user,estimators=lr2+wm1,method=lsterr", steps)) == 100


def test_categories_are_removed_after_the_window() -> None:
    model = taught("templates:window=1d", [100, 200])
    assert predicted(model, now=DAY) is not None
    assert predicted(model, now=3 * DAY) is None


@pytest.mark.parametrize("options", ["templates=moon", "estimators=ar1", "estimators=wm0", "method=best"])
def test_wrong_options_are_named(options: str) -> None:
    with pytest.raises(OptionError, match=options.partition("=")[0]):
        make(f"templates:{options}")
