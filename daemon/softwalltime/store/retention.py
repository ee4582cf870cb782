"""What is kept for how long, and how the rest is forgotten without being in anybody's way."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, text

from softwalltime.store.locks import lock
from softwalltime.store.tables import SCHEMA

BATCH = 5_000
"""Rows deleted in one transaction: some hundredths of a second."""
GRACE = 30 * 86400
"""Seconds after its walltime for which a job that seems to run is believed to; its end must have been missed then."""
_DAY = 86400

# By their places, which are those of rows that are never changed: to find each by its key once more PostgreSQL may come
# to read the whole table.
_OLD_JOBS = text(f"""
    DELETE FROM {SCHEMA}.completed_jobs
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {SCHEMA}.completed_jobs WHERE end_time < :before ORDER BY end_time, id LIMIT :batch
    ))
""")  # noqa: S608 - the schema's name is ours
# Through the index by user, leaping from one user to the next: for each the end of the last job to keep.
_CROWDED = text(f"""
    WITH RECURSIVE users AS (
        SELECT min(user_name) AS user_name FROM {SCHEMA}.completed_jobs WHERE runtime > 0
        UNION ALL
        SELECT (
            SELECT min(job.user_name) FROM {SCHEMA}.completed_jobs AS job
            WHERE job.runtime > 0 AND job.user_name > users.user_name
        )
        FROM users WHERE users.user_name IS NOT NULL
    )
    SELECT users.user_name, last.end_time, last.id
    FROM users CROSS JOIN LATERAL (
        SELECT job.end_time, job.id FROM {SCHEMA}.completed_jobs AS job
        WHERE job.user_name = users.user_name AND job.runtime > 0
        ORDER BY job.end_time DESC, job.id DESC OFFSET :kept LIMIT 1
    ) AS last
""")  # noqa: S608 - the schema's name is ours
_CROWDING_JOBS = text(f"""
    DELETE FROM {SCHEMA}.completed_jobs
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {SCHEMA}.completed_jobs
        WHERE user_name = :user AND runtime > 0 AND (end_time, id) <= (:end_time, :id)
        ORDER BY end_time, id LIMIT :batch
    ))
""")  # noqa: S608 - the schema's name is ours
_OLD_PREDICTIONS = text(f"""
    DELETE FROM {SCHEMA}.predictions
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {SCHEMA}.predictions WHERE predicted_at < :before ORDER BY predicted_at LIMIT :batch
    ))
""")  # noqa: S608 - the schema's name is ours
_OLD_RUNS = text(f"""
    DELETE FROM {SCHEMA}.interrupted_runs
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM {SCHEMA}.interrupted_runs WHERE end_time < :before LIMIT :batch))
""")  # noqa: S608 - the schema's name is ours
# What neither starts nor has to end: that it waits, or runs, for so long is no reason to believe that it does not.
_OLD_CURRENT = text(f"""
    DELETE FROM {SCHEMA}.current_jobs
    WHERE ctime < :before AND (start_time IS NULL OR walltime IS NULL OR is_array)
""")  # noqa: S608 - the schema's name is ours
_LOST = text(f"""
    DELETE FROM {SCHEMA}.current_jobs WHERE start_time + walltime + {GRACE} < :now AND NOT is_array
""")  # noqa: S608 - the schema's name is ours


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
        yield from _in_batches(engine, "completed_jobs", _OLD_JOBS, before)
        yield from _in_batches(engine, "predictions", _OLD_PREDICTIONS, before)
        yield from _in_batches(engine, "interrupted_runs", _OLD_RUNS, before)
        yield "current_jobs", _delete(engine, _OLD_CURRENT, before, in_turn=True)
    yield "current_jobs", _delete(engine, _LOST, {"now": now}, in_turn=True)
    if retention.jobs_per_user:
        with engine.connect() as connection:
            crowded = connection.execute(_CROWDED, {"kept": retention.jobs_per_user}).all()
        for user, end_time, number in crowded:
            last = {"user": user, "end_time": end_time, "id": number}
            yield from _in_batches(engine, "completed_jobs", _CROWDING_JOBS, last)


def _in_batches(engine: Engine, table: str, statement: Any, values: dict[str, Any]) -> Iterator[tuple[str, int]]:
    deleted = BATCH
    while deleted == BATCH:
        deleted = _delete(engine, statement, {**values, "batch": BATCH})
        yield table, deleted


def _delete(engine: Engine, statement: Any, values: dict[str, Any], *, in_turn: bool = False) -> int:
    """Delete in a transaction of its own; ``in_turn`` where those who write change the same rows, in another order."""
    with engine.begin() as connection:
        if in_turn:
            lock(connection)
        return connection.execute(statement, values).rowcount
