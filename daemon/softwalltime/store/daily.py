"""Keeps the figures of each day, on which the monitoring views stand: all jobs and predictions are too many to ask.

What has come since the last time marks its days as stale, and stale days are reckoned anew as a whole.  So it does not
matter in which order jobs and predictions come, and who is killed in between has lost nothing.  The statements are in
sql/queries/refresh_*.sql.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, Engine, delete

from softwalltime.store.daily_tables import OF_JOBS, OF_PREDICTIONS
from softwalltime.store.queries import query

MARKED_AT_ONCE = 200_000
"""Jobs, and predictions, whose days are marked in one transaction: some tenths of a second."""
LOOKED_AT_AGAIN = 1_000
"""Predictions before the last one known that are looked at again: of two daemons with one store, the one that began
to write first need not be the first to end."""
_DAY = 86400


@dataclass(frozen=True, slots=True)
class Quality:
    """How good one predictor was in the last week: shares of 1 over its scored jobs.

    ``request_accuracy`` is what ``accuracy`` would be with the users' own walltimes.
    """

    mode: str
    predictor: str
    jobs: int
    accuracy: float
    underestimated: float
    badly_underestimated: float
    request_accuracy: float


def refresh(engine: Engine, now: int) -> Iterator[int]:
    """Bring the figures up to date as of ``now`` (epoch seconds), step by step, the newest days first.

    Yields how many days were reckoned anew after each transaction; whoever is in a hurry may stop in between, and the
    next refresh goes on there.
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
            _reckon(connection, day)
            _add_up_month(connection, day, now)
        yield 1
    with engine.begin() as connection:
        connection.execute(query("refreshed"), {"now": now})


def recent_quality(connection: Connection) -> list[Quality]:
    """Each predictor's figures over the last seven days, as of the last refresh."""
    return [Quality(*row) for row in connection.execute(query("recent_quality"))]


def _mark(connection: Connection) -> bool:
    """Mark days of what is new as stale; whether there may be more."""
    jobs_id, predictions_id = connection.execute(query("first_known")).one()
    jobs = _last(connection, "last_job", jobs_id)
    predictions = _last(connection, "last_prediction", predictions_id)
    again = max(0, predictions_id - LOOKED_AT_AGAIN)
    connection.execute(query("mark_jobs"), {"after": jobs_id, "upto": jobs})
    connection.execute(query("mark_predictions"), {"after": again, "upto": predictions})
    connection.execute(query("marked"), {"jobs_id": jobs, "predictions_id": predictions, "after": again})
    return (jobs, predictions) != (jobs_id, predictions_id)


def _last(connection: Connection, statement: str, after: int) -> int:
    found: int | None = connection.execute(query(statement), {"after": after, "batch": MARKED_AT_ONCE}).scalar_one()
    return after if found is None else found


def _reckon(connection: Connection, day: date) -> None:
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    values = {"day": day, "from": begin, "to": begin + _DAY}
    for fewer, tables, names in (
        ("fewer_jobs", OF_JOBS, ("jobs_of_day",)),
        ("fewer_predictions", OF_PREDICTIONS, ("decisions_of_day", "hook_of_day")),
    ):
        # What was forgotten since (the oldest jobs, those of crowded users) stays in the figures.
        if connection.execute(query(fewer), values).scalar_one():
            continue
        for table in tables:
            connection.execute(delete(table).where(table.c.day == day))
        for name in names:
            connection.execute(query(name), values)


def _add_up_month(connection: Connection, day: date, now: int) -> None:
    """Bring the month of a day that was reckoned anew up to date, once all of its days are."""
    month = day.replace(day=1)
    values = {"month": month, "next_month": (month + timedelta(days=31)).replace(day=1), "now": now}
    if not connection.execute(query("month_is_stale"), values).scalar_one():
        connection.execute(query("forget_month"), values)
        connection.execute(query("scores_of_month"), values)
