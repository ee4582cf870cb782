"""What was predicted, into the store."""

from collections.abc import Sequence

from sqlalchemy import Connection, insert

from softwalltime.jobs import Decision
from softwalltime.store.tables import predictions
from softwalltime.store.texts import storable_text


def add_decisions(connection: Connection, decisions: Sequence[Decision]) -> None:
    """Record decisions in the order given; best some hundreds at a time.

    :raises StoreError: if PostgreSQL fails.
    """
    if decisions:
        connection.execute(insert(predictions), [_row(decision) for decision in decisions])


def _row(decision: Decision) -> dict[str, object]:
    job = decision.submission
    return {
        "predicted_at": decision.at,
        "walltime": job.walltime,
        "soft_walltime": decision.soft_walltime,
        "predicted": decision.predicted,
        "took": decision.took,
        "event": decision.event,
        "job_id": storable_text(job.job_id),
        "user_name": storable_text(job.user),
        "project": storable_text(job.project),
        "queue": storable_text(job.queue),
        "mode": decision.mode,
        "predictor": decision.predictor,
        "action": decision.action,
        "basis": storable_text(decision.basis),
    }
