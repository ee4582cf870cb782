"""The soft walltime of each job at the request, and responses that came too late."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
HAD = "soft walltime of the job at the request, seconds; 0: none; null: unknown"
ACTION = "set: the hook was told to set it; late: the hook had timed out; shadow: predicted only; none"
ACTION_BEFORE = "set: the hook was told to set the soft walltime; shadow: predicted only; none"


def upgrade() -> None:
    op.add_column("predictions", sa.Column("had", sa.BigInteger, comment=HAD), schema=SCHEMA)
    op.alter_column("predictions", "action", comment=ACTION, schema=SCHEMA)


def downgrade() -> None:
    # What the version before would have recorded.
    op.execute("UPDATE softwalltime.predictions SET action = 'set' WHERE action = 'late'")
    op.alter_column("predictions", "action", comment=ACTION_BEFORE, schema=SCHEMA)
    op.drop_column("predictions", "had", schema=SCHEMA)
