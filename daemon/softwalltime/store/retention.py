"""Delete rows past their retention, in small transactions that delay no reader or writer.

A wrong clock must not empty the store.  Age is therefore measured from the end of the newest stored job, never from
the host's clock alone, and nothing is deleted by age while the two disagree or while too large a share of the store
would be deleted at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from sqlalchemy import Connection, Engine, delete

from softwalltime.core.formatting import plural
from softwalltime.store.connections import lock
from softwalltime.store.daily import DAILY, monthly_scores
from softwalltime.store.queries import query

BATCH = 5_000
"""Rows deleted in one transaction: some hundredths of a second."""
GRACE = 30 * 86400
"""Seconds after its walltime until a job that seems to run is deleted: the record of its end was missed."""
SHARE = 0.25
"""Greatest share of the jobs, and of the predictions, that is deleted by age at once."""
MAX_UNCHECKED_ROWS = 100
"""Rows that are deleted whatever share they are."""
TOLERANCE = 86400
"""Seconds by which the clock and the end of the newest stored job may disagree."""
FUTURE_SHARE = 0.01
"""Share of jobs that ended in the future, by their records, above which the clock is taken to be wrong, not they."""
THINNED = 30 * 86400
"""Seconds after which of the forecasts of a job's start only the first is kept."""
_DAY = 86400
_NEVER = 253402300799
"""The last second of the year 9999, the last day that Python knows."""


class RefusalReason(StrEnum):
    """Why retention deletes nothing by age."""

    CLOCK = "clock"
    """The clock and the newest records disagree by more than a day."""
    SHARE = "share"
    """Too large a share of a table would be deleted at once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Rows that retention refuses to delete by age, and the reason; ``str()`` is a sentence with the action to take.

    ``table`` names the rows, ``old`` is how many of them are older than the site keeps them.  ``kept`` is how many
    are not, for ``SHARE`` only.  ``reference`` has the newest jobs and ``now`` is the clock (epoch seconds).
    """

    reason: RefusalReason
    table: str
    old: int
    now: int
    reference: "Reference"
    kept: int = 0

    def __str__(self) -> str:
        if self.reason is RefusalReason.SHARE:
            return (
                f"retention deletes nothing by age: {self.old:,} rows of {self.table}, "
                f"{self.old / (self.old + self.kept):.0%} of them, are older than keep_days; if that is right, run "
                "softwalltime db prune --force once"
            )
        reference = self.reference
        newest = "" if reference.newest is None else f"the newest job ended {_time(reference.newest)}"
        remedy = "wait until a job ends"
        if reference.future:
            newest = f"{reference.future:,} of {plural(reference.jobs, 'job')} ended later by their records, the last "
            newest += _time(reference.last)
            remedy = "run softwalltime db prune --force"
        return (
            f"retention deletes nothing by age: the clock says {_time(self.now)}, but {newest}; correct the clock; if "
            f"it is right, {remedy}"
        )


class RetentionRun(Iterator[tuple[str, int]]):
    """Deletes rows past their retention: yields the table and the rows deleted after each transaction.

    The caller may stop between two steps.  ``refused`` says what is not deleted and why; it is complete after the first
    step.  Age is measured from the end of the newest stored job, or from ``now`` if that is earlier or there is none.

    :param keep_days: 0: for ever.
    :param now: the host's clock, epoch seconds.
    :param force: delete by age although :func:`refusals` has reasons not to.
    """

    def __init__(self, engine: Engine, keep_days: int, now: int, *, force: bool = False) -> None:
        self.refused: list[Refusal] = []
        self._steps = self._run(engine, keep_days, now, force)

    def __next__(self) -> tuple[str, int]:
        return next(self._steps)

    def _run(self, engine: Engine, keep_days: int, now: int, force: bool) -> Iterator[tuple[str, int]]:
        with engine.connect() as connection:
            as_of = Reference.read(connection, now).as_of
            if not force:
                self.refused = refusals(connection, keep_days, now)
        if keep_days and not self.refused:
            before = as_of - keep_days * _DAY
            yield from _in_batches(engine, "completed_jobs", "delete_old_jobs", {"before": before})
            yield from _in_batches(engine, "predictions", "delete_old_predictions", {"before": before})
            yield from _in_batches(engine, "interrupted_runs", "delete_old_runs", {"before": before})
            yield from _in_batches(engine, "start_times", "delete_old_starts", {"before": before})
            yield from _in_batches(engine, "promises", "delete_old_promises", {"before": before})
            yield from _in_batches(engine, "live_states", "delete_old_live_states", {"before": before})
            yield from _in_batches(engine, "job_scripts", "delete_old_scripts", {"before": before})
            yield "current_jobs", _delete(engine, "delete_old_current", {"before": before}, in_turn=True)
            yield "daily figures", _delete_figures(engine, before)
        if not self.refused:
            yield from _in_batches(engine, "start_times", "thin_starts", {"before": as_of - THINNED})
        yield "current_jobs", _delete(engine, "delete_lost", {"now": as_of, "grace": GRACE}, in_turn=True)


