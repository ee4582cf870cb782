"""Script, submission host and dependencies of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"
# Who stores jobs may store their attributes, as deploy/sql/roles.sql says: until somebody runs it again, the daemon
# would neither store nor read jobs.
_GRANT = """
DO $$
DECLARE
    writer record;
BEGIN
    FOR writer IN
        SELECT role.rolname AS name, bool_or(held.privilege_type = 'DELETE') AS deletes
        FROM pg_class AS relation
        CROSS JOIN LATERAL (
            SELECT * FROM aclexplode(relation.relacl)
            UNION ALL
            SELECT item.* FROM pg_attribute AS of
            CROSS JOIN LATERAL aclexplode(of.attacl) AS item
            WHERE of.attrelid = relation.oid
        ) AS held
        JOIN pg_roles AS role ON role.oid = held.grantee
        WHERE relation.oid = 'softwalltime.completed_jobs'::regclass AND held.grantee <> relation.relowner
        GROUP BY role.rolname
        HAVING bool_or(held.privilege_type = 'INSERT')
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON softwalltime.submission_attributes TO %I', writer.name);
        IF writer.deletes THEN
            EXECUTE format('GRANT DELETE ON softwalltime.submission_attributes TO %I', writer.name);
        END IF;
    END LOOP;
END
$$
"""


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
    op.execute(_GRANT)


def downgrade() -> None:
    op.drop_table("submission_attributes", schema=SCHEMA)
