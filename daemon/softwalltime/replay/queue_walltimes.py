"""Give jobs without a walltime that of their queue."""

from collections.abc import Mapping, Sequence

from softwalltime.jobs import CompletedJob
from softwalltime.replay.job_columns import JobColumns

OTHERS = "*"
"""Name for all queues that are not listed."""


def with_queue_walltimes(jobs: Sequence[CompletedJob], walltimes: Mapping[str, int]) -> JobColumns:
    """Return the jobs, those without a walltime with the walltime of their queue in seconds, if it is known."""
    columns = JobColumns.of(jobs)
    others = walltimes.get(OTHERS)
    values = [walltime or walltimes.get(queue, others) for walltime, queue in columns.rows("walltime", "queue")]
    return columns.replaced("walltime", values)
