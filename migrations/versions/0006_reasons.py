"""The reason of each decision as a code in place of a sentence that is recognised."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ENUM

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
REASON = ENUM(
    "predicted", "not_below_walltime", "no_walltime", "shrink_to_fit", "no_completed_jobs",
    "no_completed_jobs_with_walltime", "too_few_jobs", "history_loading", "policy_off", "policy_keep",
    "policy_walltime", "baseline", "other",
    name="decision_reason", schema=SCHEMA, create_type=False,
)  # fmt: skip
COMMENT = "why the decision is what it is; null: recorded by a version that did not say"

# The sentences of the versions before.
CONVERT = """
ALTER TABLE softwalltime.predictions
ALTER COLUMN reason TYPE softwalltime.decision_reason USING (CASE
    WHEN predicted IS NOT NULL AND soft_walltime < walltime THEN 'predicted'
    WHEN predicted IS NOT NULL THEN 'not_below_walltime'
    WHEN basis LIKE 'user % has no completed job with a walltime%' THEN 'no_completed_jobs_with_walltime'
    WHEN basis LIKE 'user % has no completed job%' THEN 'no_completed_jobs'
    WHEN basis LIKE 'only % jobs with the same %' THEN 'too_few_jobs'
    WHEN basis LIKE 'the job has no walltime%' THEN 'no_walltime'
    WHEN basis LIKE 'a shrink-to-fit job %' THEN 'shrink_to_fit'
    WHEN basis LIKE 'the history is still being loaded%' THEN 'history_loading'
    WHEN basis LIKE 'the site''s policy is off%' THEN 'policy_off'
    WHEN basis LIKE 'the site''s policy keeps %' THEN 'policy_keep'
    WHEN basis LIKE 'a running job is planned with its walltime%' THEN 'policy_walltime'
    WHEN basis LIKE 'the user''s walltime stands%' THEN 'baseline'
    ELSE 'other'
END)::softwalltime.decision_reason
"""

CONVERT_DAILY = """
ALTER TABLE softwalltime.daily_decisions
ALTER COLUMN reason TYPE softwalltime.decision_reason USING (CASE reason
    WHEN '' THEN 'predicted'
    WHEN 'predicted to last as long as its walltime' THEN 'not_below_walltime'
    WHEN 'unknown user' THEN 'no_completed_jobs'
    WHEN 'too few like jobs' THEN 'too_few_jobs'
    WHEN 'no walltime' THEN 'no_walltime'
    WHEN 'shrink-to-fit' THEN 'shrink_to_fit'
    WHEN 'history not loaded yet' THEN 'history_loading'
    WHEN 'policy off' THEN 'policy_off'
    WHEN 'policy keeps it' THEN 'policy_keep'
    WHEN 'running: its walltime' THEN 'policy_walltime'
    WHEN 'the predictor is the request' THEN 'baseline'
    ELSE 'other'
END)::softwalltime.decision_reason
"""

CONVERT_DAILY_BACK = """
ALTER TABLE softwalltime.daily_decisions
ALTER COLUMN reason TYPE text COLLATE "C" USING (CASE reason
    WHEN 'predicted' THEN ''
    WHEN 'not_below_walltime' THEN 'predicted to last as long as its walltime'
    WHEN 'no_completed_jobs' THEN 'unknown user'
    WHEN 'no_completed_jobs_with_walltime' THEN 'unknown user'
    WHEN 'too_few_jobs' THEN 'too few like jobs'
    WHEN 'no_walltime' THEN 'no walltime'
    WHEN 'shrink_to_fit' THEN 'shrink-to-fit'
    WHEN 'history_loading' THEN 'history not loaded yet'
    WHEN 'policy_off' THEN 'policy off'
    WHEN 'policy_keep' THEN 'policy keeps it'
    WHEN 'policy_walltime' THEN 'running: its walltime'
    WHEN 'baseline' THEN 'the predictor is the request'
    ELSE 'other'
END)
"""

# Two reasons of today have the same words in the version before.
ADD_UP_DAILY = """
WITH old AS (DELETE FROM softwalltime.daily_decisions RETURNING *)
INSERT INTO softwalltime.daily_decisions (day, requests, event, mode, predictor, action, reason)
SELECT day, sum(requests), event, mode, predictor, action, reason
FROM old
GROUP BY day, event, mode, predictor, action, reason
"""


def upgrade() -> None:
    REASON.create(op.get_bind(), checkfirst=False)
    # A new column that is converted at once rewrites the table once; an UPDATE would leave every row behind, dead.
    op.execute("ALTER TABLE softwalltime.predictions ADD COLUMN reason text")
    op.execute(CONVERT)
    op.alter_column("predictions", "reason", comment=COMMENT, schema=SCHEMA)
    op.execute(CONVERT_DAILY)
    op.alter_column("daily_decisions", "reason", comment="why each decision is what it is", schema=SCHEMA)
    op.execute("DROP FUNCTION IF EXISTS softwalltime.reason(text, double precision, bigint)")


def downgrade() -> None:
    op.drop_constraint("daily_decisions_pkey", "daily_decisions", schema=SCHEMA)
    op.execute(CONVERT_DAILY_BACK)
    op.execute(ADD_UP_DAILY)
    op.create_primary_key(
        "daily_decisions_pkey",
        "daily_decisions",
        ["day", "event", "mode", "predictor", "action", "reason"],
        schema=SCHEMA,
    )
    op.alter_column(
        "daily_decisions",
        "reason",
        comment="why nothing was predicted, see the function reason; empty: something was",
        existing_type=sa.Text(collation="C"),
        schema=SCHEMA,
    )
    op.drop_column("predictions", "reason", schema=SCHEMA)
    REASON.drop(op.get_bind(), checkfirst=False)
