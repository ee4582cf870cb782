"""What the report says, worked out by hand."""

import numpy as np
import pytest

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.workload import Workload
from softwalltime.reports.before_after import WEEK, Span, change_of_mean, jobs_in, mean_over_blocks
from softwalltime.reports.walltime_use import analyze_walltimes
from tests.reports.fixtures import DAY, table
from tests.samples import job

HOUR = 3600


def test_r_is_capped_at_1_and_cpu_hours_weigh_by_processors() -> None:
    jobs = [
        job(runtime=360, walltime=3600, ncpus=9),
        job(submitted=1, runtime=4000, walltime=3600, ncpus=1),
        job(submitted=2, runtime=0, walltime=3600),
    ]
    found = analyze_walltimes(Workload(jobs))
    assert found is not None
    assert found.mean_r == pytest.approx(0.55)
    assert found.killed == 0.5
    assert found.wasted == pytest.approx(1 - (9 * 360 + 3600) / (10 * 3600))
    assert found.r_jobs[2] == found.r_jobs[19] == 0.5
    assert found.r_cpu[2] == pytest.approx(9 * 360 / (9 * 360 + 4000))


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
