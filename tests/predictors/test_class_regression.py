"""TRIP's frame and its three regressions: when the walltime is kept, what is fitted when, and to what."""

import importlib
import importlib.util
import pickle
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.svm import SVR

from softwalltime.core.errors import OptionError
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.predict.predictors import registry
from softwalltime.predict.predictors.registry import make
from softwalltime.predict.predictors.regression import class_regression
from softwalltime.predict.predictors.regression.class_regression import (
    FEATURES,
    ClassJob,
    Floats,
    class_job,
    features,
    training_rows,
)
from softwalltime.predict.predictors.trip import Trip, choose_penalties, fit_line
from tests.predictors.teaching import taught
from tests.samples import job

DAY = 86400
TRIP = "trip:l1=0.1,l2=0.1"
FRAMED = [TRIP, "svr", "random-forest:every=1"]


def history(days: int = 4, per_day: int = 30, user: str = "alice") -> list[CompletedJob]:
    """Jobs that run for a fifth of their walltime and 100 s per processor, and some seconds more or less."""
    draw = Random(5)
    found = []
    for number in range(days * per_day):
        walltime, ncpus = draw.choice([2000, 5000, 10_000]), draw.randrange(1, 9)
        runtime = walltime // 5 + 100 * ncpus + draw.randrange(-20, 20)
        end = (number + 1) * DAY // per_day
        found.append(
            job(user, job_id=str(number), submitted=end - runtime, end=end, runtime=runtime, walltime=walltime,
                ncpus=ncpus, job_name="solve")
        )  # fmt: skip
    return found


def class_jobs(jobs: list[CompletedJob]) -> list[ClassJob]:
    return [class_job(each) for each in jobs]


def test_a_training_row_has_the_features_that_the_jobs_before_it_give() -> None:
    past = class_jobs(history())
    x, y = training_rows(past)
    assert x.shape == (len(past) - 1, len(FEATURES))
    assert y.tolist() == [each.runtime for each in past[1:]]
    for place in (1, 2, 9, 10, 11, 57, len(past) - 1):
        expected = features(past[:place], past[place].walltime, past[place].nodes)
        assert x[place - 1].tolist() == pytest.approx(expected)


def test_the_features_are_those_of_table_iii() -> None:
    runtimes = [10, 50, 30, 20, 90, 40, 10, 10, 10, 10, 10, 20]
    past = class_jobs([job(end=number, runtime=runtime, walltime=100) for number, runtime in enumerate(runtimes)])
    found = dict(zip(FEATURES, features(past, 1000, 4), strict=True))
    assert found == pytest.approx({
        "t_last1": 20, "t_last2": 10, "t_supplied": 1000, "n_supplied": 4, "A_average": 31 / 120, "A_max": 0.9,
        "t_longest": 90, "t_longest10": 90, "t_average": 310 / 12, "t_average10": 25, "t_percentile25": 10,
    })  # fmt: skip


@pytest.mark.parametrize("spec", FRAMED)
def test_a_class_is_predicted_once_it_has_a_model(spec: str) -> None:
    jobs = history()
    model = taught(spec, jobs)
    answers = [model.predict(each.submission, 4 * DAY) for each in jobs]
    assert all(isinstance(answer, Prediction) for answer in answers)
    errors = [abs(answer.seconds - each.runtime) for answer, each in zip(answers, jobs, strict=True)]
    # The runtimes vary by 20 s around what the features say, and by 700 s in all.
    assert np.mean(errors) < (30 if spec == TRIP else 200)


@pytest.mark.parametrize("spec", FRAMED)
def test_the_walltime_is_kept_for_few_jobs_and_for_accurate_walltimes(spec: str) -> None:
    jobs = history()
    few = taught(spec, jobs[:9])
    answer = few.predict(jobs[0].submission, DAY)
    assert isinstance(answer, NoPrediction)
    assert "only 9 jobs with the same user and project and job_name" in answer.basis
    stranger = taught(spec, jobs).predict(replace(jobs[0].submission, job_name="other"), 4 * DAY)
    assert isinstance(stranger, NoPrediction)
    exact = [replace(each, submission=replace(each.submission, walltime=each.runtime + 50)) for each in jobs]
    answer = taught(spec, exact).predict(exact[0].submission, 4 * DAY)
    assert isinstance(answer, NoPrediction)
    assert "accurate" in answer.basis
    assert isinstance(taught(f"{spec},accuracy=1.01" if ":" in spec else f"{spec}:accuracy=1.01", exact).predict(
        exact[0].submission, 4 * DAY), Prediction)  # fmt: skip


def test_a_model_is_of_the_jobs_before_the_day_and_a_restart_gives_the_same() -> None:
    jobs = history()
    running = taught(TRIP, jobs)
    restarted = make(TRIP)
    for each in jobs:
        restarted.learn(each)
    assert isinstance(restarted.predict(jobs[0].submission, 4 * DAY), NoPrediction), "nothing is fitted while it learns"
    restarted.fit(jobs[-1].end)
    assert [restarted.predict(each.submission, 4 * DAY) for each in jobs[:9]] == [
        running.predict(each.submission, 4 * DAY) for each in jobs[:9]
    ]
    shuffled = jobs.copy()
    Random(3).shuffle(shuffled)
    late = make(TRIP)
    for each in shuffled:
        late.learn(each)
    late.fit(jobs[-1].end)
    assert late.predict(jobs[0].submission, 4 * DAY) == running.predict(jobs[0].submission, 4 * DAY)


