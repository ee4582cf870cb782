"""The published predictors, each against its rule worked out by hand."""

from collections.abc import Iterable

import pytest

from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.predict.predictors.registry import make
from tests.samples import job

DAY = 86400


def predicted(spec: str, history: Iterable[CompletedJob], asked: CompletedJob, now: int = 10**6) -> float | None:
    predictor = make(spec)
    for completed in history:
        predictor.learn(completed)
    answer = predictor.predict(asked.submission, now)
    return answer.seconds if isinstance(answer, Prediction) else None


def runs(*runtimes: int, walltime: int | None = 1000, user: str = "alice") -> list[CompletedJob]:
    return [job(user, runtime=runtime, walltime=walltime, end=1000 + n) for n, runtime in enumerate(runtimes)]


@pytest.mark.parametrize(
    ("runtimes", "v1"), [((), None), ((70,), 70), ((100, 200), 150), ((999, 100, 201), 150.5), ((100, 0), 100)]
)
def test_v1_is_the_mean_of_the_last_two_runtimes(runtimes: tuple[int, ...], v1: float | None) -> None:
    assert predicted("v1", runs(*runtimes), job()) == v1
    assert predicted("v2", runs(*runtimes), job()) == (None if v1 is None else v1 + 900)


def test_v1_learns_from_jobs_without_walltime_and_beyond_it_and_v3_does_not() -> None:
    history = runs(5000, walltime=None)
    assert predicted("v1", history, job()) == 5000
    assert predicted("v3", history, job()) is None
    assert predicted("v1", runs(1500), job()) == 1500


def test_one_user_does_not_teach_another() -> None:
    for spec in ("v1", "v2", "v3", "v4"):
        assert predicted(spec, runs(100, 100, user="bob"), job("alice")) is None


def test_v3_is_the_greatest_share_of_the_last_15_jobs_and_15_minutes() -> None:
    assert predicted("v3", runs(500), job(walltime=3600)) == 0.5 * 3600 + 900
    assert predicted("v3", runs(900, *[100] * 14), job(walltime=3600)) == 0.9 * 3600 + 900
    assert predicted("v3", runs(900, *[100] * 15), job(walltime=3600)) == 0.1 * 3600 + 900
    assert predicted("v3", runs(1500), job(walltime=3600)) == 1.5 * 3600 + 900


def test_v4_caps_the_share_and_doubles_the_product_of_long_jobs() -> None:
    assert predicted("v4", runs(1500), job(walltime=3600)) == 3600 + 900
    assert predicted("v4", runs(250), job(walltime=DAY)) == 0.25 * DAY + 900
    assert predicted("v4", runs(250), job(walltime=DAY + 1)) == 0.25 * (DAY + 1) * 2 + 900


def test_a_job_without_walltime_has_no_share_to_predict() -> None:
    for spec in ("v3", "v4", "percentile:least=1"):
        assert predicted(spec, runs(100), job(walltime=None)) is None


def ten(user: str = "alice", project: str = "p", walltime: int = 1000, end: int = 10**6) -> list[CompletedJob]:
    return [
        job(user, runtime=share * walltime // 10, walltime=walltime, project=project, end=end) for share in range(1, 11)
    ]


def test_percentile_interpolates_linearly() -> None:
    # Shares 0.1 to 1.0: the 85th percentile stands at 0.85 * 9 = 7.65, between 0.8 and 0.9.
    assert predicted("percentile", ten(), job()) == pytest.approx(865)
    assert predicted("percentile:p=0", ten(), job()) == pytest.approx(100)
    assert predicted("percentile:p=100", ten(), job()) == pytest.approx(1000)
    assert predicted("percentile:p=50", ten(), job()) == pytest.approx(550)


def test_percentile_needs_ten_like_jobs() -> None:
    assert predicted("percentile", ten()[:9], job()) is None
    assert predicted("percentile:least=9", ten()[:9], job()) is not None


@pytest.mark.parametrize(
    ("keys", "like"),
    [
        ("user", {"project": "other", "walltime": 500}),
        ("project", {"user": "bob", "walltime": 500}),
        ("user+project", {"walltime": 500}),
        ("user+project+walltime", {}),
    ],
)
def test_percentile_tells_jobs_apart_by_its_keys(keys: str, like: dict[str, object]) -> None:
    asked = job(**like)
    assert predicted(f"percentile:keys={keys}", ten(), asked) is not None
    for key, other in {"user": "carol", "project": "q", "walltime": 7}.items():
        answer = predicted(f"percentile:keys={keys}", ten(), job(**{**like, key: other}))
        assert (answer is None) == (key in keys.split("+"))


def test_percentile_counts_a_job_until_the_window_has_passed_its_end() -> None:
    end = 10**6
    assert predicted("percentile", ten(end=end), job(), now=end + 30 * DAY) is not None
    assert predicted("percentile", ten(end=end), job(), now=end + 30 * DAY + 1) is None
    assert predicted("percentile:window=1d", ten(end=end), job(), now=end + DAY + 1) is None


def test_percentile_learns_late_news_in_order_of_end() -> None:
    late = [*ten(end=10**6 + 5 * DAY), *ten(end=10**6)]
    answer = predicted("percentile", late, job(), now=10**6 + 30 * DAY + 1)
    assert answer == predicted("percentile", ten(end=10**6 + 5 * DAY), job(), now=10**6 + 30 * DAY + 1)


def test_the_threshold_lifts_small_shares() -> None:
    low = [job(runtime=100, end=10**6)] * 10
    assert predicted("percentile", low, job()) == 100
    assert predicted("percentile:threshold=0.5", low, job()) == 500


def test_bases_and_reasons_are_sentences_with_the_figures_in_them() -> None:
    predictor = make("percentile")
    assert isinstance(cold := predictor.predict(job().submission, 0), NoPrediction)
    assert cold.basis == (
        "only 0 jobs with the same user and project and walltime ended in the last 30 days; 10 are needed"
    )
    for completed in ten():
        predictor.learn(completed)
    assert isinstance(warm := predictor.predict(job().submission, 10**6), Prediction)
    assert warm.basis == (
        "85th percentile of the walltime used by the 10 jobs with the same user and project and walltime "
        "of the last 30 days is 86%"
    )


@pytest.mark.parametrize("p", [0, 33.3, 50, 85, 100])
def test_the_percentile_is_that_quantile_of_its_distribution(p: float) -> None:
    predictor = make(f"percentile:p={p:g},least=1")
    for number in range(7):
        predictor.learn(job(job_id=str(number), end=1000 + number, runtime=100 + 37 * (number * 5 % 7)))
    prediction = predictor.predict(job().submission, 2000)
    assert isinstance(prediction, Prediction)
    assert prediction.quantile(p / 100) == prediction.seconds
    assert prediction.mean == pytest.approx(100 + 37 * 3)