def refusals(connection: Connection, keep_days: int, now: int) -> list[Refusal]:
    """Return the rows that retention refuses to delete by age at ``now`` (the host's clock, epoch seconds), and why.

    Empty if nothing is refused.  Reads a few index entries, and as many more as there are rows to delete.
    """
    if not keep_days:
        return []
    reference = Reference.read(connection, now)
    # With an untrusted clock: the rows that it would have deleted.
    values = {"before": (reference.as_of if reference.trusted else now) - keep_days * _DAY}
    refused = []
    for table, old_of, kept_of in (
        ("completed_jobs", "count_old_jobs", "count_kept_jobs"),
        ("predictions", "count_old_predictions", "count_kept_predictions"),
    ):
        old = connection.execute(query(old_of), values).scalar_one()
        if old and not reference.trusted:
            refused.append(Refusal(RefusalReason.CLOCK, table, old, now, reference))
        elif old > MAX_UNCHECKED_ROWS:
            # A store of few days loses a large share every day.
            enough = int(old / max(SHARE, 3 / (keep_days + 1))) - old + 1
            kept = connection.execute(query(kept_of), {**values, "enough": enough}).scalar_one()
            if kept < enough:
                refused.append(Refusal(RefusalReason.SHARE, table, old, now, reference, kept))
    return refused


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference time for the age of rows, and whether clock and records agree."""

    as_of: int
    """Epoch seconds: the end of the newest job, or the clock if that is earlier or there is no job."""
    newest: int | None
    """End of the newest job that did not end in the future; ``None``: there is none."""
    trusted: bool
    future: int = 0
    """Jobs that ended in the future by their records, where they are too many to be ignored."""
    jobs: int = 0
    """All jobs, and ``last`` the last end, where ``future`` is not 0."""
    last: int = 0

    @classmethod
    def read(cls, connection: Connection, now: int) -> Self:
        latest = now + TOLERANCE
        newest, later, last = connection.execute(query("newest_end"), {"latest": latest}).one()
        if later:
            # A few jobs that ended in the future are passed over: a clock was wrong for a while, or a record is.
            enough = int(later / FUTURE_SHARE)
            values = {"latest": latest, "enough": enough}
            earlier = connection.execute(query("count_earlier_jobs"), values).scalar_one()
            if earlier < enough:
                return cls(now, newest, trusted=False, future=later, jobs=earlier + later, last=last)
        if newest is None:
            return cls(now, None, trusted=True)
        return cls(min(now, newest), newest, trusted=now - newest <= TOLERANCE)


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
    """Delete the figures of days, and of months, that are over before that time; return how many rows."""
    oldest = datetime.fromtimestamp(max(0, before), UTC).date()
    with engine.begin() as connection:
        rows = sum(connection.execute(delete(table).where(table.c.day < oldest)).rowcount for table in DAILY)
        month = monthly_scores.c.month < oldest.replace(day=1)
        return rows + connection.execute(delete(monthly_scores).where(month)).rowcount


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(min(max(0, seconds), _NEVER), UTC).strftime("%Y-%m-%d %H:%M UTC")
