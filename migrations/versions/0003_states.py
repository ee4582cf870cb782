"""How jobs ended and which teach; runs in vain; jobs that wait or run now; a log's last bytes; the hook's time-outs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ENUM

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
STATE = ENUM(
    "finished", "failed", "walltime exceeded", "limit exceeded", "deleted", "rerun", "node failure", "not started",
    "unknown",
    name="job_state", schema=SCHEMA, create_type=False,
)  # fmt: skip

# The rule of states.py as it was when these jobs were stored without it.
BACKFILL = """
UPDATE softwalltime.completed_jobs SET state = (CASE
    WHEN start_time IS NULL THEN 'not started'
    WHEN exit_status IS NULL THEN 'unknown'
    WHEN exit_status IN (265, 271, -11, -29) AND runtime >= walltime AND walltime > 0 THEN 'walltime exceeded'
    WHEN exit_status = 0 THEN 'finished'
    WHEN exit_status IN (265, 271, -19) THEN 'deleted'
    WHEN exit_status > 0 THEN 'failed'
    WHEN exit_status IN (-1, -2, -3, -7, -10, -13, -16, -17, -21, -22, -23, -30) THEN 'not started'
    WHEN exit_status IN (-4, -5, -6, -20) THEN 'node failure'
    WHEN exit_status IN (-11, -12, -14, -15, -18) THEN 'rerun'
    WHEN exit_status IN (-24, -25, -26, -27, -28) THEN 'limit exceeded'
    WHEN exit_status = -29 THEN 'walltime exceeded'
    ELSE 'unknown'
END)::softwalltime.job_state
"""

RAN = sa.text("runtime > 0")
RAN_WITH_WALLTIME = sa.text("runtime > 0 AND walltime > 0")


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default="", nullable=False, comment=comment)


def _key_text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, comment=comment)


def _seconds(name: str, comment: str, *, known: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=not known, comment=comment)


def _indexes(*state: str) -> None:
    for name, columns, included, where in (
        ("completed_jobs_by_user", ["user_name", "end_time", "id"], ["runtime", "walltime", *state, "project"], RAN),
        ("completed_jobs_by_project", ["project", "end_time"], ["runtime", "walltime", *state], RAN_WITH_WALLTIME),
    ):
        op.drop_index(name, "completed_jobs", schema=SCHEMA)
        op.create_index(
            name, "completed_jobs", columns, schema=SCHEMA, postgresql_include=included, postgresql_where=where
        )


def upgrade() -> None:
    STATE.create(op.get_bind(), checkfirst=False)
    op.add_column(
        "completed_jobs",
        sa.Column("state", STATE, nullable=True, comment="how it ended, by its exit status"),
        schema=SCHEMA,
    )
    op.execute(BACKFILL)
    op.alter_column("completed_jobs", "state", nullable=False, schema=SCHEMA)
    _indexes("state")
    op.create_table(
        "teaching_states",
        sa.Column("state", STATE, nullable=False, comment="jobs that ended so teach the predictors"),
        sa.PrimaryKeyConstraint("state", name="teaching_states_pkey"),
        schema=SCHEMA,
        comment="Which jobs teach: the site's setting, written down by the daemon for the predictors in SQL.",
    )
    op.execute(
        "INSERT INTO softwalltime.teaching_states VALUES ('finished'), ('failed'), ('walltime exceeded'), "
        "('limit exceeded'), ('deleted'), ('node failure'), ('unknown')"
    )
    op.create_table(
        "interrupted_runs",
        _seconds("start_time", "when this run started, epoch seconds", known=True),
        _seconds("end_time", "when it was stopped, epoch seconds", known=True),
        _seconds("walltime", "its limit, seconds; null: none"),
        _seconds("soft_walltime", "the last soft walltime that it had, seconds; null: none"),
        _seconds("runtime", "how long it ran, seconds", known=True),
        sa.Column("exit_status", sa.Integer(), comment="as PBS recorded it"),
        sa.Column("run_count", sa.Integer(), comment="the how manieth run it was"),
        sa.Column("state", STATE, nullable=False, comment="how it ended, by its exit status"),
        _key_text("server", "the PBS server whose log told of it"),
        _key_text("job_id", "with the array index, as 3[1].srv"),
        _text("user_name", "whose job it was"),
        _text("project", "PBS's project"),
        _text("queue", "the queue that it ran from"),
        sa.PrimaryKeyConstraint("job_id", "server", "start_time", name="interrupted_runs_pkey"),
        schema=SCHEMA,
        comment="Runs that were stopped for the job to be run again; completed_jobs has the run that completed.",
    )
    op.create_table(
        "current_jobs",
        _seconds("ctime", "when it was submitted, epoch seconds", known=True),
        _seconds("qtime", "when it came into its queue, epoch seconds"),
        _seconds("etime", "when it became eligible to run, epoch seconds; null: it is not, being held for instance"),
        _seconds("start_time", "when it started, epoch seconds; null: it waits"),
        _seconds("walltime", "its limit, seconds; null: none"),
        _seconds("soft_walltime", "its soft walltime, seconds; null: none"),
        sa.Column("ncpus", sa.Integer(), comment="processors asked for"),
        sa.Column("nodect", sa.Integer(), comment="chunks or nodes asked for"),
        sa.Column(
            "is_array",
            sa.Boolean(),
            nullable=False,
            comment="whether it is a whole array; its subjobs run, and it waits",
        ),
        _key_text("server", "the PBS server that has it"),
        _key_text("job_id", "with the array index, as 3[1].srv"),
        _text("user_name", "whose job it is"),
        _text("project", "PBS's project"),
        _text("queue", "the queue that it is in"),
        _text("job_name", "the name given at submission"),
        sa.PrimaryKeyConstraint("job_id", "server", name="current_jobs_pkey"),
        schema=SCHEMA,
        comment="Jobs that wait or run at this moment, as far as the accounting log has been read.",
    )
    for column in (
        sa.Column("tail_length", sa.Integer(), comment="how many of the last bytes read tail_digest covers"),
        sa.Column("tail_digest", sa.LargeBinary(), comment="SHA-256 of those bytes: is it still as it was read?"),
    ):
        op.add_column("log_positions", column, schema=SCHEMA)
    op.add_column(
        "predictions",
        sa.Column(
            "timeouts",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="questions of the hook that timed out just before",
        ),
        schema=SCHEMA,
    )
    op.add_column(
        "predictions",
        sa.Column(
            "exchange_before",
            sa.Integer(),
            comment="how long the hook waited for the answer before this one, microseconds",
        ),
        schema=SCHEMA,
    )
    # Nothing is known of the last bytes of what was read before: no bytes are always as they were.
    op.execute("UPDATE softwalltime.log_positions SET tail_length = 0, tail_digest = sha256('')")
    for name in ("tail_length", "tail_digest"):
        op.alter_column("log_positions", name, nullable=False, schema=SCHEMA)


def downgrade() -> None:
    for name in ("exchange_before", "timeouts"):
        op.drop_column("predictions", name, schema=SCHEMA)
    for name in ("tail_digest", "tail_length"):
        op.drop_column("log_positions", name, schema=SCHEMA)
    for table in ("current_jobs", "interrupted_runs", "teaching_states"):
        op.drop_table(table, schema=SCHEMA)
    _indexes()
    op.drop_column("completed_jobs", "state", schema=SCHEMA)
    STATE.drop(op.get_bind(), checkfirst=False)
