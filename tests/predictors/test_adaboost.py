"""Boosted trees: the same as scikit-learn's, fitted on a schedule; listed with the reason where they cannot be."""

import importlib
import importlib.util
import sys

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostRegressor
from sklearn.tree import DecisionTreeRegressor

from softwalltime.core.errors import OptionError
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.predict.predictors import registry
from softwalltime.predict.predictors.registry import make
from tests.predictors.teaching import taught
from tests.samples import job

DAY = 86400
SPEC = "adaboost:every=1,window=10d,trees=10,depth=4,seed=3"


def history(days: int = 3, per_day: int = 60) -> list[CompletedJob]:
    draw = np.random.default_rng(1)
    jobs = []
    for number in range(days * per_day):
        end = number * DAY // per_day + 1
        user = f"user{number % 3}"
        ncpus = int(draw.integers(1, 9))
        runtime = 100 * (number % 3 + 1) * ncpus + int(draw.integers(0, 50))
        jobs.append(
            job(user, submitted=end - 9000, end=end, runtime=runtime, walltime=9000, ncpus=ncpus, job_id=str(number))
        )
    return jobs


def test_it_predicts_what_scikit_learn_predicts() -> None:
    jobs = history()
    model = taught(SPEC, jobs)
    training = sorted(
        (each for each in jobs if each.end < 2 * DAY), key=lambda each: (each.end, each.submission.job_id)
    )
    mean = {
        user: np.mean([each.runtime for each in training if each.submission.user == user])
        for user in ("user0", "user1", "user2")
    }

    def features(each: CompletedJob) -> list[float]:
        return [mean[each.submission.user], 9000, each.submission.ncpus or 0, 0]

    reference = AdaBoostRegressor(DecisionTreeRegressor(max_depth=4), n_estimators=10, random_state=3)
    x = np.array([features(each) for each in training], np.float32)
    reference.fit(x, np.array([each.runtime for each in training], float))
    for each in jobs[-60:]:
        answer = model.predict(each.submission, each.end)
        assert isinstance(answer, Prediction)
        assert answer.seconds == pytest.approx(reference.predict(np.array([features(each)], np.float32))[0])


def test_it_is_fitted_when_a_period_has_passed_and_not_before() -> None:
    jobs = history()
    first_day = [each for each in jobs if each.end < DAY]
    assert isinstance(taught(SPEC, first_day).predict(jobs[0].submission, DAY), NoPrediction)
    second = taught(SPEC, [each for each in jobs if each.end < DAY + 3600])
    assert isinstance(second.predict(jobs[0].submission, DAY), Prediction)
    later = taught(SPEC, [each for each in jobs if each.end < 2 * DAY])
    assert later.predict(jobs[0].submission, DAY) == second.predict(jobs[0].submission, DAY), "no fit in between"


def test_the_order_in_which_jobs_became_known_within_a_period_does_not_matter() -> None:
    jobs = history()
    first = [each for each in jobs if each.end < DAY]
    rest = [each for each in jobs if each.end >= DAY]
    assert taught(SPEC, [*first, *rest]).predict(jobs[5].submission, 0) == taught(
        SPEC, [*reversed(first), *rest]
    ).predict(jobs[5].submission, 0)


def test_without_scikit_learn_it_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "sklearn" else there(name, *rest)
    )
    for module in ("adaboost", "random_forest"):
        monkeypatch.delitem(sys.modules, f"softwalltime.predict.predictors.{module}", raising=False)
    registry.entries.cache_clear()
    try:
        entry = next(entry for entry in registry.entries() if entry.name == "adaboost")
        assert entry.predictor is None
        assert "pip install 'pbs-softwalltime[learned]'" in entry.problem
        with pytest.raises(OptionError, match="scikit-learn is missing"):
            make("adaboost")
        assert make("v1")
    finally:
        monkeypatch.undo()
        registry.entries.cache_clear()
        importlib.import_module("softwalltime.predict.predictors.adaboost")
