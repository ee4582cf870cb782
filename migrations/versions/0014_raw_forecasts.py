"""What forecasts of starts were before any correction, so that judged ones can correct later ones."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
RAW = (
    "forecast before any correction, seconds: delay, time waited, median, by walltimes, of like jobs, "
    "ends of both ranges; null: not kept"
)
KEPT = "Forecasts of starts that are kept to be judged: the first one of each job"
BEFORE = f"{KEPT} and one an hour."
AFTER = f"{KEPT}, one an hour, and more before its start."


def upgrade() -> None:
    for table in ("expected_starts", "start_times"):
        op.add_column(table, sa.Column("raw", ARRAY(sa.Double()), comment=RAW), schema=SCHEMA)
    op.create_table_comment("start_times", AFTER, existing_comment=BEFORE, schema=SCHEMA)


def downgrade() -> None:
    op.create_table_comment("start_times", BEFORE, existing_comment=AFTER, schema=SCHEMA)
    for table in ("expected_starts", "start_times"):
        op.drop_column(table, "raw", schema=SCHEMA)
