"""SQLAlchemy tables for statements; migrations/ creates these and all other tables, in the schema ``softwalltime``.

Times are epoch seconds, as in the logs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ENUM
from sqlalchemy.types import TypeEngine

from softwalltime.core.reasons import Reason
from softwalltime.core.states import State

SCHEMA = "softwalltime"

metadata = sa.MetaData(schema=SCHEMA)


def _enum(name: str, members: Sequence[str]) -> ENUM:
    return ENUM(*members, name=name, schema=SCHEMA, metadata=metadata)


job_state = _enum("job_state", [state.value for state in State])
_TYPES: Mapping[str, type[TypeEngine[Any]] | TypeEngine[Any]] = {
    "bigint": sa.BigInteger,
    "integer": sa.Integer,
    "double": sa.Double,
    "boolean": sa.Boolean,
    "text": sa.Text,
    "bytea": sa.LargeBinary,
    "time": sa.DateTime(timezone=True),
    "state": job_state,
    "reason": _enum("decision_reason", [reason.value for reason in Reason]),
}


def _table(name: str, **columns: str) -> sa.Table:
    """Return a table with these columns, by their types."""
    pairs = ((column, _TYPES[kind]) for kind, names in columns.items() for column in names.split())
    return sa.Table(name, metadata, *(sa.Column(column, kind) for column, kind in pairs))


completed_jobs = _table(
    "completed_jobs",
    bigint="id ctime qtime etime start_time end_time walltime soft_walltime min_walltime max_walltime runtime mem cput "
    "mem_used",
    integer="ncpus nodect ngpus exit_status run_count",
    state="state",
    boolean="interactive",
    text="server job_id user_name group_name project account job_name queue select_spec place",
)

NEVER_STARTED = -1
"""Start time in the natural key of a job that never started."""

job_scripts = _table("job_scripts", bigint="ctime", text="job_id script")
teaching_states = _table("teaching_states", state="state")
interrupted_runs = _table(
    "interrupted_runs",
    bigint="start_time end_time walltime soft_walltime runtime",
    integer="exit_status run_count",
    state="state",
    text="server job_id user_name project queue",
)
current_jobs = _table(
    "current_jobs",
    bigint="ctime qtime etime start_time walltime soft_walltime min_walltime max_walltime mem recorded_at",
    integer="ncpus nodect ngpus",
    boolean="interactive is_array",
    text="server job_id user_name group_name project account queue job_name select_spec place",
)
log_positions = _table(
    "log_positions",
    text="server path",
    bigint="byte_offset line_number",
    integer="head_length tail_length",
    bytea="head_digest tail_digest",
    time="updated_at",
)
malformed_lines = _table(
    "malformed_lines",
    bigint="id line_number byte_offset",
    time="seen_at",
    text="server path reason field",
    bytea="line",
)
malformed_dropped = _table("malformed_dropped", text="server", bigint="lines")
write_lock = _table("write_lock")
predictions = _table(
    "predictions",
    bigint="id predicted_at walltime soft_walltime had ordering",
    double="predicted",
    integer="took timeouts exchange_before",
    text="event job_id user_name project queue mode predictor action basis",
    reason="reason",
)
