"""Predicted runtimes of the jobs that wait and run."""

from alembic import op

from softwalltime.store.connections import run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# The daemon may have a role of its own (deploy/sql/roles.sql), which writes at once what an upgrade adds.
CREATE = """
CREATE TABLE softwalltime.expected_runtimes (
    forecast_at bigint NOT NULL, shortest bigint NOT NULL, median bigint NOT NULL, longest bigint NOT NULL,
    suggested bigint, sooner bigint, server text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, server)
);
DO $$
DECLARE
    writer text;
BEGIN
    FOR writer IN
        SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = 'softwalltime' AND table_name = 'expected_starts' AND privilege_type = 'INSERT'
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON softwalltime.expected_runtimes TO %I', writer);
    END LOOP;
END
$$;
"""


def upgrade() -> None:
    run_script(op.get_bind(), CREATE)


def downgrade() -> None:
    run_script(op.get_bind(), "DROP TABLE softwalltime.expected_runtimes")
