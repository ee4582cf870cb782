"""Online polynomial regression: known coefficients are found, the loss is asymmetric, features are those of then."""

import numpy as np
import pytest

from softwalltime.core.errors import OptionError
from softwalltime.core.events import Ended, Started
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.predict.predictors.gaussier import (
    FEATURES,
    MAX_LATENESS_S,
    MAX_USER_RUNS,
    Asked,
    Gaussier,
    GaussierOptions,
    NormalisedGradient,
    PastRun,
    UserRuns,
    polynomial,
    slope,
    weight_of,
)
from softwalltime.predict.predictors.registry import make
from tests.samples import job

DAY = 86400
SQUARED = "gaussier:over=squared,under=squared,weight=one,l2=0"


def test_known_coefficients_are_found_whatever_the_scales() -> None:
    draw, scales = np.random.default_rng(1), np.array([1.0, 1e-3, 1e6])
    true = np.array([700.0, -40.0, 15.0])
    model = NormalisedGradient(3, eta=200.0)
    for _ in range(20_000):
        x = np.concatenate(([1.0], draw.uniform(-1, 1, 2))) * scales
        model.step(x, 2 * (model.rescale(x) - float(true / scales @ x)))
    assert model.coefficients * scales == pytest.approx(true, abs=0.5)


def test_the_unit_of_a_feature_changes_no_prediction() -> None:
    draw = np.random.default_rng(2)
    models = [NormalisedGradient(4, eta=100.0) for _ in range(2)]
    factors = [np.ones(4), np.array([1.0, 2.0**-10, 2.0**20, 2.0**3])]
    for _ in range(300):
        x, y = draw.normal(size=4) * [1, 5, 10, 100], float(draw.normal(1000, 300))
        answers = []
        for model, factor in zip(models, factors, strict=True):
            answers.append(model.rescale(x * factor))
            assert model.predict(x * factor) == answers[-1]
            model.step(x * factor, 2 * (answers[-1] - y))
        assert answers[0] == pytest.approx(answers[1], rel=1e-9, abs=1e-9)


def test_the_penalty_reduces_coefficients() -> None:
    x = np.ones(1)
    free, bound = NormalisedGradient(1, eta=10.0), NormalisedGradient(1, eta=10.0, l2=2.0)
    for _ in range(2000):
        for model in (free, bound):
            model.step(x, 2 * (model.rescale(x) - 100))
    # The minimum of (w - 100)^2 + l2 / 2 w^2.
    assert free.coefficients[0] == pytest.approx(100, abs=0.5)
    assert bound.coefficients[0] == pytest.approx(50, abs=0.5)


