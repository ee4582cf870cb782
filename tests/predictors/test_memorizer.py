"""The median of jobs that were submitted alike."""

from softwalltime.core.jobs import NoPrediction, Prediction
from softwalltime.predict.predictors.registry import make
from tests.samples import job

DAY = 86400


def predicted(spec: str, runtimes: list[int], *, now: int = DAY, elapsed: int = 0, **asked: object) -> float | None:
    model = make(spec)
    for number, runtime in enumerate(runtimes):
        model.learn(job(submitted=number * 100, end=number * 100 + 5000, runtime=runtime))
    answer = model.predict(job(**asked).submission, now, elapsed)
    return answer.seconds if isinstance(answer, Prediction) else None


def test_it_predicts_the_median_of_the_same_signature() -> None:
    assert predicted("memorizer", [10, 900, 20]) == 20
    assert predicted("memorizer", [10, 30]) == 20


def test_any_difference_in_the_signature_is_another_job() -> None:
    for other in ({"user": "bob"}, {"walltime": 999}, {"project": "q"}, {"job_name": "x"}, {"ncpus": 3}):
        assert predicted("memorizer", [10], **other) is None
    assert predicted("memorizer:keys=user", [10], walltime=999) == 10


def test_jobs_older_than_the_window_are_removed() -> None:
    assert predicted("memorizer:window=1d", [10, 30], now=DAY + 5050) == 30
    model = make("memorizer:window=1d")
    answer = model.predict(job().submission, 0)
    assert isinstance(answer, NoPrediction)
    assert "only 0 jobs" in answer.basis


def test_without_like_jobs_the_median_of_all_may_be_predicted() -> None:
    assert predicted("memorizer:fallback=median", [10, 900, 20], user="bob") == 20
    assert predicted("memorizer:fallback=median,window=1d", [10, 30], user="bob", now=DAY + 5050) == 30
    assert predicted("memorizer:fallback=median", [10, 900, 20]) == 20
    assert predicted("memorizer:fallback=median", []) is None


def test_the_distribution_of_all_jobs_stands_for_missing_like_jobs() -> None:
    model = make("memorizer:fallback=median")
    for number, runtime in enumerate([10, 20, 30, 40, 50]):
        model.learn(job(submitted=number, end=5000 + number, runtime=runtime))
    answer = model.predict(job("bob").submission, DAY)
    assert isinstance(answer, Prediction)
    assert answer.quantiles((0.25, 0.5, 1.0)) == [20, 30, 50]


def test_a_running_job_is_compared_with_those_that_ran_longer() -> None:
    assert predicted("memorizer", [10, 500, 700], elapsed=100) == 600
    assert predicted("memorizer", [10, 20], elapsed=100) == 15
