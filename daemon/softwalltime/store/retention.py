"""What is kept for how long, and how the rest is forgotten without being in anybody's way."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from softwalltime.store.locks import lock
from softwalltime.store.queries import query

BATCH = 5_000
"""Rows deleted in one transaction: some hundredths of a second."""
GRACE = 30 * 86400
"""Seconds after its walltime for which a job that seems to run is believed to; its end must have been missed then."""
_DAY = 86400


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept: what is younger than ``days``, and of each user the last ``jobs_per_user``; 0: all."""

    days: int
    jobs_per_user: int


def forget(engine: Engine, retention: Retention, now: int) -> Iterator[tuple[str, int]]:
    """Delete what is not to be kept as of ``now`` (epoch seconds), step by step.

    Yields the table and how many of its rows were deleted after each transaction, each so small that readers and
    writers notice nothing; whoever is in a hurry may stop in between.
    """
    before = {"before": now - retention.days * _DAY}
    if retention.days:
        yield from _in_batches(engine, "completed_jobs", "delete_old_jobs", before)
        yield from _in_batches(engine, "predictions", "delete_old_predictions", before)
        yield from _in_batches(engine, "interrupted_runs", "delete_old_runs", before)
        yield "current_jobs", _delete(engine, "delete_old_current", before, in_turn=True)
    yield "current_jobs", _delete(engine, "delete_lost", {"now": now, "grace": GRACE}, in_turn=True)
    if retention.jobs_per_user:
        with engine.connect() as connection:
            crowded = connection.execute(query("crowded_users"), {"kept": retention.jobs_per_user}).all()
        for user, end_time, number in crowded:
            last = {"user": user, "end_time": end_time, "id": number}
            yield from _in_batches(engine, "completed_jobs", "delete_crowding_jobs", last)


def _in_batches(engine: Engine, table: str, statement: str, values: dict[str, Any]) -> Iterator[tuple[str, int]]:
    deleted = BATCH
    while deleted == BATCH:
        deleted = _delete(engine, statement, {**values, "batch": BATCH})
        yield table, deleted


def _delete(engine: Engine, statement: str, values: dict[str, Any], *, in_turn: bool = False) -> int:
    """Delete in a transaction of its own; ``in_turn`` where those who write change the same rows, in another order."""
    with engine.begin() as connection:
        if in_turn:
            lock(connection)
        return connection.execute(query(statement), values).rowcount
