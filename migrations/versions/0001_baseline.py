"""The schema of the first release."""

from pathlib import Path

from alembic import op

from softwalltime.store.connections import run_script

revision = "0001"
down_revision = None

DROP = """
DROP TABLE
    softwalltime.completed_jobs, softwalltime.current_jobs, softwalltime.daily_decisions,
    softwalltime.daily_hook, softwalltime.daily_lengths, softwalltime.daily_medians,
    softwalltime.daily_ordering, softwalltime.daily_scores, softwalltime.daily_waits,
    softwalltime.expected_runtimes, softwalltime.expected_starts, softwalltime.interrupted_runs,
    softwalltime.job_scripts, softwalltime.latest_starts, softwalltime.live_states,
    softwalltime.log_positions, softwalltime.malformed_dropped, softwalltime.malformed_lines,
    softwalltime.monitoring, softwalltime.monthly_scores, softwalltime.predictions, softwalltime.probe_starts,
    softwalltime.promises, softwalltime.queue_changes, softwalltime.stale_days, softwalltime.start_times,
    softwalltime.teaching_states, softwalltime.write_lock;
DROP FUNCTION softwalltime.note_queue_change();
DROP TYPE softwalltime.job_state, softwalltime.decision_reason, softwalltime.promise_outcome;
"""


def upgrade() -> None:
    run_script(op.get_bind(), Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    run_script(op.get_bind(), DROP)
