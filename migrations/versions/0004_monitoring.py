"""What the monitoring views stand on: figures of each day, made anew by the daemon."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
FIGURES = (
    "daily_hook", "daily_decisions", "daily_waits", "daily_lengths", "daily_medians", "monthly_scores", "daily_scores",
)  # fmt: skip


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, comment=comment)


def _number(name: str, comment: str, *, known: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=not known, comment=comment)


def _sum(name: str, comment: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, comment=comment)


def upgrade() -> None:
    op.create_table(
        "monitoring",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False, comment="1: there is one row"),
        sa.Column("jobs_id", sa.BigInteger(), nullable=False, comment="completed jobs up to this id are reckoned with"),
        sa.Column(
            "predictions_id", sa.BigInteger(), nullable=False, comment="predictions up to this id are reckoned with"
        ),
        sa.Column(
            "first_set", sa.BigInteger(), comment="when PBS was first told to set a soft walltime, epoch seconds"
        ),
        sa.Column("refreshed_at", sa.DateTime(timezone=True), comment="when the daily figures last were up to date"),
        sa.PrimaryKeyConstraint("id", name="monitoring_pkey"),
        schema=SCHEMA,
        comment="How far the daily figures reach.",
    )
    op.create_table(
        "stale_days",
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC of the end of a job or of a prediction"),
        sa.PrimaryKeyConstraint("day", name="stale_days_pkey"),
        schema=SCHEMA,
        comment="Days whose figures are to be made anew, because jobs or predictions have come to them.",
    )
    op.create_table(
        "daily_scores",
        _sum("accuracy", "sum of min(p, t) / max(p, t)"),
        _sum("absolute_error", "sum of |p - t|, seconds"),
        _sum("request_error", "sum of walltime - t, seconds"),
        _sum("runtime", "sum of t, seconds"),
        _sum("walltime", "sum of the walltimes, seconds"),
        _sum("share", "sum of t / walltime"),
        _sum("extensions", "sum of (t - 1) / p in whole numbers: how often the scheduler had to extend"),
        sa.Column("longest_walltime", sa.BigInteger(), nullable=False, comment="greatest walltime, seconds"),
        sa.Column(
            "most_extensions", sa.BigInteger(), nullable=False, comment="greatest number of extensions of one job"
        ),
        _number("jobs", "scored jobs that ended then: they ran and had a walltime"),
        _number("adjusted", "with a soft walltime below the walltime"),
        _number("underestimated", "p < t"),
        _number("badly_underestimated", "p < t by more than 1800 s"),
        _number("over", "with a soft walltime that held"),
        _number("killed", "killed at their walltime"),
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _text("mode", "off, shadow or on; empty: no prediction is known"),
        _text("predictor", "which was asked, with its options; empty: no prediction is known"),
        _text("queue", "the queue that the jobs ran from"),
        _text("project", "PBS's project"),
        _text("user_name", "who ran them"),
        sa.PrimaryKeyConstraint("day", "mode", "predictor", "queue", "project", "user_name", name="daily_scores_pkey"),
        schema=SCHEMA,
        comment="Predictions and runtimes. t: runtime, at most the walltime; p: soft walltime, else the walltime.",
    )
    op.create_table(
        "monthly_scores",
        _sum("accuracy", "sum of min(p, t) / max(p, t)"),
        _sum("absolute_error", "sum of |p - t|, seconds"),
        _sum("request_error", "sum of walltime - t, seconds"),
        _sum("runtime", "sum of t, seconds"),
        _sum("walltime", "sum of the walltimes, seconds"),
        _sum("share", "sum of t / walltime"),
        _sum("extensions", "sum of (t - 1) / p in whole numbers: how often the scheduler had to extend"),
        sa.Column("longest_walltime", sa.BigInteger(), nullable=False, comment="greatest walltime, seconds"),
        sa.Column(
            "most_extensions", sa.BigInteger(), nullable=False, comment="greatest number of extensions of one job"
        ),
        _number("jobs", "scored jobs that ended then: they ran and had a walltime"),
        _number("adjusted", "with a soft walltime below the walltime"),
        _number("underestimated", "p < t"),
        _number("badly_underestimated", "p < t by more than 1800 s"),
        _number("over", "with a soft walltime that held"),
        _number("killed", "killed at their walltime"),
        sa.Column("month", sa.Date(), nullable=False, comment="first day of the month in UTC"),
        _text("mode", "off, shadow or on; empty: no prediction is known"),
        _text("predictor", "which was asked, with its options; empty: no prediction is known"),
        _text("queue", "the queue that the jobs ran from"),
        _text("project", "PBS's project"),
        _text("user_name", "who ran them"),
        sa.PrimaryKeyConstraint(
            "month", "mode", "predictor", "queue", "project", "user_name", name="monthly_scores_pkey"
        ),
        schema=SCHEMA,
        comment="Predictions and runtimes. t: runtime, at most the walltime; p: soft walltime, else the walltime.",
    )
    op.create_table(
        "daily_medians",
        _sum("accuracy", "median of min(p, t) / max(p, t)"),
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _text("mode", "as in daily_scores"),
        _text("predictor", "as in daily_scores"),
        sa.PrimaryKeyConstraint("day", "mode", "predictor", name="daily_medians_pkey"),
        schema=SCHEMA,
        comment="Median accuracy, which cannot be had from sums.",
    )
    op.create_table(
        "daily_lengths",
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("walltime", "in this class of length, see the function length_class"),
        _number("planned", "the soft walltime, else the walltime, in this class"),
        _number("runtime", "at most the walltime, in this class"),
        _number("jobs", "how many"),
        _text("queue", "the queue that the jobs ran from"),
        sa.PrimaryKeyConstraint("day", "queue", "walltime", "planned", "runtime", name="daily_lengths_pkey"),
        schema=SCHEMA,
        comment="How many predicted jobs of which lengths ended, by queue.",
    )
    op.create_table(
        "daily_waits",
        _sum("wait", "sum of the seconds from eligible to started"),
        _sum("slowdown", "sum of the bounded slowdowns"),
        _sum("slowdown_log", "sum of their natural logarithms"),
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("processors", "class: at least so many processors, 1, 2, 9 or 65; 0: not known"),
        _number("walltime", "class: walltime at most so many seconds, 3600, 28800 or 86400; 0: longer"),
        _number("jobs", "how many"),
        sa.Column(
            "after", sa.Boolean(), nullable=False, comment="whether submitted after the first soft walltime was set"
        ),
        sa.PrimaryKeyConstraint("day", "after", "processors", "walltime", name="daily_waits_pkey"),
        schema=SCHEMA,
        comment="How long scored jobs waited.",
    )
    op.create_table(
        "daily_decisions",
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("requests", "how many"),
        _text("event", "PBS's event"),
        _text("mode", "off, shadow or on"),
        _text("predictor", "which was asked, with its options; or walltime or keep"),
        _text("action", "set, shadow or none"),
        _text("reason", "why nothing was predicted, see the function reason; empty: something was"),
        sa.PrimaryKeyConstraint("day", "event", "mode", "predictor", "action", "reason", name="daily_decisions_pkey"),
        schema=SCHEMA,
        comment="What the daemon decided, and why it predicted nothing.",
    )
    op.create_table(
        "daily_hook",
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("requests", "requests of the hook that were recorded"),
        _number("timeouts", "questions of the hook that timed out, at least"),
        _number("most_timeouts", "most of them in a row"),
        _number(
            "answer_p50", "median time for an answer of the daemon, microseconds; null: nothing known", known=False
        ),
        _number("answer_p95", "95th percentile of it, microseconds; null: nothing known", known=False),
        _number("answer_p99", "99th percentile of it, microseconds; null: nothing known", known=False),
        _number("answer_most", "longest, microseconds; null: nothing known", known=False),
        _number(
            "exchange_p50",
            "median time that the hook waited for an answer, microseconds; null: nothing known",
            known=False,
        ),
        _number("exchange_p95", "95th percentile of it, microseconds; null: nothing known", known=False),
        _number("exchange_p99", "99th percentile of it, microseconds; null: nothing known", known=False),
        _number("exchange_most", "longest, microseconds; null: nothing known", known=False),
        sa.PrimaryKeyConstraint("day", name="daily_hook_pkey"),
        schema=SCHEMA,
        comment="How long the hook waited.",
    )
    op.execute("INSERT INTO softwalltime.monitoring (id, jobs_id, predictions_id) VALUES (1, 0, 0)")


def downgrade() -> None:
    for table in (*FIGURES, "stale_days", "monitoring"):
        op.drop_table(table, schema=SCHEMA)
