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
    """Yield the schedule, in order of submission; times in epoch seconds, ``promised_time`` empty without a promise."""
    names = ("start", "duration", "promise", "backfilled", "extensions", "waiting")
    rows = zip(
        jobs.completed.values("job_id"), jobs.submitted, jobs.processors, jobs.walltime, jobs.runtime,
        *(getattr(outcome, name).tolist() for name in names), strict=True,
    )  # fmt: skip
    for job_id, submitted, size, walltime, runtime, start, duration, promise, backfilled, extensions, waiting in rows:
        killed = duration >= walltime and runtime >= walltime
        turnaround = start + duration - submitted
        yield [
            job_id, workload, None, submitted, size, walltime, int(not killed),
            "COMPLETED_WALLTIME_REACHED" if killed else "COMPLETED_SUCCESSFULLY",
            start, duration, start + duration, start - submitted, turnaround, f"{turnaround / duration:.6f}",
            None, None, None, promise if promise >= 0 else None, int(backfilled), extensions, waiting,
        ]  # fmt: skip
