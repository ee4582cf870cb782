"""Shaken workloads hold the same jobs at other times, and one seed always gives the same."""

from collections import defaultdict

import pytest

from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import DAY
from softwalltime.measure.simulation.names import SHAKES
from softwalltime.measure.simulation.shaking import WEEK, shaken
from softwalltime.measure.simulation.simulated_jobs import Jobs


@pytest.mark.parametrize("shake", SHAKES)
def test_a_seed_gives_one_workload_and_another_seed_another(jobs: Jobs, shake: str) -> None:
    assert shaken(jobs, shake, 31) == shaken(jobs, shake, 31)
    assert shaken(jobs, shake, 31) != shaken(jobs, shake, 32)


@pytest.mark.parametrize("shake", SHAKES)
def test_jobs_stay_in_order_of_submission(jobs: Jobs, shake: str) -> None:
    found = shaken(jobs, shake, 1)
    assert list(found.submitted) == sorted(found.submitted)
    assert [each.submission.submitted for each in found.completed] == list(found.submitted)


def spread(jobs: Jobs, days: int) -> Jobs:
    """The same jobs, submitted in that many days."""
    step = days * DAY // len(jobs)
    return jobs.shifted([number * step - submitted for number, submitted in enumerate(jobs.submitted)])


def test_the_jobs_of_a_user_move_together_by_whole_weeks_and_some_minutes(jobs: Jobs) -> None:
    jobs = spread(jobs, 100)
    before = {each.submission.job_id: each.submission.submitted for each in jobs.completed}
    shifts = defaultdict(set)
    for each in shaken(jobs, "week", 7).completed:
        shifts[each.submission.user].add(each.submission.submitted - before[each.submission.job_id])
    assert all(len(shift) == 1 for shift in shifts.values())
    weeks = [round(shift / WEEK) for (shift,) in shifts.values()]
    assert set(weeks) <= {-2, -1, 0, 1, 2}
    assert len(set(weeks)) > 2
    assert all(abs(shift - week * WEEK) <= 300 for (shift,), week in zip(shifts.values(), weeks, strict=True))


def test_in_a_short_log_jobs_move_in_a_circle_and_the_load_stays(jobs: Jobs) -> None:
    short = spread(jobs, 15)
    before = {each.submission.job_id: each.submission.submitted for each in short.completed}
    shifts = defaultdict(set)
    found = shaken(short, "week", 7)
    for each in found.completed:
        shifts[each.submission.user].add((each.submission.submitted - before[each.submission.job_id]) % (15 * DAY))
    assert all(len(shift) == 1 for shift in shifts.values())
    assert len({shift for (shift,) in shifts.values()}) > 5
    assert (min(found.submitted) >= 0, max(found.submitted) < 15 * DAY) == (True, True)
    assert sum(time < 5 * DAY for time in found.submitted) == pytest.approx(len(jobs) / 3, rel=0.2)


def test_jitter_moves_each_job_by_at_most_five_minutes(jobs: Jobs) -> None:
    before = {each.submission.job_id: each.submission.submitted for each in jobs.completed}
    moved = [each.submission.submitted - before[each.submission.job_id] for each in shaken(jobs, "jitter", 7).completed]
    assert max(map(abs, moved)) <= 300
    assert len(set(moved)) > 100


def test_another_shake_is_refused(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="no shake is called 'month'; there are week, jitter"):
        shaken(jobs, "month", 1)