def test_trip_predicts_nothing_below_the_least_runtime_of_the_class() -> None:
    jobs = history()
    model = taught(TRIP, jobs)
    before = [each.runtime for each in jobs if each.end < 4 * DAY - DAY]
    tiny = replace(jobs[0].submission, walltime=1, ncpus=1)
    answer = model.predict(tiny, 4 * DAY)
    assert isinstance(answer, Prediction)
    assert answer.seconds >= min(before)


def test_the_number_of_classes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_regression, "_MAX_CLASSES", 5)
    model = make(TRIP)
    for number in range(100):
        model.learn(job(job_id=str(number), job_name=f"name{number}", end=number))
    sizes = [len(pickle.dumps(model))]
    for number in range(100, 200):
        model.learn(job(job_id=str(number), job_name=f"name{number}", end=number))
    assert len(pickle.dumps(model)) <= sizes[0] + 100


def test_trip_waits_for_the_first_days_and_then_chooses_its_penalties_once() -> None:
    jobs = history(days=8)
    early = taught("trip:first=5", [each for each in jobs if each.end < 5 * DAY])
    assert isinstance(early, Trip)
    assert early.penalties is None
    assert isinstance(early.predict(jobs[0].submission, 5 * DAY), NoPrediction)
    late = taught("trip:first=5", jobs)
    assert isinstance(late, Trip)
    assert late.penalties is not None
    assert isinstance(late.predict(jobs[0].submission, 8 * DAY), Prediction)


def spread(x: Floats, y: Floats, penalties: tuple[float, float]) -> float:
    """Standard deviation of the predictions over that of the runtimes."""
    line = fit_line(x, y, *penalties)
    return float(np.std([line.predict(row) for row in x.tolist()]) / y.std())


def test_cross_validation_penalises_noise_and_keeps_what_predicts() -> None:
    x, y = training_rows(class_jobs(history()))
    chosen = choose_penalties([(x, y)], 10, 1)
    assert chosen == choose_penalties([(x, y)], 10, 1)
    assert spread(x, y, chosen) > 0.9
    draw = np.random.default_rng(2)
    noise = []
    for _ in range(5):
        x = draw.normal(size=(30, len(FEATURES)))
        x[:, FEATURES.index("t_supplied")] = 10_000
        noise.append((x, 1000 + 500 * draw.exponential(size=30)))
    chosen = choose_penalties(noise, 10, 1)
    assert chosen == choose_penalties(noise[::-1], 10, 1), "the order of the classes does not matter"
    assert np.mean([spread(*each, chosen) for each in noise]) < 0.5 * np.mean(
        [spread(*each, (0.0, 0.0)) for each in noise]
    )


def test_svr_predicts_what_scikit_learn_predicts() -> None:
    jobs = history()
    model = taught("svr:c=2,epsilon=0.2", jobs)
    # The last fit was on the day before the last job's end.
    x, y = training_rows(class_jobs([each for each in jobs if each.end < 4 * DAY]))
    scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), np.inf)
    reference = SVR(gamma=1 / x.shape[1], C=2, epsilon=0.2).fit((x - x.mean(axis=0)) / scale, (y - y.mean()) / y.std())
    for each in jobs[:20]:
        row = features(class_jobs(jobs), each.submission.walltime or 0, each.submission.ncpus or 0)
        answer = model.predict(each.submission, 4 * DAY)
        assert isinstance(answer, Prediction)
        expected = y.mean() + y.std() * reference.predict([(np.array(row) - x.mean(axis=0)) / scale])[0]
        assert answer.seconds == pytest.approx(expected)


def test_a_random_forest_predicts_what_scikit_learn_predicts() -> None:
    jobs = history()
    model = taught("random-forest:every=1,trees=7,leaf=3,seed=4", jobs)
    x, y = training_rows(class_jobs([each for each in jobs if each.end < 4 * DAY]))
    reference = RandomForestRegressor(7, min_samples_leaf=3, random_state=4).fit(x.astype(np.float32), y)
    for each in jobs[:20]:
        row = features(class_jobs(jobs), each.submission.walltime or 0, each.submission.ncpus or 0)
        answer = model.predict(each.submission, 4 * DAY)
        assert isinstance(answer, Prediction)
        assert answer.seconds == pytest.approx(reference.predict(np.array([row], np.float32))[0])


def test_without_scikit_learn_both_are_listed_with_the_reason_and_trip_works(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "sklearn" else there(name, *rest)
    )
    for module in ("svr", "random_forest"):
        monkeypatch.delitem(sys.modules, f"softwalltime.predict.predictors.{module}", raising=False)
    registry.entries.cache_clear()
    try:
        for name in ("svr", "random-forest"):
            entry = next(entry for entry in registry.entries() if entry.name == name)
            assert entry.predictor is None
            with pytest.raises(OptionError, match="scikit-learn is missing"):
                make(name)
        assert make("trip")
    finally:
        monkeypatch.undo()
        registry.entries.cache_clear()
        for module in ("svr", "random_forest"):
            importlib.import_module(f"softwalltime.predict.predictors.{module}")
