"""Forecasts corrected by the judged ones of the daemon itself."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from softwalltime.measure.forecast.calibration import MIN_MIXED_JOBS, Calibration, Corrections, WaitForecast
from softwalltime.measure.forecast.past_errors import MIN_JUDGED_JOBS
from softwalltime.measure.forecast.self_calibration import (
    MAX_JUDGED,
    JudgedForecast,
    SelfCalibration,
)

AT_ONCE = WaitForecast(0.0, 0.0, 0.0, (0.0, 0.0, 0.0, 0.0))


def raw(wait: float, delay: float = 0.0) -> WaitForecast:
    """A forecast that is too early and too sure of itself."""
    ranges = tuple(wait * share for share in (0.9, 0.95, 1.05, 1.1))
    return WaitForecast(wait, 2 * wait, wait, ranges, delay=delay)


def repeated(jobs: int, seed: int) -> Iterator[list[JudgedForecast]]:
    """Forecasts of jobs that start about 20 s later than expected: each job has several, all with its error."""
    random = np.random.default_rng(seed)
    for number in range(jobs):
        wait, error = float(random.uniform(20, 80)), float(random.normal(20, 15))
        times = int(random.integers(1, 8))
        started = 1_000_000 + 100 * number
        made = [round(max(wait + error, 0.0) * (1 - share)) for share in np.arange(times) / times]
        yield [
            JudgedForecast(f"{number}.srv", started - ago, started, raw(max(ago - error, 1.0))) for ago in made
        ]  # fmt: skip


def test_ranges_hold_what_they_promise_and_several_forecasts_of_a_job_count_as_one() -> None:
    calibration = SelfCalibration()
    inside = total = 0.0
    for number, forecasts in enumerate(repeated(300, seed=1)):
        known = number >= MIN_JUDGED_JOBS
        assert bool(calibration.corrections_for(forecasts[0].raw).shifts) == known
        for each in forecasts if known else []:
            low, *_, high = calibration.corrections_for(each.raw).corrected(each.raw).tolist()
            inside += (low <= each.started - each.made <= high) / len(forecasts)
            total += 1 / len(forecasts)
        calibration.learn(forecasts)
    assert calibration.jobs == 300
    assert 0.86 <= inside / total <= 0.94


def test_another_process_that_reads_the_same_forecasts_corrects_alike() -> None:
    batches = list(repeated(100, seed=2))
    one, other = SelfCalibration(), SelfCalibration()
    for batch in batches:
        one.learn(batch)
    other.learn(each for batch in reversed(batches) for each in batch)
    for each in (raw(5.0), raw(50.0), AT_ONCE):
        assert one.corrections_for(each) == other.corrections_for(each)
    assert one.jobs == other.jobs


def test_of_many_forecasts_that_a_late_log_judges_only_the_last_are_learnt() -> None:
    judged = [JudgedForecast(f"{number}.srv", 1000, 1001 + number, raw(100.0)) for number in range(2 * MAX_JUDGED)]
    late = SelfCalibration()
    late.learn(judged)
    assert late.jobs == MAX_JUDGED


def test_many_forecasts_of_one_long_wait_are_forgotten_after_some_jobs() -> None:
    calibration = SelfCalibration()
    for batch in repeated(3 * MIN_JUDGED_JOBS, seed=5):
        calibration.learn(batch)
    calibration.learn(JudgedForecast("slow.srv", 2_000_000 + number, 2_003_000, raw(50.0)) for number in range(700))
    found = raw(50.0)
    assert calibration.corrections_for(found).corrected(found)[-1] > 1000
    for batch in repeated(MIN_JUDGED_JOBS, seed=8):
        calibration.learn(batch)
    # Some jobs later it is forgotten.
    assert calibration.corrections_for(found).corrected(found)[-1] < 500


def test_jobs_that_could_start_at_once_are_a_kind_of_their_own() -> None:
    calibration = SelfCalibration()
    random = np.random.default_rng(3)
    for number in range(200):
        started = 1_000_000 + number
        late = int(random.integers(0, 10))
        calibration.learn([JudgedForecast(f"{number}.srv", started - late, started, AT_ONCE)])
    low, _, expected, _, high = calibration.corrections_for(AT_ONCE).corrected(AT_ONCE).tolist()
    assert low <= expected < 1
    assert 7 <= high <= 12
    # Nothing is known of jobs that wait for others.
    waiting = raw(60)
    assert calibration.corrections_for(waiting).corrected(waiting) == pytest.approx([54, 57, 60, 63, 66])


def test_waits_of_delayed_jobs_begin_at_their_time() -> None:
    one, other = SelfCalibration(), SelfCalibration()
    for number in range(MIN_JUDGED_JOBS):
        one.learn([JudgedForecast(f"{number}.srv", 1000, 1150 + number, raw(100.0))])
        other.learn([JudgedForecast(f"{number}.srv", 500, 1150 + number, raw(100.0, delay=500.0))])
    assert one.corrections_for(raw(100.0)).shifts
    assert one.corrections_for(raw(100.0)) == other.corrections_for(raw(100.0))


def levels(calibration: SelfCalibration, found: WaitForecast) -> list[float]:
    return calibration.corrections_for(found).quantiles(found).tolist()


def test_a_range_that_passes_is_learnt_then_and_not_again_at_the_start() -> None:
    """The daemon and replay-starts watch what they give; one that was restarted learns the same at the start."""
    watching, restarted = SelfCalibration(), SelfCalibration()
    for each in (watching, restarted):
        for batch in repeated(3 * MIN_JUDGED_JOBS, seed=6):
            each.learn(batch)
    given = raw(50.0)
    before = levels(watching, given)
    made, started = 2_000_000, 2_004_000
    watching.watch("late.srv", made, given)
    watching.still_waiting({"late.srv"}, made)
    assert levels(watching, given) == before
    watching.still_waiting({"late.srv"}, started)
    after = levels(watching, given)
    assert after[-1] > before[-1]
    # A second look after the end of the range teaches nothing.
    watching.still_waiting({"late.srv"}, started)
    assert levels(watching, given) == after
    # A job that was deleted teaches nothing.
    watching.watch("deleted.srv", made, given)
    watching.still_waiting({"late.srv"}, started)
    assert levels(watching, given) == after
    for each in (watching, restarted):
        each.learn([JudgedForecast("late.srv", made, started, given)])
    assert levels(watching, given) == levels(restarted, given)


def test_a_process_that_resumes_counts_jobs_that_wait_still_as_the_one_before_it() -> None:
    watching, resumed, forgetful = SelfCalibration(), SelfCalibration(), SelfCalibration()
    for each in (watching, resumed, forgetful):
        for batch in repeated(2 * MIN_JUDGED_JOBS, seed=6):
            each.learn(batch)
    given, made = raw(50.0), 2_000_000
    jobs = {f"{number}.srv" for number in range(MIN_JUDGED_JOBS)}
    for job in sorted(jobs):
        watching.watch(job, made, given)
        resumed.resume(job, made, given, 1)
    for each in (watching, resumed, forgetful):
        each.still_waiting(jobs, made + 20)
    assert levels(watching, given) == levels(resumed, given)
    for each in (resumed, forgetful):
        each.still_waiting(jobs, made + 4000)
    assert levels(resumed, given)[-1] > levels(forgetful, given)[-1]
    # Those that are gone count no more.
    resumed.still_waiting(set(), made + 4000)
    assert levels(resumed, given) == levels(forgetful, given)


def test_a_range_that_passed_is_not_learnt_again_where_the_log_comes_after_the_look_that_sees_the_job_run() -> None:
    in_time, behind = SelfCalibration(), SelfCalibration()
    given, made, started = raw(50.0), 2_000_000, 2_004_000
    for each in (in_time, behind):
        for batch in repeated(3 * MIN_JUDGED_JOBS, seed=6):
            each.learn(batch)
        for number in range(MIN_JUDGED_JOBS):
            each.watch(f"{number}.srv", made, given)
        each.still_waiting({f"{number}.srv" for number in range(MIN_JUDGED_JOBS)}, started)
    # The jobs run, and one of them was deleted: nothing that is stored says so yet.
    behind.still_waiting(set(), started + 60)
    behind.still_waiting(set(), started + 86400)
    for each in (in_time, behind):
        each.learn(JudgedForecast(f"{number}.srv", made, started, given) for number in range(MIN_JUDGED_JOBS - 1))
        each.still_waiting(set(), started + 86400)
    assert levels(behind, given) == levels(in_time, given)


def test_thousands_of_forecasts_of_one_look_are_corrected_by_one_state_that_any_lesson_renews() -> None:
    calibration = Calibration()
    found, other = raw(50.0), raw(60.0)
    for number in range(2 * MIN_JUDGED_JOBS):
        calibration.add(found, calibration.corrections_for(found), 60.0 + number, number)
    first = calibration.corrections_for(found)
    assert calibration.corrections_for(other) is first
    lessons: list[Callable[[], None]] = [
        lambda: calibration.range_end(found, 3, passed=True),
        lambda: calibration.range_end(found, 3, passed=False),
        lambda: calibration.add(found, first, 5000.0, "late"),
    ]
    for lesson in lessons:
        before = calibration.corrections_for(found)
        lesson()
        assert calibration.corrections_for(found) != before


def test_forecasts_of_a_job_that_has_waited_as_long_as_it_still_is_to_wait_are_apart_from_first_ones() -> None:
    random = np.random.default_rng(7)
    calibration = SelfCalibration()
    late = WaitForecast(20.0, 20.0, 20.0, (18.0, 19.0, 21.0, 22.0), 60.0)
    for number in range(5 * MIN_JUDGED_JOBS):
        # First forecasts are right, and later ones are 50 s too early: those are of the jobs that still wait.
        started = 1_000_000 + 100 * number
        wrong = int(random.integers(45, 56))
        calibration.learn(
            [
                JudgedForecast(f"{number}.srv", started - 60, started, raw(60.0)),
                JudgedForecast(f"{number}.srv", started - 20 - wrong, started, late),
            ]
        )
    first = calibration.corrections_for(raw(60.0)).corrected(raw(60.0)).tolist()
    assert first[0] > 50
    assert first[-1] < 70
    low, *_, high = calibration.corrections_for(late).quantiles(late).tolist()
    assert 60 < low < 70 < high < 80


def test_a_job_of_many_forecasts_weighs_as_much_as_one_of_a_single() -> None:
    found = WaitForecast(100.0, 100.0, 100.0, (90.0, 95.0, 105.0, 110.0))
    calibration = Calibration()
    for number in range(3 * MIN_JUDGED_JOBS):
        late = number % 2 == 0
        for _ in range(9 if late else 1):
            calibration.add(found, Corrections(), 200.0 if late else 60.0, number)
    low, lower, upper, high = calibration.corrections_for(found).quantiles(found).tolist()
    # Half of the jobs start after 60 s and half after 200 s, whatever the forecasts.
    assert low == lower == pytest.approx(60, abs=1)
    assert high == upper == pytest.approx(200, abs=1)


def waiting(number: int) -> WaitForecast:
    """A forecast of a job that has waited for an hour: by drawn runtimes it starts at once, by walltimes much later."""
    return WaitForecast(60.0 + number, 30_000.0, 60.0, (30.0, 50.0, 70.0, 90.0), 3600.0)


def test_a_job_that_has_outlasted_a_forecast_teaches_which_part_was_the_best_before_it_starts() -> None:
    watching, restarted = SelfCalibration(), SelfCalibration()
    made, now, started = 1_000_000, 1_100_000, 1_200_000
    jobs = {f"{number}.srv" for number in range(2 * MIN_MIXED_JOBS)}
    for number, job in enumerate(sorted(jobs)):
        watching.watch(job, made, waiting(number))
    watching.still_waiting(jobs, made + 29_000)
    assert watching.corrections_for(waiting(0)).mixed(waiting(0))[0] == 60.0
    watching.still_waiting(jobs, now)
    expected = watching.corrections_for(waiting(0)).mixed(waiting(0))[0]
    assert expected > 20_000
    # The start teaches the watching process nothing more, and a restarted one the same.
    judged = [JudgedForecast(job, made, started, waiting(number)) for number, job in enumerate(sorted(jobs))]
    for each in (watching, restarted):
        each.learn(judged)
        assert each.corrections_for(waiting(0)).mixed(waiting(0))[0] == pytest.approx(expected)


def test_what_a_job_waits_while_it_is_held_teaches_nothing() -> None:
    calibration = SelfCalibration()
    for batch in repeated(3 * MIN_JUDGED_JOBS, seed=9):
        calibration.learn(batch)
    made, given = 2_000_000, raw(50.0)
    before = levels(calibration, given)
    calibration.watch("held.srv", made, given)
    calibration.still_waiting(set(), made + 60)
    # It is released, and gets forecasts again: the ends of the earlier ranges have passed meanwhile.
    calibration.watch("held.srv", made + 4000, given)
    calibration.still_waiting({"held.srv"}, made + 4010)
    assert levels(calibration, given) == pytest.approx(before)
    calibration.still_waiting({"held.srv"}, made + 8000)
    assert levels(calibration, given)[-1] > before[-1] + 1
