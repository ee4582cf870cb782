"""Script, submission host and dependencies of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, server_default="", comment=comment)


def upgrade() -> None:
    op.create_table(
        "submission_attributes",
        sa.Column("ctime", sa.BigInteger, nullable=False, comment="submission time, epoch seconds"),
        sa.Column(
            "job_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="job id; of a subjob that of its array, such as 3[].srv",
        ),
        _text("script", "digest of the path of the script, or of the executable; empty: unknown"),
        _text("submit_host", "host from which the job was submitted; empty: unknown"),
        _text("depend", "dependencies given at submission, such as afterok:17.srv; empty: none, or unknown"),
        sa.PrimaryKeyConstraint("ctime", "job_id", name="submission_attributes_pkey"),
        schema=SCHEMA,
        comment="What the accounting log does not say of completed jobs, from the hook and from Q records.",
    )


def downgrade() -> None:
    op.drop_table("submission_attributes", schema=SCHEMA)
