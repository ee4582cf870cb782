"""Promised starts and what became of them; the state of guard and steering; figures of ordering values."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ENUM

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
OUTCOME = ENUM("open", "kept", "late", "withdrawn", name="promise_outcome", schema=SCHEMA, create_type=False)


def _seconds(name: str, comment: str, *, known: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=not known, comment=comment)


def _key_text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, comment=comment)


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default="", nullable=False, comment=comment)


def _number(name: str, comment: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, comment=comment)


def _sum(name: str, comment: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, comment=comment)


def upgrade() -> None:
    OUTCOME.create(op.get_bind(), checkfirst=False)
    op.create_table(
        "promises",
        _seconds("promised_at", "time at which the daemon saw the first promise, epoch seconds"),
        _seconds("first_start", "start promised first (estimated.start_time), epoch seconds"),
        _seconds("last_start", "start promised last, epoch seconds"),
        _seconds("start_time", "start, epoch seconds; null: not known", known=False),
        sa.Column("ncpus", sa.Integer(), comment="processors requested"),
        sa.Column("outcome", OUTCOME, nullable=False, comment="open, kept, late or withdrawn"),
        _key_text("server", "PBS server"),
        _key_text("job_id", "job id; of an array that of the whole"),
        _text("queue", "queue"),
        sa.PrimaryKeyConstraint("job_id", "server", "promised_at", name="promises_pkey"),
        schema=SCHEMA,
        comment="Starts that the scheduler promised to its top jobs, and what became of them.",
    )
    op.create_index("promises_by_time", "promises", ["promised_at"], schema=SCHEMA)
    op.create_index(
        "promises_open", "promises", ["job_id"], schema=SCHEMA, postgresql_where=sa.text("outcome = 'open'")
    )
    op.create_table(
        "live_states",
        sa.Column(
            "id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="order in which they were recorded"
        ),
        _seconds("changed_at", "time of the change, epoch seconds"),
        sa.Column("theta", sa.Double(), nullable=False, comment="theta of steering: waiting values are times e^theta"),
        _key_text("server", "PBS server"),
        _text("late_job", "late job for which the guard is on; empty: it is off"),
        sa.PrimaryKeyConstraint("id", name="live_states_pkey"),
        schema=SCHEMA,
        comment="State of guard and steering after each change.",
    )
    op.create_table(
        "daily_ordering",
        _sum("accuracy", "sum of min(o, t) / max(o, t)"),
        _sum("ordering", "sum of o, seconds"),
        _sum("runtime", "sum of t, seconds"),
        _sum("walltime", "sum of the walltimes, seconds"),
        _sum("share", "sum of t / walltime"),
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("jobs", "scored jobs with an ordering value"),
        _number("underestimated", "jobs with o < t"),
        _key_text("mode", "shadow or on"),
        sa.PrimaryKeyConstraint("day", "mode", name="daily_ordering_pkey"),
        schema=SCHEMA,
        comment="Ordering values and runtimes. o: ordering value; t: runtime, at most the walltime.",
    )
    # Days with ordering values are computed again.
    op.execute(
        "INSERT INTO softwalltime.stale_days SELECT DISTINCT date '1970-01-01' + (predicted_at / 86400)::integer "
        "FROM softwalltime.predictions WHERE ordering IS NOT NULL AND predicted_at BETWEEN 0 AND 253402300799 "
        "ON CONFLICT DO NOTHING"
    )


def downgrade() -> None:
    for name in ("daily_ordering", "live_states", "promises"):
        op.drop_table(name, schema=SCHEMA)
    OUTCOME.drop(op.get_bind(), checkfirst=False)
