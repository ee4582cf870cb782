"""Time of the record that set a waiting or running job, and a log of the jobs that changed."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
# A trigger, so that writers of the version before are seen too.  It runs as the owner of the tables: writers need no
# privilege on the log.
_TRIGGER = """
CREATE FUNCTION softwalltime.note_queue_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    changed softwalltime.current_jobs := coalesce(NEW, OLD);
    number bigint;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
        RETURN NULL;
    END IF;
    INSERT INTO softwalltime.queue_changes (server, job_id) VALUES (changed.server, changed.job_id)
    RETURNING id INTO number;
    DELETE FROM softwalltime.queue_changes WHERE id <= number - 100000;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_queue_change AFTER INSERT OR UPDATE OR DELETE ON softwalltime.current_jobs
FOR EACH ROW EXECUTE FUNCTION softwalltime.note_queue_change();
"""
# Who writes the jobs may read their changes, as deploy/sql/roles.sql says: until somebody runs it again, the daemon
# would not know which jobs wait.
_GRANT = """
DO $$
DECLARE
    writer record;
BEGIN
    FOR writer IN
        SELECT DISTINCT role.rolname AS name
        FROM pg_class AS relation
        CROSS JOIN LATERAL aclexplode(relation.relacl) AS held
        JOIN pg_roles AS role ON role.oid = held.grantee
        WHERE relation.oid = 'softwalltime.current_jobs'::regclass AND held.grantee <> relation.relowner
            AND held.privilege_type = 'UPDATE'
    LOOP
        EXECUTE format('GRANT SELECT ON softwalltime.queue_changes TO %I', writer.name);
    END LOOP;
END
$$
"""


def upgrade() -> None:
    op.add_column("current_jobs", sa.Column("recorded_at", sa.BigInteger), schema=SCHEMA)
    op.create_table(
        "queue_changes",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("server", sa.Text(collation="C"), nullable=False),
        sa.Column("job_id", sa.Text(collation="C"), nullable=False),
        schema=SCHEMA,
    )
    op.execute(_TRIGGER)
    op.execute(_GRANT)


def downgrade() -> None:
    op.execute("DROP TRIGGER note_queue_change ON softwalltime.current_jobs")
    op.execute("DROP FUNCTION softwalltime.note_queue_change()")
    op.drop_table("queue_changes", schema=SCHEMA)
    op.drop_column("current_jobs", "recorded_at", schema=SCHEMA)
