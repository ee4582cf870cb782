"""Quantiles of few past errors, and of those of jobs that wait still."""

import numpy as np
import pytest

from softwalltime.measure.forecast.past_errors import MAX_ERRORS, MIN_JUDGED_JOBS, WAIT_OFFSET_S, PastErrors

NOTHING = np.array([np.log(WAIT_OFFSET_S)])
"""A forecast of one quantile: the job starts at once."""


def waits(errors: PastErrors, level: float, now: float = 0.0) -> float:
    """Return the corrected wait in seconds, of a forecast that the job starts at once."""
    (found,) = errors.quantiles((level,), now)
    return float(np.exp(found) - 1) * WAIT_OFFSET_S


@pytest.mark.parametrize("count", [MIN_JUDGED_JOBS, 2 * MIN_JUDGED_JOBS])
def test_a_range_of_few_errors_holds_the_share_that_it_promises_of_new_jobs(count: int) -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(500):
        errors = PastErrors()
        for job, wait in enumerate(random.exponential(40_000, count)):
            errors.judged(job, NOTHING, wait)
        held += waits(errors, 0.05) <= random.exponential(40_000) <= waits(errors, 0.95)
    assert 0.87 <= held / 500 <= 0.94


def test_jobs_that_wait_still_count_with_what_they_have_waited() -> None:
    random = np.random.default_rng(2)
    judged, watching = PastErrors(), PastErrors()
    now = 100_000.0
    for job in range(300):
        begin, wait = random.uniform(0, now), random.exponential(50_000)
        if begin + wait <= now:
            judged.judged(job, NOTHING, wait)
            watching.judged(job, NOTHING, wait)
        else:
            watching.watch(job, NOTHING, begin)
    true = -50_000 * np.log(1 - 0.75)
    assert waits(judged, 0.75, now) < 0.7 * true
    assert waits(watching, 0.75, now) == pytest.approx(true, rel=0.2)
    # They say more as time passes, and nothing when they are gone.
    assert waits(watching, 0.75, 2 * now) > waits(watching, 0.75, now)
    for job in range(300):
        watching.forget(job)
    assert waits(watching, 0.75, now) == waits(judged, 0.75, now)


def test_where_many_errors_are_known_they_hold_long_waits_as_often_as_they_occur() -> None:
    errors, watching = PastErrors(), PastErrors()
    for job in range(MAX_ERRORS):
        for each in (errors, watching):
            each.judged(job, NOTHING, 100.0 * job)
        watching.watch(f"waits {job}", NOTHING, 0.0)
    assert waits(watching, 0.95, 10**7) == waits(errors, 0.95)


def test_many_forecasts_of_a_job_that_waits_count_as_one() -> None:
    one, many = PastErrors(), PastErrors()
    for job in range(MIN_JUDGED_JOBS):
        for each in (one, many):
            each.judged(job, NOTHING, 100.0 * job)
    one.watch("waits", NOTHING, 0.0)
    for _ in range(700):
        many.watch("waits", NOTHING, 0.0)
    assert waits(many, 0.75, 10**6) == pytest.approx(waits(one, 0.75, 10**6))
