"""A table that writers lock, in place of an advisory lock, which every role could hold."""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
# Roles that store how far logs are read are the writers of deploy/sql/roles.sql: until somebody runs it again, they
# could not write.
_GRANT = """
DO $$
DECLARE
    writer name;
BEGIN
    FOR writer IN
        SELECT role.rolname FROM pg_class AS relation
        CROSS JOIN LATERAL aclexplode(relation.relacl) AS held
        JOIN pg_roles AS role ON role.oid = held.grantee
        WHERE relation.oid = 'softwalltime.log_positions'::regclass AND held.privilege_type = 'UPDATE'
            AND held.grantee <> relation.relowner
    LOOP
        EXECUTE format('GRANT UPDATE ON softwalltime.write_lock TO %I', writer);
    END LOOP;
END
$$
"""


def upgrade() -> None:
    op.create_table("write_lock", schema=SCHEMA)
    op.execute(_GRANT)


def downgrade() -> None:
    op.drop_table("write_lock", schema=SCHEMA)
