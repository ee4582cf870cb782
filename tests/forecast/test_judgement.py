"""Forecasts held against what happened, and the ranges that their past errors correct."""

from dataclasses import replace

import numpy as np
import pytest

from softwalltime.measure.forecast.calibration import (
    MIN_MIXED_JOBS,
    Calibration,
    Corrections,
    OnlineWeights,
    WaitForecast,
)
from softwalltime.measure.forecast.judgement import (
    BOUND,
    COMBINED,
    LIKE,
    METHODS,
    WALLTIMES,
    AtOnceScores,
    GivenSchedule,
    Judged,
    judge,
    sampled,
    scores,
    started_at_once,
)  # fmt: skip
from softwalltime.measure.forecast.like_waits import LastWaits, LikeWaits
from softwalltime.measure.forecast.runtimes import RuntimeModel
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs
from softwalltime.predict.predictors.registry import make
from tests.samples import job as completed

HOURS = 4 * 3600


def schedule(jobs: Jobs) -> GivenSchedule:
    outcome = simulate(jobs, 64, SchedulerPolicy())
    return GivenSchedule(jobs, outcome.start, outcome.duration, 64, SchedulerPolicy())


def judged(jobs: Jobs, count: int = 15) -> list[Judged]:
    made = schedule(jobs)
    return list(judge(made, RuntimeModel(make("last2")), sampled(made, count), runs=3, every=HOURS))


def learn(calibration: Calibration, found: WaitForecast, given: Corrections, actual: float) -> None:
    """Let it learn from a forecast of a job of its own."""
    if given.shifts:
        for column, end in enumerate(given.quantiles(found).tolist()):
            calibration.range_end(found, column, passed=actual > end)
    add(calibration, found, given, actual)


def add(calibration: Calibration, found: WaitForecast, given: Corrections, actual: float) -> None:
    calibration.weigh(found, actual, 1.0)
    calibration.add(found, given, actual, object())


def test_calibration_makes_ranges_hold_what_they_promise_and_expected_waits_unbiased() -> None:
    random = np.random.default_rng(1)
    calibration = Calibration()
    inside = {"raw": 0, "corrected": 0}
    errors = {"raw": 0.0, "corrected": 0.0}
    for _ in range(1500):
        wait = float(np.exp(random.uniform(8, 10)))
        # The simulation is too early and too sure of itself, walltimes are too late, like jobs know nothing.
        ranges = tuple(wait * share for share in (0.5, 0.55, 0.65, 0.7))
        found = WaitForecast(0.6 * wait, 1.6 * wait, 20_000.0, ranges)
        actual = wait * float(np.exp(random.normal(0, 0.3)))
        corrections = calibration.corrections_for(found)
        low, _, expected, _, high = corrections.corrected(found)
        for name, (begin, middle, end) in {
            "raw": (ranges[0], found.median, ranges[-1]), "corrected": (low, expected, high)
        }.items():  # fmt: skip
            inside[name] += bool(begin <= actual <= end)
            errors[name] += abs(middle - actual)
        learn(calibration, found, corrections, actual)
    assert inside["raw"] < 0.3 * 1500
    assert 0.87 * 1500 < inside["corrected"] < 0.94 * 1500
    assert errors["corrected"] < 0.7 * errors["raw"]
    assert calibration.corrections_for(found).mixed(found)[0] == pytest.approx(wait, rel=0.15)


@pytest.mark.parametrize("waited", [0.0, 7200.0])
def test_ranges_hold_what_they_promise_also_when_waits_become_much_longer(waited: float) -> None:
    random = np.random.default_rng(2)
    calibration = Calibration()
    other = WaitForecast(5000.0, 5000.0, 5000.0, (4000.0, 4500.0, 5500.0, 6000.0), 7200.0 - waited)
    inside = {"before": 0, "after": 0}
    for number in range(2000):
        found = WaitForecast(5000.0, 5000.0, 5000.0, (4000.0, 4500.0, 5500.0, 6000.0), waited)
        actual = 5000.0 * float(np.exp(random.normal(0, 0.3))) * (1 if number < 1000 else 3)
        corrections = calibration.corrections_for(found)
        low, *_, high = corrections.corrected(found).tolist()
        inside["before" if number < 1000 else "after"] += low <= actual <= high
        learn(calibration, found, corrections, actual)
        # Forecasts of the other phase are right, and do not narrow these ranges.
        learn(calibration, other, calibration.corrections_for(other), 5000.0)
    # The first 40 forecasts are not corrected.
    assert 850 <= inside["before"] <= 950
    assert 850 <= inside["after"] <= 950


