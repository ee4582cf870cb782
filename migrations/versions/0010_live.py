"""The reason of decisions while the guard is on."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# What the version before would have recorded.
RENAME = "UPDATE softwalltime.predictions SET reason = 'policy_walltime' WHERE reason = 'guard'"
RENAME_DAILY = """
WITH old AS (DELETE FROM softwalltime.daily_decisions WHERE reason = 'guard' RETURNING *)
INSERT INTO softwalltime.daily_decisions AS known (day, requests, event, mode, predictor, action, reason)
SELECT day, requests, event, mode, predictor, action, 'policy_walltime' FROM old
ON CONFLICT (day, event, mode, predictor, action, reason) DO UPDATE SET requests = known.requests + excluded.requests
"""
# PostgreSQL cannot remove a value from a type.
OLD_REASONS = """
CREATE TYPE softwalltime.decision_reason AS ENUM (
    'predicted', 'not_below_walltime', 'no_walltime', 'shrink_to_fit', 'no_completed_jobs',
    'no_completed_jobs_with_walltime', 'too_few_jobs', 'history_loading', 'policy_off', 'policy_keep',
    'policy_walltime', 'baseline', 'other', 'exclusive'
)
"""
CONVERT = """
ALTER TABLE softwalltime.{table}
ALTER COLUMN reason TYPE softwalltime.decision_reason USING reason::text::softwalltime.decision_reason
"""


def upgrade() -> None:
    op.execute("ALTER TYPE softwalltime.decision_reason ADD VALUE 'guard'")


def downgrade() -> None:
    op.execute(RENAME)
    op.execute(RENAME_DAILY)
    op.execute("ALTER TYPE softwalltime.decision_reason RENAME TO decision_reason_0010")
    op.execute(OLD_REASONS)
    for table in ("predictions", "daily_decisions"):
        op.execute(CONVERT.format(table=table))
    op.execute("DROP TYPE softwalltime.decision_reason_0010")
