"""Steering is gone, and with it its state."""

from alembic import op

from softwalltime.store.connections import run_script

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(op.get_bind(), "ALTER TABLE softwalltime.live_states DROP COLUMN theta")


def downgrade() -> None:
    run_script(
        op.get_bind(),
        "ALTER TABLE softwalltime.live_states ADD COLUMN theta double precision NOT NULL DEFAULT 0;"
        "ALTER TABLE softwalltime.live_states ALTER COLUMN theta DROP DEFAULT;",
    )