def test_each_class_of_forecasts_has_weights_of_its_own_after_few_jobs_the_drawn_runtimes_alone() -> None:
    calibration = Calibration()
    short = WaitForecast(1000.0, 2000.0, 4000.0, (900.0, 950.0, 1050.0, 1100.0))
    long = WaitForecast(10_000.0, 20_000.0, 40_000.0, (9000.0, 9500.0, 10_500.0, 11_000.0))
    for number in range(400):
        # Of short waits the walltimes are right, of long ones the drawn runtimes.
        for found, actual in ((long, 10_000.0), (short, 2000.0)):
            if 2 * number < MIN_MIXED_JOBS:
                assert calibration.corrections_for(found).mixed(found)[0] == found.median
            add(calibration, found, calibration.corrections_for(found), actual)
    assert calibration.corrections_for(short).corrected(short)[2] == pytest.approx(2000, abs=100)
    assert calibration.corrections_for(long).corrected(long)[2] == pytest.approx(10_000, abs=500)


@pytest.mark.parametrize("best", range(3))
def test_the_combination_is_not_worse_than_its_best_part_whichever_that_is_and_follows_it(best: int) -> None:
    random = np.random.default_rng(best)
    calibration = Calibration()
    errors = np.zeros(4)
    for number in range(1200):
        wait = float(np.exp(random.uniform(6, 11)))
        parts = [wait * float(np.exp(random.normal(0.3, 1.0))) for _ in range(3)]
        parts[best if number < 600 else (best + 1) % 3] = wait * float(np.exp(random.normal(0, 0.2)))
        found = WaitForecast(*parts, (wait, wait, wait, wait))
        expected, _ = calibration.corrections_for(found).mixed(found)
        if number % 600 >= 200:
            errors += np.abs(np.array([*parts, expected]) - wait)
        add(calibration, found, calibration.corrections_for(found), wait)
    # No part is best all the time.
    assert errors[3] < 0.75 * errors[:3].min()


def test_weights_follow_the_best_part_again_after_one_error_of_two_months() -> None:
    weights = OnlineWeights(2)
    for number in range(2000):
        gains = np.array((-1000.0, 1000.0)) * (1 - weights.values)
        weights.learn(gains * 5000 if number == 500 else gains)
    assert weights.values[1] > 0.95


def test_no_range_goes_beyond_twice_the_longest_wait() -> None:
    calibration = Calibration()
    found = WaitForecast(5000.0, 5000.0, 5000.0, (4000.0, 4500.0, 5500.0, 6000.0))
    for _ in range(200):
        add(calibration, found, calibration.corrections_for(found), 20_000.0)
        calibration.range_end(found, 3, passed=True)
    assert calibration.corrections_for(found).corrected(found)[-1] == 40_000


def test_a_forecast_is_left_as_it_is_while_little_is_known() -> None:
    found = WaitForecast(100.0, 200.0, 300.0, (50.0, 80.0, 120.0, 150.0))
    assert Calibration().corrections_for(found).corrected(found) == pytest.approx([50, 80, 100, 120, 150])


def test_corrected_quantiles_do_not_cross_and_hold_the_expected_wait() -> None:
    shifts = (3.0, -3.0, 1.0, -5.0)
    found = Corrections(shifts=shifts).corrected(WaitForecast(5000.0, 6000.0, 7000.0, (4000.0, 4500.0, 5500.0, 6000.0)))
    assert found.tolist() == sorted(found.tolist())
    assert found[2] == 5000


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
            if method != BOUND:
                assert np.array_equal(one.predicted[method], two.predicted[method]), method


