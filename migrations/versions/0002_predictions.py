"""What the daemon predicted, and jobs in the order in which they became known."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default="", nullable=False, comment=comment)


def upgrade() -> None:
    op.create_index("completed_jobs_by_id", "completed_jobs", ["id"], unique=True, schema=SCHEMA)
    op.create_table(
        "predictions",
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="the order in which they were recorded",
        ),
        sa.Column("predicted_at", sa.BigInteger(), nullable=False, comment="when the hook asked, epoch seconds"),
        sa.Column("walltime", sa.BigInteger(), comment="of the job at that time, seconds; null: no limit"),
        sa.Column(
            "soft_walltime", sa.BigInteger(), comment="what the policy made of the prediction, seconds; null: none"
        ),
        sa.Column("predicted", sa.Double(), comment="the predicted runtime before rounding and clamping, seconds"),
        sa.Column("took", sa.Integer(), comment="how long the answer took, microseconds"),
        _text("event", "PBS's event: queuejob, postqueuejob, modifyjob or runjob"),
        _text("job_id", "of the job; empty at queuejob, where it has none yet"),
        _text("user_name", "who submitted it"),
        _text("project", "PBS's project"),
        _text("queue", "the queue at that time; empty: the default queue"),
        _text("mode", "of the policy for this job: off, shadow or on"),
        _text("predictor", "which was asked, with its options; or walltime or keep"),
        _text("action", "set: PBS was told to set it; shadow: it would have been; none"),
        _text("basis", "what the prediction rests on, or why there is none"),
        sa.PrimaryKeyConstraint("id"),
        schema=SCHEMA,
        comment="What the daemon predicted, and what was done with it.",
    )
    op.create_index("predictions_by_time", "predictions", ["predicted_at"], schema=SCHEMA)
    op.create_index("predictions_by_job", "predictions", ["job_id"], schema=SCHEMA)


def downgrade() -> None:
    op.drop_index("completed_jobs_by_id", "completed_jobs", schema=SCHEMA)
    op.drop_table("predictions", schema=SCHEMA)
