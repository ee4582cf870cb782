"""A schedule as rows with the columns of Batsim's jobs.csv."""

from collections.abc import Iterator, Sequence

from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.simulated_jobs import Jobs

SCHEDULE_COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
    "promised_time", "backfilled", "extensions", "waiting_value",
)  # fmt: skip
"""Columns of a schedule: those of Batsim's jobs.csv, and after them those of this simulator.

Profile, allocated resources and energy are empty, because processors have no identity here.
"""


def schedule_rows(jobs: Jobs, outcome: ScheduleOutcome, workload: str) -> Iterator[Sequence[object]]:
    """Yield the schedule, in order of submission; times in epoch seconds, ``promised_time`` empty without a promise.

    :param workload: what the column ``workload_name`` holds.
    """
    columns = (
        outcome.start,
        outcome.duration,
        outcome.promise,
        outcome.backfilled,
        outcome.extensions,
        outcome.waiting,
    )
    rows = zip(jobs.completed.values("job_id"), *(column.tolist() for column in columns), strict=True)
    for index, row in enumerate(rows):
        job_id, start, duration, promise, backfilled, extensions, waiting = row
        submitted, walltime = jobs.submitted[index], jobs.walltime[index]
        killed = duration >= walltime and jobs.runtime[index] >= walltime
        turnaround = start + duration - submitted
        yield [
            job_id, workload, None, submitted, jobs.processors[index], walltime, int(not killed),
            "COMPLETED_WALLTIME_REACHED" if killed else "COMPLETED_SUCCESSFULLY",
            start, duration, start + duration, start - submitted, turnaround, f"{turnaround / duration:.6f}",
            None, None, None, promise if promise >= 0 else None, int(backfilled), extensions, waiting,
        ]  # fmt: skip
