"""Delete rows past their retention, in small transactions that delay no reader or writer.

A wrong clock must not empty the store.  Age is therefore measured from the end of the newest stored job, not from the
host's clock alone.  Nothing is deleted by age while the two disagree, or if too large a share of the store would be
deleted at once.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete

from softwalltime.core.formatting import DAY, plural
from softwalltime.store.connections import lock
from softwalltime.store.daily import delete_figures, monthly_scores
from softwalltime.store.queries import query

BATCH = 5_000
"""Rows deleted in one transaction: some hundredths of a second."""
RUNNING_GRACE_S = 30 * 86400
"""Seconds after its walltime until a running job is deleted: the record of its end was missed."""
MAX_DELETED_SHARE = 0.25
"""Maximum share of the jobs, and of the predictions, to delete by age at once."""
MAX_UNCHECKED_ROWS = 100
"""Number of rows that may be deleted regardless of their share."""
CLOCK_TOLERANCE_S = 86400
"""Maximum seconds between the clock and the end of the newest stored job."""
MAX_FUTURE_SHARE = 0.01
"""Share of jobs with an end in the future above which the clock, not the records, is regarded as wrong."""
THIN_AFTER_S = 30 * 86400
"""Age in seconds beyond which only the first start forecast of a job is kept."""
_NEVER = 253402300799
"""The last second of the year 9999, the last day that Python knows."""


class RefusalReason(StrEnum):
    """Why retention deletes nothing by age."""

    CLOCK = "clock"
    """The clock and the newest records disagree by more than a day."""
    SHARE = "share"
    """Too large a share of a table would be deleted at once."""


class Refusal(NamedTuple):
    """The number of rows of a table that retention refuses to delete by age, why, and a sentence with the remedy."""

    table: str
    old: int
    reason: RefusalReason
    text: str


_BY_AGE = {
    "completed_jobs": "delete_old_jobs",
    "predictions": "delete_old_predictions",
    "interrupted_runs": "delete_old_runs",
    "start_times": "delete_old_starts",
    "promises": "delete_old_promises",
    "live_states": "delete_old_live_states",
    "job_scripts": "delete_old_scripts",
}
"""The statement that deletes old rows, by table."""


class RetentionRun(Iterator[tuple[str, int]]):
    """Delete rows past their retention; yield table and number of deleted rows after each transaction.

    The caller may stop between two steps.  ``refused`` has the rows that are not deleted, and why; it is complete after
    the first step.  Age is measured from the end of the newest stored job, or from ``now`` if earlier or without jobs.

    :param keep_days: retention in days; 0: forever.
    :param now: the host's clock, epoch seconds.
    :param force: delete by age despite :func:`refusals`.
    """

    def __init__(self, engine: Engine, keep_days: int, now: int, *, force: bool = False) -> None:
        self.refused: list[Refusal] = []
        self._steps = self._run(engine, keep_days, now, force)

    def __next__(self) -> tuple[str, int]:
        return next(self._steps)

    def _run(self, engine: Engine, keep_days: int, now: int, force: bool) -> Iterator[tuple[str, int]]:
        with engine.connect() as connection:
            as_of, _ = _reference(connection, now)
            if not force:
                self.refused = refusals(connection, keep_days, now)
        if keep_days and not self.refused:
            before = as_of - keep_days * DAY
            for table, statement in _BY_AGE.items():
                yield from _in_batches(engine, table, statement, {"before": before})
            yield "current_jobs", _delete(engine, "delete_old_current", {"before": before}, in_turn=True)
            yield "daily figures", _delete_figures(engine, before)
        if not self.refused:
            yield from _in_batches(engine, "start_times", "thin_starts", {"before": as_of - THIN_AFTER_S})
        yield "current_jobs", _delete(engine, "delete_lost", {"now": as_of, "grace": RUNNING_GRACE_S}, in_turn=True)


def refusals(connection: Connection, keep_days: int, now: int) -> list[Refusal]:
    """Return the rows that retention refuses to delete by age at ``now`` (the host's clock, epoch seconds), and why.

    Reads a few index entries, and one for each row to delete.
    """
    if not keep_days:
        return []
    as_of, disagreement = _reference(connection, now)
    # With an untrusted clock, report the rows that it would delete.
    values = {"before": (now if disagreement else as_of) - keep_days * DAY}
    refused = []
    for table, old_of, kept_of in (
        ("completed_jobs", "count_old_jobs", "count_kept_jobs"),
        ("predictions", "count_old_predictions", "count_kept_predictions"),
    ):
        old = connection.execute(query(old_of), values).scalar_one()
        if old and disagreement:
            refused.append(
                Refusal(table, old, RefusalReason.CLOCK, f"retention deletes nothing by age: {disagreement}")
            )
        elif old > MAX_UNCHECKED_ROWS:
            # A store with a retention of few days loses a large share every day.
            enough = int(old / max(MAX_DELETED_SHARE, 3 / (keep_days + 1))) - old + 1
            kept = connection.execute(query(kept_of), {**values, "enough": enough}).scalar_one()
            if kept < enough:
                text = (
                    f"retention deletes nothing by age: {old:,} rows of {table}, {old / (old + kept):.0%} of them, are "
                    "older than keep_days; if that is right, run softwalltime db prune --force once"
                )
                refused.append(Refusal(table, old, RefusalReason.SHARE, text))
    return refused


def _reference(connection: Connection, now: int) -> tuple[int, str]:
    """Return the time from which age is measured, and how the clock and the records disagree; empty: they agree.

    The time is the end of the newest job, or ``now`` (epoch seconds) if that is earlier or there is no job.
    """
    latest = now + CLOCK_TOLERANCE_S
    newest, later, last = connection.execute(query("newest_end"), {"latest": latest}).one()
    wrong = f"the clock says {_time(now)}, but {{}}; correct the clock; if it is right, {{}}"
    if later:
        # Ignore a few jobs with an end in the future: a clock was wrong for a while, or a record is.
        enough = int(later / MAX_FUTURE_SHARE)
        earlier = connection.execute(query("count_earlier_jobs"), {"latest": latest, "enough": enough}).scalar_one()
        if earlier < enough:
            jobs = f"{later:,} of {plural(earlier + later, 'job')} ended later by their records, the last {_time(last)}"
            return now, wrong.format(jobs, "run softwalltime db prune --force")
    if newest is None or now - newest <= CLOCK_TOLERANCE_S:
        return now if newest is None else min(now, newest), ""
    return newest, wrong.format(f"the newest job ended {_time(newest)}", "wait until a job ends")


def _in_batches(engine: Engine, table: str, name: str, values: dict[str, Any]) -> Iterator[tuple[str, int]]:
    deleted = BATCH
    while deleted == BATCH:
        deleted = _delete(engine, name, {**values, "batch": BATCH})
        yield table, deleted


def _delete(engine: Engine, name: str, values: dict[str, Any], *, in_turn: bool = False) -> int:
    """Delete in a separate transaction; ``in_turn`` takes the writers' lock."""
    with engine.begin() as connection:
        if in_turn:
            lock(connection)
        return connection.execute(query(name), values).rowcount


def _delete_figures(engine: Engine, before: int) -> int:
    """Delete the figures of days and months that ended before that time; return the number of rows."""
    oldest = datetime.fromtimestamp(max(0, before), UTC).date()
    with engine.begin() as connection:
        rows = delete_figures(connection, oldest)
        month = monthly_scores.c.month < oldest.replace(day=1)
        return rows + connection.execute(delete(monthly_scores).where(month)).rowcount


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(min(max(0, seconds), _NEVER), UTC).strftime("%Y-%m-%d %H:%M UTC")
