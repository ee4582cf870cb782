"""Runs that were in vain: stopped for the job to be run again."""

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from softwalltime.jobs import CompletedJob
from softwalltime.store.encoding import storable_text
from softwalltime.store.locks import lock
from softwalltime.store.tables import NEVER_STARTED, interrupted_runs


def add_interrupted(connection: Connection, runs: Sequence[CompletedJob]) -> None:
    """Keep those of these runs that are not known yet."""
    if runs:
        lock(connection)
        connection.execute(insert(interrupted_runs).on_conflict_do_nothing(), [_row(run) for run in runs])


def _row(run: CompletedJob) -> dict[str, object]:
    of = run.submission
    return {
        "start_time": NEVER_STARTED if run.start is None else run.start,
        "end_time": run.end,
        "walltime": of.walltime,
        "soft_walltime": run.soft_walltime,
        "runtime": run.runtime,
        "exit_status": run.exit_status,
        "run_count": run.run_count,
        "state": run.state,
        "server": storable_text(run.server),
        "job_id": storable_text(of.job_id),
        "user_name": storable_text(of.user),
        "project": storable_text(of.project),
        "queue": storable_text(of.queue),
    }
