"""The latest starts of waiting jobs."""

from alembic import op

from softwalltime.store.connections import run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CREATE = """
CREATE TABLE softwalltime.latest_starts (
    set_at bigint NOT NULL, latest_start bigint NOT NULL, server text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL, terms text COLLATE "C" DEFAULT '' NOT NULL, PRIMARY KEY (job_id, server)
);
"""
GRANT = """
DO $$
BEGIN
    -- The daemon's role of roles.sql, where the daemon does not own the tables.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'softwalltime')
        AND has_table_privilege('softwalltime', 'softwalltime.promises', 'UPDATE') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON softwalltime.latest_starts TO softwalltime;
    END IF;
END
$$;
"""


def upgrade() -> None:
    run_script(op.get_bind(), CREATE)
    run_script(op.get_bind(), GRANT)


def downgrade() -> None:
    run_script(op.get_bind(), "DROP TABLE softwalltime.latest_starts;")
