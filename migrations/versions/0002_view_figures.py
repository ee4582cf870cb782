"""Sums by queue, and latencies of the hook by hour, from which views read fewer rows."""

from pathlib import Path

from alembic import op

from softwalltime.store.connections import run_script

revision = "0002"
down_revision = "0001"

RECENT = "(SELECT * FROM softwalltime.predictions WHERE predicted_at > extract(epoch FROM now())::bigint - 90000)"
DROP = """
DROP TRIGGER count_latency ON softwalltime.predictions;
DROP FUNCTION softwalltime.count_latency();
DROP TABLE softwalltime.hourly_latency, softwalltime.daily_queues;
"""


def upgrade() -> None:
    create, count = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8").split("-- Count:\n")
    run_script(op.get_bind(), create.replace("COUNT", count))
    # The predictions of the last day, which the view shows.
    run_script(op.get_bind(), count.replace("FROM added", f"FROM {RECENT} AS added"))


def downgrade() -> None:
    run_script(op.get_bind(), DROP)
