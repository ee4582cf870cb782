"""The schedule of one simulation as CSV, one line a job, with the column names of Batsim's jobs.csv."""

import csv
from pathlib import Path

from softwalltime.errors import SourceError
from softwalltime.simulation.engine import ScheduleOutcome
from softwalltime.simulation.jobs import Jobs

COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
"""Batsim's columns; profile, allocated resources and energy are empty, because processors have no identity here."""
MORE = ("promised_time", "backfilled", "extensions", "waiting_value")
"""Columns of this simulator, after Batsim's."""


def write_jobs(path: Path, jobs: Jobs, outcome: ScheduleOutcome, workload: str) -> None:
    """Write the schedule, in order of submission; times in epoch seconds, ``promised_time`` empty without a promise.

    :param workload: what the column ``workload_name`` holds.
    :raises SourceError: if the file cannot be written.
    """
    columns = (
        outcome.start,
        outcome.duration,
        outcome.promise,
        outcome.backfilled,
        outcome.extensions,
        outcome.waiting,
    )
    try:
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow([*COLUMNS, *MORE])
            rows = zip(jobs.completed.values("job_id"), *(column.tolist() for column in columns), strict=True)
            for index, row in enumerate(rows):
                job_id, start, duration, promise, backfilled, extensions, waiting = row
                submitted, walltime = jobs.submitted[index], jobs.walltime[index]
                killed = duration >= walltime and jobs.runtime[index] >= walltime
                turnaround = start + duration - submitted
                writer.writerow(
                    [
                        job_id, workload, "", submitted, jobs.processors[index],
                        walltime, int(not killed),
                        "COMPLETED_WALLTIME_REACHED" if killed else "COMPLETED_SUCCESSFULLY",
                        start, duration, start + duration, start - submitted, turnaround,
                        f"{turnaround / duration:.6f}", "", "", "", promise if promise >= 0 else "", int(backfilled),
                        extensions, waiting,
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