def history(count: int = 4000, *, noise: float = 0.0) -> list[CompletedJob]:
    """Jobs whose runtime is a known polynomial of request and processors; one job every 20 min."""
    draw = np.random.default_rng(3)
    found = []
    for number in range(count):
        walltime, ncpus = int(draw.integers(1, 11)) * 1000, int(draw.integers(1, 9))
        runtime = 0.3 * walltime + 0.05 * walltime * ncpus * float(np.exp(noise * draw.normal()))
        submitted = number * 1200
        found.append(
            job(
                f"user{number % 3}", job_id=f"{number}.srv", submitted=submitted, runtime=round(runtime),
                walltime=walltime, ncpus=ncpus, end=submitted + round(runtime),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: each.end)


def taught(spec: str, jobs: list[CompletedJob]) -> Gaussier:
    model = make(spec)
    assert isinstance(model, Gaussier)
    for each in jobs:
        model.learn(each)
    return model


def predicted(model: Gaussier, walltime: int, ncpus: int, now: int) -> float:
    answer = model.predict(job("user1", submitted=now, walltime=walltime, ncpus=ncpus).submission, now)
    assert isinstance(answer, Prediction)
    return answer.seconds


def test_it_learns_a_runtime_that_is_a_product_of_request_and_processors() -> None:
    jobs = history()
    model = taught(SQUARED, jobs)
    for walltime, ncpus in ((2000, 2), (5000, 8), (9000, 4)):
        true = 0.3 * walltime + 0.05 * walltime * ncpus
        assert predicted(model, walltime, ncpus, jobs[-1].end) == pytest.approx(true, rel=0.1)


def test_the_branch_that_is_squared_is_avoided() -> None:
    jobs, found = history(2500, noise=0.5), []
    for spec in ("gaussier:l2=0", SQUARED, "gaussier:over=linear,under=squared,l2=0"):
        model = taught(spec, jobs)
        features = model._users["user1"].features(Asked("", jobs[-1].end, 6000, 4), jobs[-1].end)
        # Before its sign is dropped: the default loss hardly raises a function that once became negative.
        found.append(model._function.predict(polynomial(features)))
    low, middle, high = found
    assert low < 0.8 * middle < middle < high


@pytest.mark.parametrize(
    ("error", "options", "expected"),
    [
        (100.0, {}, 200.0 * (1 + np.log(50 * 4))),
        (-100.0, {}, -1.0 * (1 + np.log(50 * 4))),
        (0.0, {"over": "linear"}, 0.0),
        (100.0, {"over": "linear", "weight": "one"}, 1.0),
        (-100.0, {"under": "squared", "weight": "one"}, -200.0),
        (100.0, {"weight": "short-wide"}, 200.0 * (5 + np.log(4 / 50))),
        (100.0, {"weight": "long-narrow"}, 200.0 * (5 + np.log(50 / 4))),
        (100.0, {"weight": "small"}, 200.0 * (11 - np.log(50 * 4))),
    ],
)
def test_the_loss_has_the_published_slope(error: float, options: dict[str, str], expected: float) -> None:
    assert slope(error, 50, 4, GaussierOptions.model_validate(options)) == pytest.approx(expected)


def test_no_weight_is_negative() -> None:
    assert weight_of(100_000, 10_000, "small") == 0.0


def test_a_job_trains_with_the_features_of_its_submission() -> None:
    """What the user's jobs were then, though others have ended and started since."""
    first, second = job(job_id="1.srv", runtime=100, end=1000), job(job_id="2.srv", runtime=400, end=1500, ncpus=2)
    long = job(job_id="3.srv", runtime=3000, end=4000, walltime=5000, ncpus=6)
    asked, now = Asked("4.srv", 2000, 300, 4), 2000
    live = make("gaussier")
    assert isinstance(live, Gaussier)
    for each in (first, second, long):
        live.observe(Started(each.end - each.runtime, each.submission))
        if each is not long:
            live.observe(Ended(each.end, each))
            live.learn(each)
    (user,) = live._users.values()
    then = dict(zip(FEATURES, user.features(asked, now), strict=True))
    assert then["last1"] == 300, "at most the walltime"
    assert (then["last2"], then["last3"], then["mean2"], then["mean"]) == (100, 300, 200, 250)
    assert (then["running"], then["longest running"], then["running processors"]) == (1, 1000, 6)
    assert (then["break"], then["processors by mean"]) == (500, 4 / 1.5)
    live.observe(Ended(long.end, long))
    live.learn(long)
    live.learn(job(job_id="5.srv", submitted=2500, runtime=1, end=4500))
    assert dict(zip(FEATURES, user.features(asked, now), strict=True)) == then


def test_a_job_is_learned_a_day_after_its_end_and_only_with_what_is_kept() -> None:
    model = make("gaussier")
    assert isinstance(model, Gaussier)
    model.learn(job(job_id="1.srv", end=1000))
    assert isinstance(model.predict(job().submission, 2000), NoPrediction)
    model.learn(job("bob", job_id="2.srv", end=1000 + MAX_LATENESS_S))
    assert isinstance(model.predict(job().submission, 2000), Prediction)
    user = UserRuns()
    for number in range(MAX_USER_RUNS + 10):
        user.add(PastRun(100 + number, 0, 0, 1, 1))
    assert not user.knows(105)
    assert user.knows(110)
    assert (len(user.runs), user.count) == (MAX_USER_RUNS, MAX_USER_RUNS + 10)


def test_the_polynomial_has_each_square_and_product_once() -> None:
    found = polynomial([float(2**number) for number in range(len(FEATURES))])
    products = sorted(2.0 ** (one + other) for one in range(20) for other in range(one, 20))
    assert sorted(found[21:].tolist()) == products
    assert found[:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("option", ["eta", "l2"])
def test_options_that_make_the_function_no_number_are_refused(option: str) -> None:
    for value in ("inf", "1e300", "nan"):
        with pytest.raises(OptionError, match=option):
            make(f"gaussier:{option}={value}")


def test_a_job_without_walltime_gets_and_teaches_nothing() -> None:
    model = make("gaussier")
    unlimited = job(walltime=None, end=5)
    model.learn(unlimited)
    model.learn(job(end=5 * DAY))
    answer = model.predict(Submission("9.srv", "alice", 6 * DAY, None), 6 * DAY)
    assert isinstance(answer, NoPrediction)
    assert isinstance(model.predict(job().submission, 6 * DAY), NoPrediction)
