"""Daily and monthly aggregates for the monitoring views, which would otherwise read all jobs and predictions.

Days are UTC days of a job's end or of a prediction.  A refresh marks the days of new jobs and predictions as stale, and
recomputes each stale day as a whole.  The result does not depend on the order of arrival, and a refresh that was killed
continues later.  The statements are in sql/queries/refresh_*.sql.

Sums are stored instead of means, so that days can be added; as floating point, exact up to 2^53, because a log may
contain any number of seconds.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, Engine, TableClause, column, delete, table

from softwalltime.core.formatting import DAY
from softwalltime.store.quality import Quality, WaitOfSize
from softwalltime.store.queries import query
from softwalltime.store.tables import SCHEMA


def _figures(*names: str) -> tuple[TableClause, ...]:
    return tuple(table(name, column("day"), schema=SCHEMA) for name in names)


OF_JOBS = _figures("daily_scores", "daily_medians", "daily_lengths", "daily_waits", "daily_ordering")
"""Figures of the jobs that ended on a day."""
OF_PREDICTIONS = _figures("daily_decisions", "daily_hook")
"""Figures of the predictions made on a day."""
DAILY = (*OF_JOBS, *OF_PREDICTIONS)
monthly_scores = table("monthly_scores", column("month"), schema=SCHEMA)
"""Monthly sums of ``daily_scores``, for queries over all users."""

MARK_BATCH = 200_000
"""Maximum jobs, and predictions, whose days are marked in one transaction, some tenths of a second."""
REREAD_PREDICTIONS = 1_000
"""Number of already included predictions that are read again: of two daemons with one store, the first to begin may
commit last."""


def refresh(engine: Engine, now: int) -> Iterator[int]:
    """Update the figures as of ``now`` (epoch seconds), step by step, the newest days first.

    Yields the number of recomputed days after each transaction.  A caller may stop in between; the next refresh
    continues there.
    """
    more = True
    while more:
        with engine.begin() as connection:
            more = _mark(connection)
        yield 0
    while True:
        with engine.begin() as connection:
            connection.execute(query("first_known"))
            day = connection.execute(query("next_stale_day"), {"now": now}).scalar_one_or_none()
            if day is None:
                break
            _compute_day(connection, day)
            _compute_month(connection, day, now)
        yield 1
    with engine.begin() as connection:
        connection.execute(query("refreshed"), {"now": now})


def recent_quality(connection: Connection) -> list[Quality]:
    """Return each predictor's figures over the last seven days, as of the last refresh."""
    return [Quality(*row) for row in connection.execute(query("recent_quality"))]


def recent_waits(connection: Connection) -> list[WaitOfSize]:
    """Return the waits by size of the last seven days and of the eight weeks before, as of the last refresh."""
    return [WaitOfSize(*row) for row in connection.execute(query("recent_waits"))]


def _mark(connection: Connection) -> bool:
    """Mark the days of new jobs and predictions as stale; return whether there may be more."""
    jobs_id, predictions_id = connection.execute(query("first_known")).one()
    jobs = _last(connection, "last_job", jobs_id)
    predictions = _last(connection, "last_prediction", predictions_id)
    again = max(0, predictions_id - REREAD_PREDICTIONS)
    connection.execute(query("mark_jobs"), {"after": jobs_id, "upto": jobs})
    connection.execute(query("mark_predictions"), {"after": again, "upto": predictions})
    connection.execute(query("marked"), {"jobs_id": jobs, "predictions_id": predictions, "after": again})
    return (jobs, predictions) != (jobs_id, predictions_id)


def _last(connection: Connection, statement: str, after: int) -> int:
    last: int | None = connection.execute(query(statement), {"after": after, "batch": MARK_BATCH}).scalar_one()
    return after if last is None else last


def _compute_day(connection: Connection, day: date) -> None:
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    values = {"day": day, "from": begin, "to": begin + DAY}
    for fewer, tables, names in (
        ("fewer_jobs", OF_JOBS, ("jobs_of_day",)),
        ("fewer_predictions", OF_PREDICTIONS, ("decisions_of_day", "hook_of_day")),
    ):
        # If retention has deleted jobs or predictions of the day, keep its figures.
        if connection.execute(query(fewer), values).scalar_one():
            continue
        for figures in tables:
            connection.execute(delete(figures).where(figures.c.day == day))
        for name in names:
            connection.execute(query(name), values)


def _compute_month(connection: Connection, day: date, now: int) -> None:
    """Recompute the month of a recomputed day, unless another day of the month is stale."""
    month = day.replace(day=1)
    values = {"month": month, "next_month": (month + timedelta(days=31)).replace(day=1), "now": now}
    if not connection.execute(query("month_is_stale"), values).scalar_one():
        connection.execute(query("delete_month"), values)
        connection.execute(query("scores_of_month"), values)
