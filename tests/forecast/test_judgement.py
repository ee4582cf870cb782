"""Forecasts held against what happened, and the ranges that their past errors correct."""

from dataclasses import replace

import numpy as np
import pytest

from softwalltime.forecast.calibration import Calibration, Weights
from softwalltime.forecast.judgement import (
    COMBINED,
    LIKE,
    METHODS,
    WALLTIMES,
    GivenSchedule,
    Judged,
    judge,
    sampled,
    scores,
)  # fmt: skip
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.predictors.registry import make
from softwalltime.simulation.engine import simulate
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.policies import Policy

HOURS = 4 * 3600


def schedule(jobs: Jobs) -> GivenSchedule:
    outcome = simulate(jobs, 64, Policy())
    return GivenSchedule(jobs, outcome.start, outcome.duration, 64, Policy())


def judged(jobs: Jobs, count: int = 15) -> list[Judged]:
    made = schedule(jobs)
    return list(judge(made, RuntimeModel(make("last2")), sampled(made, count), runs=3, every=HOURS))


def test_calibration_makes_ranges_hold_what_they_promise() -> None:
    random = np.random.default_rng(1)
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    calibration = Calibration(levels)
    inside = {"raw": 0, "corrected": 0}
    for _ in range(3000):
        expected = float(np.exp(random.uniform(5, 10)))
        # Too sure of itself, and too early.
        quantiles = expected * np.array([0.9, 0.95, 1.0, 1.05, 1.1])
        actual = 1.5 * expected * float(np.exp(random.normal(0, 0.7)))
        for name, found in (("raw", quantiles), ("corrected", calibration.corrected(expected, quantiles))):
            inside[name] += bool(found[0] <= actual <= found[-1])
        calibration.add(expected, quantiles, actual)
    assert inside["raw"] < 0.3 * 3000
    assert 0.87 * 3000 < inside["corrected"] < 0.93 * 3000


def test_corrected_quantiles_do_not_cross_and_are_untouched_while_little_is_known() -> None:
    calibration = Calibration((0.25, 0.75))
    assert calibration.corrected(100, [10, 20]).tolist() == [10, 20]
    for actual in range(1, 60):
        calibration.add(100, [500.0, 20.0], actual)
    low, high = calibration.corrected(100, [500, 20])
    assert 0 <= low <= high


def test_the_better_forecast_of_late_gets_the_weight() -> None:
    weights = Weights((0.0, 0.5, 1.0))
    assert weights.best(100) == 1.0
    for _ in range(50):
        weights.add(100, first=300, second=110, actual=100)
    assert weights.best(100) == 0.0
    assert weights.best(10_000) == 1.0, "another class knows nothing yet"


def test_forecasts_are_made_at_submission_and_every_hour_until_the_start(jobs: Jobs) -> None:
    made = schedule(jobs)
    found = judged(jobs)
    starts = made.start.tolist()
    by_job: dict[int, list[Judged]] = {}
    for each in found:
        by_job.setdefault(each.job, []).append(each)
    for job, several in by_job.items():
        wait = starts[job] - jobs.submitted[job]
        assert [each.waited for each in several] == list(range(0, wait, HOURS))
        assert all(each.waited + each.actual == wait for each in several)
    assert {len(each.predicted[LIKE]) for each in found} == {5}


def test_a_forecast_knows_nothing_of_what_comes_later(jobs: Jobs) -> None:
    made = schedule(jobs)
    sample = sampled(made, 15)
    now = jobs.submitted[sample[8]]
    # From that moment on everything starts later and runs longer.
    end = made.start + made.duration
    other = replace(
        made,
        start=np.where(made.start > now, made.start + 5000, made.start),
        duration=np.where(end > now, made.duration + 777, made.duration),
    )

    def until_then(some: GivenSchedule) -> list[Judged]:
        found = judge(some, RuntimeModel(make("last2")), sample, runs=3, every=HOURS)
        return [each for each in found if jobs.submitted[each.job] + each.waited <= now]

    before, after = until_then(made), until_then(other)
    assert len(before) == len(after) > 8
    for one, two in zip(before, after, strict=True):
        assert (one.job, one.waited) == (two.job, two.waited)
        for method in METHODS:
            assert np.array_equal(one.predicted[method], two.predicted[method]), method


def test_scores_count_errors_and_coverage() -> None:
    values = np.array([50.0, 80.0, 90.0, 120.0, 200.0])
    found = [Judged(job, 0, actual, dict.fromkeys(METHODS, values)) for job, actual in enumerate((100, 60, 300, 100))]
    score = scores(found, COMBINED)
    assert (score.forecasts, score.mean_wait, score.error) == (4, 140, 65)
    assert (score.relative, score.bias) == pytest.approx((65 / 140, -50))
    assert (score.covered50, score.covered90, score.width90) == (0.5, 0.75, 150)
    assert scores(found, WALLTIMES).covered90 is None
