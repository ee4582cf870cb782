"""Walltimes by queue for jobs that have none."""

import pytest

from softwalltime.measure.replay.job_columns import JobColumns, with_queue_walltimes
from tests.samples import job


@pytest.mark.parametrize("kind", [list, JobColumns.of])
def test_only_jobs_without_a_walltime_get_that_of_their_queue(kind: type) -> None:
    jobs = kind([job(walltime=None, queue="short"), job(walltime=50, queue="short"), job(walltime=None, queue="other")])
    assert [each.submission.walltime for each in with_queue_walltimes(jobs, {"short": 60})] == [60, 50, None]
    assert [each.submission.walltime for each in with_queue_walltimes(jobs, {"short": 60, "*": 9})] == [60, 50, 9]
