"""Delete old queue changes once for a thousand new ones.

Each deletion scans the rows that its transaction has deleted before.  With one for each change, 50,000 changes in a
transaction took four minutes, which is longer than the daemon's statement timeout.
"""

from alembic import op

from softwalltime.store.connections import run_script

revision = "0003"
down_revision = "0002"

DELETE = "DELETE FROM softwalltime.queue_changes WHERE id <= number - 100000;"
FUNCTION = """
CREATE OR REPLACE FUNCTION softwalltime.note_queue_change() RETURNS trigger
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
    {}
    RETURN NULL;
END
$$;
"""


def upgrade() -> None:
    run_script(op.get_bind(), FUNCTION.format(f"IF number % 1000 = 0 THEN {DELETE} END IF;"))


def downgrade() -> None:
    run_script(op.get_bind(), FUNCTION.format(DELETE))
