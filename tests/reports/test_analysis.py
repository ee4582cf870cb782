"""What the report says, worked out by hand."""

import numpy as np
import pytest

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.accuracy_metrics import Errors
from softwalltime.reports.before_after import WEEK, Span, change_of_mean, jobs_in, mean_over_blocks
from softwalltime.reports.groups import (
    Group,
    analyze_walltimes,
    group_jobs,
    most_deteriorated,
    summarize_users,
)
from tests.reports.fixtures import DAY, made, table
from tests.samples import job

HOUR = 3600


def test_r_is_capped_at_1_and_cpu_hours_weigh_by_processors() -> None:
    jobs = [
        job(runtime=360, walltime=3600, ncpus=9),
        job(submitted=1, runtime=4000, walltime=3600, ncpus=1),
        job(submitted=2, runtime=0, walltime=3600),
    ]
    found = analyze_walltimes(table(jobs))
    assert found is not None
    assert found.mean_r == pytest.approx(0.55)
    assert found.killed == 0.5
    assert found.wasted == pytest.approx(1 - (9 * 360 + 3600) / (10 * 3600))
    assert found.r_jobs[2] == found.r_jobs[19] == 0.5
    assert found.r_cpu[2] == pytest.approx(9 * 360 / (9 * 360 + 4000))


def test_an_accuracy_by_cpu_hours_is_that_of_the_large_jobs() -> None:
    jobs = [job(runtime=100, walltime=1000, ncpus=1), job(submitted=1, runtime=1000, walltime=1000, ncpus=99)]
    by_cpu_hours = made(jobs).accuracy_by_cpu_hours["request"]
    assert by_cpu_hours == pytest.approx((0.1 * 100 + 1.0 * 99_000) / 99_100)


def test_a_group_improves_by_the_mean_absolute_error_of_its_jobs() -> None:
    jobs = [
        job("a", runtime=100, walltime=DAY * 2),
        job("a", submitted=1, runtime=300, walltime=DAY * 2),
        job("b", submitted=2, runtime=900, walltime=1000),
        job("c", submitted=3, runtime=900, walltime=1000),
    ]
    found = table(jobs)
    errors = Errors.of(np.array([200, 200, 100, -1]), found.walltime, found.t)
    users = group_jobs(found, errors, found.user)
    assert [user.name for user in users] == ["a", "b", "c"]
    first = users[0]
    assert (first.jobs, first.error, first.walltime_error) == (2, 100, 2 * DAY - 200)
    assert (first.underestimated, first.adjusted) == (0.5, 1)
    assert first.accuracy == pytest.approx((0.5 + 2 / 3) / 2)


def test_only_notable_changes_of_users_with_enough_jobs_count() -> None:
    users = [
        Group("a", 10, 2.0 * DAY, 0, 0.1, 0.5, 0.0, 1),
        Group("b", 10, 100, 800, 0.5, 0.1, 0.0, 1),
        Group("c", 10, 100, 100.4, 0.5, 0.5, 0.0, 1),
        Group("few", 9, 9000, 0, 0.1, 0.9, 0.0, 1),
        Group("too short", 10, 9000, 0, 0.1, 0.9, 0.52, 1),
        Group("less accurate", 10, 9000, 8000, 0.5, 0.46, 0.48, 1),
    ]
    told = summarize_users(users, 0.5)
    assert (told.users, told.better, told.worse, told.worst) == (5, 0.2, 0.2, 700)
    assert [user.name for user in most_deteriorated(users)] == ["b"]
    assert summarize_users(users[3:4], 0.5).users == 0


def test_the_project_field_is_the_first_in_which_jobs_differ() -> None:
    default = "_pbs_project_default"
    assert table([job(project="a"), job(submitted=1, project="b")]).project_field == "project"
    by_account = table([job(project=default, account="x"), job(submitted=1, project=default, account="y")])
    assert (by_account.project_field, by_account.project.names) == ("account", ("x", "y"))
    assert table([job(project=default)]).project.names == ("(none)",)


def test_a_wait_begins_when_the_job_could_have_run() -> None:
    plain = job(submitted=100, end=700, runtime=100)
    held = job(submitted=100, end=700, runtime=100, etime=550)
    never = job(submitted=100, end=700, runtime=0, start=None)
    assert table([plain, held, never]).wait.tolist() == [500, 50, -1]


def test_a_change_of_the_mean_wait_has_an_interval_over_weeks() -> None:
    def waiting(hours: list[int], first: int) -> list[CompletedJob]:
        return [
            job(submitted=(first + week) * 7 * DAY + n, end=(first + week) * 7 * DAY + n + wait * HOUR + 100)
            for week, wait in enumerate(hours)
            for n in range(5)
        ]

    before, after = [1, 2, 3, 2, 2], [4, 6, 5, 5, 5]
    found = table([*waiting(before, 0), *waiting(after, 10)])
    halves = [jobs_in(found, span) for span in (Span(0, 70 * DAY), Span(70 * DAY, 140 * DAY))]
    first, second = (mean_over_blocks(found.wait[half], found.submitted[half] // WEEK) for half in halves)
    # Of weeks with the same number of jobs the jackknife gives the standard error of the mean of the weeks.
    assert first.error == pytest.approx(np.std(before, ddof=1) * HOUR / 5**0.5)
    change = change_of_mean(first, second)
    half = 2.776 * np.hypot(np.std(before, ddof=1), np.std(after, ddof=1)) / 5**0.5
    assert change.mean == 3 * HOUR
    assert (change.low, change.high) == (pytest.approx((3 - half) * HOUR), pytest.approx((3 + half) * HOUR))
    few = table(waiting([1, 2, 3], 0))
    alone = mean_over_blocks(few.wait, few.submitted // WEEK)
    assert alone.error is None
    assert change_of_mean(alone, second).low is None
