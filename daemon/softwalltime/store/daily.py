"""Daily and monthly aggregates for the monitoring views, which would otherwise read all jobs and predictions.

Days are UTC days of a job's end or of a prediction.  A refresh marks the days of new jobs and predictions as stale, and
recomputes each stale day as a whole.  The result does not depend on the order of arrival, and a refresh that was killed
continues later.  The statements are in sql/queries/refresh_*.sql.

Sums are stored instead of means, so that days can be added; as floating point, exact up to 2^53, because a log may
contain any number of seconds.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, Engine, column, table

from softwalltime.core.formatting import DAY
from softwalltime.store.quality import Quality, WaitOfSize
from softwalltime.store.queries import query
from softwalltime.store.tables import SCHEMA

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
            day = connection.execute(query("next_stale_day"), {"now": now}).one_or_none()
            if day is None:
                break
            _compute(connection, *day)
        yield 1
    with engine.begin() as connection:
        connection.execute(query("refreshed"), {"now": now})


def recent_quality(connection: Connection) -> list[Quality]:
    """Return each predictor's figures over the last seven days, as of the last refresh."""
    return [Quality(*row) for row in connection.execute(query("recent_quality"))]


def recent_waits(connection: Connection) -> list[WaitOfSize]:
    """Return the waits by size of the last seven days and of the eight weeks before, as of the last refresh."""
    return [WaitOfSize(*row) for row in connection.execute(query("recent_waits"))]


def delete_figures(connection: Connection, before: date) -> int:
    """Delete the figures of earlier days; return the number of rows."""
    days = {"first": date.min, "next": before}
    return sum(
        connection.execute(query(name), days).scalar_one()
        for name in ("delete_job_figures", "delete_prediction_figures")
    )


def _mark(connection: Connection) -> bool:
    """Mark the days of new predictions, then those of new jobs, as stale; return whether there may be more."""
    jobs_id, predictions_id = connection.execute(query("first_known")).one()
    predictions = _last(connection, "last_prediction", predictions_id)
    jobs = _last(connection, "last_job", jobs_id) if predictions == predictions_id else jobs_id
    again = max(0, predictions_id - REREAD_PREDICTIONS)
    connection.execute(query("mark_predictions"), {"after": again, "upto": predictions, "known": jobs_id})
    connection.execute(query("mark_jobs"), {"after": jobs_id, "upto": jobs})
    connection.execute(query("marked"), {"jobs_id": jobs, "predictions_id": predictions, "after": again})
    return (jobs, predictions) != (jobs_id, predictions_id)


def _last(connection: Connection, statement: str, after: int) -> int:
    last: int | None = connection.execute(query(statement), {"after": after, "batch": MARK_BATCH}).scalar_one()
    return after if last is None else last


def _compute(connection: Connection, day: date, more: bool, fewer_jobs: bool, fewer_predictions: bool) -> None:
    """Recompute a day, and its month unless ``more`` days of that are stale.

    If retention has deleted jobs or predictions of the day, keep its figures.
    """
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    values = {"day": day, "first": day, "next": day + timedelta(days=1), "from": begin, "to": begin + DAY}
    of_jobs = () if fewer_jobs else ("delete_job_figures", "jobs_of_day")
    of_predictions = () if fewer_predictions else ("delete_prediction_figures", "decisions_of_day", "hook_of_day")
    for name in (*of_jobs, *of_predictions):
        connection.execute(query(name), values)
    if not more:
        month = day.replace(day=1)
        values = {"month": month, "next_month": (month + timedelta(days=31)).replace(day=1)}
        connection.execute(query("delete_month"), values)
        connection.execute(query("scores_of_month"), values)