def test_jobs_that_start_at_once_are_judged_and_change_nothing_else(jobs: Jobs) -> None:
    made = schedule(jobs)
    waiting, at_once = sampled(made, 15), started_at_once(made, 20)
    assert at_once

    def found(sample: list[int]) -> list[Judged]:
        return list(judge(made, RuntimeModel(make("last2")), sample, runs=3, every=HOURS))

    both = found(sorted(waiting + at_once))
    assert [each.job for each in both if not each.actual] == at_once
    for one, two in zip(found(waiting), (each for each in both if each.actual), strict=True):
        assert np.array_equal(one.predicted[COMBINED], two.predicted[COMBINED])
    figures = AtOnceScores.of(both)
    assert (figures.started, figures.waited) == (len(at_once), len(waiting))
    # The schedule is simulated by the same rules: a job that starts at once was foreseen.
    assert figures.foreseen == 1.0


def test_with_known_runtimes_a_start_is_missed_only_where_a_later_job_overtakes(jobs: Jobs) -> None:
    made = schedule(jobs)
    plain = replace(made.policy, backfill="none")
    alone = simulate(jobs, 64, plain)
    strict = GivenSchedule(jobs, alone.start, alone.duration, 64, plain)
    found = judge(strict, RuntimeModel(make("last2")), sampled(strict, 10), runs=1, every=HOURS)
    assert [each.predicted[BOUND][2] for each in found if each.predicted[BOUND][2] != each.actual] == []


def test_scores_count_errors_and_coverage() -> None:
    values = np.array([50.0, 80.0, 90.0, 120.0, 200.0])
    found = [Judged(job, 0, actual, dict.fromkeys(METHODS, values)) for job, actual in enumerate((100, 60, 300, 100))]
    score = scores(found, COMBINED)
    assert (score.forecasts, score.mean_wait, score.error) == (4, 140, 65)
    assert (score.relative, score.bias) == pytest.approx((65 / 140, -50))
    assert (score.covered50, score.covered90, score.width90) == (0.5, 0.75, 150)
    assert scores(found, WALLTIMES).covered90 is None


def test_the_gain_of_the_combined_forecast_has_an_interval_over_weeks() -> None:
    random = np.random.default_rng(3)
    found = [
        Judged(job, 0, 100, {COMBINED: np.full(5, 100 + random.normal(0, 10)), LIKE: np.full(5, 150.0)},
               made=job * 86400, free=job % 4 == 0)
        for job in range(100)
    ]  # fmt: skip
    score = scores(found, LIKE)
    assert score.gain_low < score.gain < score.gain_high
    assert score.gain == pytest.approx(score.relative - scores(found, COMBINED).relative)
    assert 0.3 < score.gain_low < 0.42 < score.gain_high < 0.5
    assert score.enough_free == 0.25


def test_the_wait_of_like_jobs_is_half_the_users_own_at_the_submission_and_that_of_all_later() -> None:
    waits = LikeWaits()
    for number in range(10):
        waits.started(completed("ann", submitted=number, ncpus=4).submission, 5000)
        waits.started(completed("bob", submitted=number, ncpus=4).submission, 1000)
        waits.started(completed("bob", submitted=number, ncpus=4).submission, 1000)
    asked = completed("ann", submitted=100, ncpus=4).submission
    assert waits.expected(asked, 0) == (1000 + 5000) / 2
    assert waits.expected(completed("eve", submitted=100, ncpus=4).submission, 0) == 1000
    assert waits.expected(asked, 3600) == 5000 - 3600
    assert waits.expected(asked, 6000) is None


def test_the_users_last_five_waits_are_a_forecast_until_the_job_has_waited_long() -> None:
    waits = LastWaits()
    for wait in (90_000, 90_000, 90_000, 1000, 2000, 3000, 4000, 5000):
        waits.started(completed("ann", submitted=0, ncpus=1).submission, wait)
    asked = completed("ann", submitted=100, ncpus=64).submission
    assert waits.expected(asked, 0) == 3000
    assert waits.expected(asked, 1000) == 2000
    assert waits.expected(asked, 1800) is None
    assert waits.expected(completed("eve", submitted=100).submission, 0) is None
