"""Completed jobs, positions in logs, malformed lines."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "completed_jobs",
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="the order in which jobs became known",
        ),
        sa.Column("ctime", sa.BigInteger(), nullable=False, comment="when it was submitted, epoch seconds"),
        sa.Column("qtime", sa.BigInteger(), comment="when it came into its queue, epoch seconds"),
        sa.Column("etime", sa.BigInteger(), comment="when it became eligible to run, epoch seconds"),
        sa.Column("start_time", sa.BigInteger(), comment="when it started, epoch seconds; null: it never did"),
        sa.Column("end_time", sa.BigInteger(), nullable=False, comment="when it ended, epoch seconds"),
        sa.Column(
            "walltime", sa.BigInteger(), comment="what the user asked for or a default gave, seconds; null: no limit"
        ),
        sa.Column("soft_walltime", sa.BigInteger(), comment="the last soft walltime that it had, seconds; null: none"),
        sa.Column(
            "min_walltime", sa.BigInteger(), comment="least walltime of a shrink-to-fit job, seconds; null: it was none"
        ),
        sa.Column("max_walltime", sa.BigInteger(), comment="greatest walltime of a shrink-to-fit job, seconds"),
        sa.Column(
            "runtime",
            sa.BigInteger(),
            nullable=False,
            comment="how long it ran, seconds; 0: it did not, or died at once",
        ),
        sa.Column("mem", sa.BigInteger(), comment="memory asked for, bytes"),
        sa.Column("cput", sa.BigInteger(), comment="processor time used, seconds"),
        sa.Column("mem_used", sa.BigInteger(), comment="memory used, bytes"),
        sa.Column("ncpus", sa.Integer(), comment="processors asked for"),
        sa.Column("nodect", sa.Integer(), comment="chunks or nodes asked for"),
        sa.Column("ngpus", sa.Integer(), comment="GPUs asked for"),
        sa.Column("exit_status", sa.Integer(), comment="as PBS recorded it"),
        sa.Column("run_count", sa.Integer(), comment="how often it was started"),
        sa.Column("interactive", sa.Boolean(), comment="whether it was an interactive job; null: not recorded"),
        sa.Column("server", sa.Text(collation="C"), nullable=False, comment="the PBS server whose log told of it"),
        sa.Column("job_id", sa.Text(collation="C"), nullable=False, comment="with the array index, as 3[1].srv"),
        sa.Column("user_name", sa.Text(collation="C"), server_default="", nullable=False, comment="who ran it"),
        sa.Column(
            "group_name",
            sa.Text(collation="C"),
            server_default="",
            nullable=False,
            comment="the group that it ran under",
        ),
        sa.Column("project", sa.Text(collation="C"), server_default="", nullable=False, comment="PBS's project"),
        sa.Column(
            "account",
            sa.Text(collation="C"),
            server_default="",
            nullable=False,
            comment="the account string given at submission",
        ),
        sa.Column(
            "job_name",
            sa.Text(collation="C"),
            server_default="",
            nullable=False,
            comment="the name given at submission",
        ),
        sa.Column(
            "queue", sa.Text(collation="C"), server_default="", nullable=False, comment="the queue that it ran from"
        ),
        sa.Column(
            "select_spec", sa.Text(collation="C"), server_default="", nullable=False, comment="the chunks asked for"
        ),
        sa.Column(
            "place",
            sa.Text(collation="C"),
            server_default="",
            nullable=False,
            comment="how the chunks were to be placed",
        ),
        sa.PrimaryKeyConstraint("end_time", "id", name="completed_jobs_pkey"),
        schema="softwalltime",
        comment="Jobs that ended, each run of a job once. Learning order is (end_time, id).",
    )
    op.create_index(
        "completed_jobs_by_project",
        "completed_jobs",
        ["project", "end_time"],
        schema="softwalltime",
        postgresql_include=["runtime", "walltime"],
        postgresql_where=sa.text("runtime > 0 AND walltime > 0"),
    )
    op.create_index(
        "completed_jobs_by_user",
        "completed_jobs",
        ["user_name", "end_time", "id"],
        schema="softwalltime",
        postgresql_include=["runtime", "walltime", "project"],
        postgresql_where=sa.text("runtime > 0"),
    )
    op.create_index(
        "completed_jobs_natural_key",
        "completed_jobs",
        ["job_id", "server", sa.text("coalesce(start_time, '-1'::bigint)")],
        unique=True,
        schema="softwalltime",
    )
    op.create_table(
        "log_positions",
        sa.Column("server", sa.Text(collation="C"), nullable=False, comment="the PBS server that writes the log"),
        sa.Column("path", sa.Text(collation="C"), nullable=False, comment="of the file"),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False, comment="bytes read, all of them whole lines"),
        sa.Column("line_number", sa.BigInteger(), nullable=False, comment="lines read"),
        sa.Column(
            "head_length", sa.Integer(), nullable=False, comment="how many of the file's first bytes head_digest covers"
        ),
        sa.Column(
            "head_digest",
            sa.LargeBinary(),
            nullable=False,
            comment="SHA-256 of those bytes: is it still the same file?",
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="when the position last moved",
        ),
        sa.PrimaryKeyConstraint("server", "path", name="log_positions_pkey"),
        schema="softwalltime",
        comment="How far each accounting log has been read; moves in the same transaction as the jobs that were read.",
    )
    op.create_table(
        "malformed_dropped",
        sa.Column("server", sa.Text(collation="C"), nullable=False, comment="the PBS server that wrote the log"),
        sa.Column("lines", sa.BigInteger(), nullable=False, comment="how many of its lines were dropped"),
        sa.PrimaryKeyConstraint("server", name="malformed_dropped_pkey"),
        schema="softwalltime",
        comment="How many malformed lines were dropped because newer ones came.",
    )
    op.create_table(
        "malformed_lines",
        sa.Column(
            "id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="the order in which they were met"
        ),
        sa.Column("line_number", sa.BigInteger(), nullable=False, comment="in the file, from 1"),
        sa.Column("byte_offset", sa.BigInteger(), nullable=False, comment="of the line's first byte in the file"),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="when it was first met",
        ),
        sa.Column("server", sa.Text(collation="C"), nullable=False, comment="the PBS server that wrote the log"),
        sa.Column("path", sa.Text(collation="C"), nullable=False, comment="of the file"),
        sa.Column("reason", sa.Text(collation="C"), nullable=False, comment="why it could not be read"),
        sa.Column(
            "field",
            sa.Text(collation="C"),
            server_default="",
            nullable=False,
            comment="the field that could not be read; empty: the line as a whole",
        ),
        sa.Column("line", sa.LargeBinary(), nullable=False, comment="the line as it was, its first 4096 bytes"),
        sa.PrimaryKeyConstraint("id", name="malformed_lines_pkey"),
        schema="softwalltime",
        comment="Lines of accounting logs that could not be read, the newest 10,000.",
    )
    op.create_index(
        "malformed_lines_natural_key",
        "malformed_lines",
        ["server", "path", "byte_offset", sa.text("md5(line)")],
        unique=True,
        schema="softwalltime",
    )


def downgrade() -> None:
    for table in ("malformed_lines", "malformed_dropped", "log_positions", "completed_jobs"):
        op.drop_table(table, schema="softwalltime")
