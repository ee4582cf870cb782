"""Daily and monthly figures, on which the monitoring views are built: reading all jobs and predictions takes too long.

Days are those of UTC: of the end of a job, or of a prediction.  A refresh marks the days of new jobs and predictions
as stale, and computes each stale day again as a whole.  The order in which jobs and predictions arrive makes no
difference, and a refresh that was killed has lost nothing.  The statements are in sql/queries/refresh_*.sql.

Sums are kept, not means, because days are added up; as floating point, exact up to 2^53, because a log may claim any
number of seconds.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Engine,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    delete,
)

from softwalltime.store.quality import Quality, WaitOfSize
from softwalltime.store.queries import query
from softwalltime.store.tables import decision_reason, key_column, metadata


def _day() -> Column[object]:
    return Column("day", Date, nullable=False, comment="day in UTC")


def _number(name: str, comment: str) -> Column[int]:
    return Column(name, Integer, nullable=False, comment=comment)


def _sum(name: str, comment: str) -> Column[float]:
    return Column(name, Double, nullable=False, comment=comment)


def _microseconds(name: str, comment: str) -> Column[int]:
    return Column(name, Integer, comment=f"{comment}, microseconds; null: not known")


monitoring = Table(
    "monitoring",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False, comment="always 1: there is one row"),
    Column("jobs_id", BigInteger, nullable=False, comment="completed jobs up to this id are included"),
    Column("predictions_id", BigInteger, nullable=False, comment="predictions up to this id are included"),
    Column("first_set", BigInteger, comment="time at which a soft walltime was first set, epoch seconds"),
    Column("refreshed_at", DateTime(timezone=True), comment="time of the last refresh of the daily figures"),
    comment="Progress of the daily figures.",
)

stale_days = Table(
    "stale_days",
    metadata,
    Column("day", Date, primary_key=True, comment="day in UTC of the end of a job or of a prediction"),
    comment="Days whose figures must be computed again, because jobs or predictions were added.",
)


def _scores(name: str, time: str, of: str) -> Table:
    return Table(
        name,
        metadata,
        _sum("accuracy", "sum of min(p, t) / max(p, t)"),
        _sum("absolute_error", "sum of |p - t|, seconds"),
        _sum("request_error", "sum of walltime - t, seconds"),
        _sum("runtime", "sum of t, seconds"),
        _sum("walltime", "sum of the walltimes, seconds"),
        _sum("share", "sum of t / walltime"),
        _sum("extensions", "sum of (t - 1) / p, rounded down: extensions by the scheduler"),
        Column("longest_walltime", BigInteger, nullable=False, comment="maximum walltime, seconds"),
        Column("most_extensions", BigInteger, nullable=False, comment="maximum number of extensions of one job"),
        _number("jobs", "scored jobs that ended in the period: they ran and had a walltime"),
        _number("adjusted", "jobs with a soft walltime below the walltime"),
        _number("underestimated", "jobs with p < t"),
        _number("badly_underestimated", "jobs with t - p > 1800 s"),
        _number("over", "jobs with a soft walltime of at least t"),
        _number("killed", "jobs killed at their walltime"),
        Column(time, Date, nullable=False, comment=of),
        key_column("mode", "off, shadow or on; empty: no prediction known"),
        key_column("predictor", "predictor with its options; empty: no prediction known"),
        key_column("queue", "queue from which the jobs ran"),
        key_column("project", "PBS project"),
        key_column("user_name", "user"),
        PrimaryKeyConstraint(time, "mode", "predictor", "queue", "project", "user_name"),
        comment="Predictions and runtimes. t: runtime, at most the walltime; p: soft walltime, else the walltime.",
    )


daily_scores = _scores("daily_scores", "day", "day in UTC")
# Queries by month, such as all by user, would otherwise add up some hundred thousand rows.
monthly_scores = _scores("monthly_scores", "month", "first day of the month in UTC")

daily_medians = Table(
    "daily_medians",
    metadata,
    _sum("accuracy", "median of min(p, t) / max(p, t)"),
    _day(),
    key_column("mode", "as in daily_scores"),
    key_column("predictor", "as in daily_scores"),
    PrimaryKeyConstraint("day", "mode", "predictor"),
    comment="Median accuracy, which cannot be computed from sums.",
)

daily_lengths = Table(
    "daily_lengths",
    metadata,
    _day(),
    _number("walltime", "length class of the walltime, see the function length_class"),
    _number("planned", "length class of the soft walltime, else of the walltime"),
    _number("runtime", "length class of the runtime, at most the walltime"),
    _number("jobs", "number"),
    key_column("queue", "queue from which the jobs ran"),
    PrimaryKeyConstraint("day", "queue", "walltime", "planned", "runtime"),
    comment="Number of predicted jobs by queue and length.",
)

daily_waits = Table(
    "daily_waits",
    metadata,
    _sum("wait", "sum of the waits from eligible to start, seconds"),
    _sum("slowdown", "sum of the bounded slowdowns"),
    _sum("slowdown_log", "sum of their natural logarithms"),
    _day(),
    _number("processors", "class: at least this many processors, 1, 2, 9 or 65; 0: not known"),
    _number("walltime", "class: walltime of at most this many seconds, 3600, 28800 or 86400; 0: longer"),
    _number("jobs", "number"),
    Column("after", Boolean, nullable=False, comment="submitted after a soft walltime was first set"),
    PrimaryKeyConstraint("day", "after", "processors", "walltime"),
    comment="Waits of scored jobs.",
)

daily_ordering = Table(
    "daily_ordering",
    metadata,
    _sum("accuracy", "sum of min(o, t) / max(o, t)"),
    _sum("ordering", "sum of o, seconds"),
    _sum("runtime", "sum of t, seconds"),
    _sum("walltime", "sum of the walltimes, seconds"),
    _sum("share", "sum of t / walltime"),
    _day(),
    _number("jobs", "scored jobs with an ordering value"),
    _number("underestimated", "jobs with o < t"),
    key_column("mode", "shadow or on"),
    PrimaryKeyConstraint("day", "mode"),
    comment="Ordering values and runtimes. o: ordering value; t: runtime, at most the walltime.",
)

daily_decisions = Table(
    "daily_decisions",
    metadata,
    _day(),
    _number("requests", "number"),
    key_column("event", "PBS hook event"),
    key_column("mode", "off, shadow or on"),
    key_column("predictor", "predictor with its options; or walltime or keep"),
    key_column("action", "set, shadow or none"),
    Column("reason", decision_reason, nullable=False, comment="reason code of the decisions"),
    PrimaryKeyConstraint("day", "event", "mode", "predictor", "action", "reason"),
    comment="Number of decisions by reason.",
)

daily_hook = Table(
    "daily_hook",
    metadata,
    Column("day", Date, primary_key=True, comment="day in UTC"),
    _number("requests", "recorded requests of the hook"),
    _number("timeouts", "requests of the hook that timed out, lower bound"),
    _number("most_timeouts", "maximum of consecutive timeouts"),
    _microseconds("answer_p50", "median response time of the daemon"),
    _microseconds("answer_p95", "95th percentile"),
    _microseconds("answer_p99", "99th percentile"),
    _microseconds("answer_most", "maximum"),
    _microseconds("exchange_p50", "median round trip of the hook"),
    _microseconds("exchange_p95", "95th percentile"),
    _microseconds("exchange_p99", "99th percentile"),
    _microseconds("exchange_most", "maximum"),
    comment="Latency of the hook's requests.",
)

OF_JOBS = (daily_scores, daily_medians, daily_lengths, daily_waits, daily_ordering)
"""Figures of the jobs that ended on a day."""
OF_PREDICTIONS = (daily_decisions, daily_hook)
"""Figures of the predictions made on a day."""
DAILY = (*OF_JOBS, *OF_PREDICTIONS)


MARK_BATCH = 200_000
"""Jobs, and predictions, whose days are marked in one transaction, some tenths of a second."""
READ_AGAIN = 1_000
"""Predictions before the last one included that are read again: of two daemons that write to one store, the one that
began first may commit last."""
_DAY = 86400


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
    again = max(0, predictions_id - READ_AGAIN)
    connection.execute(query("mark_jobs"), {"after": jobs_id, "upto": jobs})
    connection.execute(query("mark_predictions"), {"after": again, "upto": predictions})
    connection.execute(query("marked"), {"jobs_id": jobs, "predictions_id": predictions, "after": again})
    return (jobs, predictions) != (jobs_id, predictions_id)


def _last(connection: Connection, statement: str, after: int) -> int:
    last: int | None = connection.execute(query(statement), {"after": after, "batch": MARK_BATCH}).scalar_one()
    return after if last is None else last


def _compute_day(connection: Connection, day: date) -> None:
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    values = {"day": day, "from": begin, "to": begin + _DAY}
    for fewer, tables, names in (
        ("fewer_jobs", OF_JOBS, ("jobs_of_day",)),
        ("fewer_predictions", OF_PREDICTIONS, ("decisions_of_day", "hook_of_day")),
    ):
        # Jobs and predictions deleted by retention stay in the figures.
        if connection.execute(query(fewer), values).scalar_one():
            continue
        for table in tables:
            connection.execute(delete(table).where(table.c.day == day))
        for name in names:
            connection.execute(query(name), values)


def _compute_month(connection: Connection, day: date, now: int) -> None:
    """Compute the month of a day that was computed again, once no other day of it is stale."""
    month = day.replace(day=1)
    values = {"month": month, "next_month": (month + timedelta(days=31)).replace(day=1), "now": now}
    if not connection.execute(query("month_is_stale"), values).scalar_one():
        connection.execute(query("delete_month"), values)
        connection.execute(query("scores_of_month"), values)
