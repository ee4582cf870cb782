"""What shadow predictors would have given each job, and their figures by day."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
SHADOWS = "soft walltimes of the shadow predictors, seconds, by predictor; null: none was asked"


def _number(name: str, comment: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, comment=comment)


def _sum(name: str, comment: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, comment=comment)


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False, comment=comment)


def upgrade() -> None:
    op.add_column("predictions", sa.Column("shadows", JSONB, comment=SHADOWS), schema=SCHEMA)
    op.create_table(
        "daily_shadows",
        _sum("accuracy", "sum of min(p, t) / max(p, t)"),
        _sum("absolute_error", "sum of |p - t|, seconds"),
        sa.Column("day", sa.Date(), nullable=False, comment="day in UTC"),
        _number("jobs", "scored jobs that ended on the day and for which shadow predictors were asked"),
        _number("adjusted", "jobs with p below the walltime"),
        _number("underestimated", "jobs with p < t"),
        _number("badly_underestimated", "jobs with t - p > 1800 s"),
        _text("role", "shadow; live: the predictor of the policy; walltime: no predictor"),
        _text("predictor", "predictor with its options"),
        sa.PrimaryKeyConstraint("day", "role", "predictor", name="daily_shadows_pkey"),
        schema=SCHEMA,
        comment=("Shadow predictors and the policy's on the same jobs. t, p: see daily_scores."),
    )


def downgrade() -> None:
    op.drop_table("daily_shadows", schema=SCHEMA)
    op.drop_column("predictions", "shadows", schema=SCHEMA)
