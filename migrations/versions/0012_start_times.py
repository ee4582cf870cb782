"""Forecasts of the starts of waiting jobs: the newest of each, and those that are kept to be judged."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"


def _seconds(name: str, comment: str, *, known: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=not known, comment=comment)


def _key_text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, comment=comment)


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default="", nullable=False, comment=comment)


def _forecast(*, known: bool) -> list[sa.Column[Any]]:
    return [
        _seconds("expected", "expected start, epoch seconds" + ("" if known else "; null: no forecast"), known=known),
        _seconds("low90", "begin of the 90% range, epoch seconds", known=known),
        _seconds("low50", "begin of the 50% range, epoch seconds", known=known),
        _seconds("high50", "end of the 50% range, epoch seconds", known=known),
        _seconds("high90", "end of the 90% range, epoch seconds", known=known),
        _seconds("pbs_estimate", "estimated.start_time of PBS, epoch seconds; null: none"),
    ]


def upgrade() -> None:
    op.create_table(
        "expected_starts",
        _seconds("forecast_at", "time of the forecast, epoch seconds", known=True),
        _seconds("ctime", "submission time, epoch seconds", known=True),
        *_forecast(known=False),
        _seconds("walltime", "walltime, seconds; null: no limit"),
        sa.Column("ncpus", sa.Integer(), comment="processors requested"),
        _key_text("server", "PBS server"),
        _key_text("job_id", "job id with the array index, such as 3[1].srv"),
        _text("user_name", "user"),
        _text("group_name", "group"),
        _text("project", "PBS project"),
        _text("queue", "queue"),
        _text("waits_for", "sentence: what it waits for, or the reason that there is no forecast"),
        sa.PrimaryKeyConstraint("job_id", "server", name="expected_starts_pkey"),
        comment="Newest forecast of the start of each waiting job.",
        schema=SCHEMA,
    )
    op.create_table(
        "start_times",
        _seconds("forecast_at", "time of the forecast, epoch seconds", known=True),
        _seconds("ctime", "submission time, epoch seconds", known=True),
        _seconds("started", "start of the job after the forecast, epoch seconds; null: not known yet"),
        *_forecast(known=True),
        sa.Column(
            "is_first", sa.Boolean(), nullable=False, comment="first forecast of a job that had just been submitted"
        ),
        _key_text("server", "PBS server"),
        _key_text("job_id", "job id with the array index, such as 3[1].srv"),
        _text("queue", "queue at the time of the forecast"),
        sa.PrimaryKeyConstraint("job_id", "server", "forecast_at", name="start_times_pkey"),
        comment="Forecasts of starts that are kept to be judged: the first one of each job and one an hour.",
        schema=SCHEMA,
    )
    op.create_index("start_times_by_time", "start_times", ["forecast_at"], schema=SCHEMA)
    op.create_index(
        "start_times_open", "start_times", ["job_id"], schema=SCHEMA, postgresql_where=sa.text("started IS NULL")
    )


def downgrade() -> None:
    op.drop_table("start_times", schema=SCHEMA)
    op.drop_table("expected_starts", schema=SCHEMA)
