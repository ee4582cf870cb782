"""SQLAlchemy tables for statements; migrations/ creates these and all other tables, in the schema ``softwalltime``.

Times are epoch seconds, as in the logs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ENUM
from sqlalchemy.types import TypeEngine

from softwalltime.core.reasons import Reason
from softwalltime.core.states import State

SCHEMA = "softwalltime"

metadata = MetaData(schema=SCHEMA)


def _columns(kind: type[TypeEngine[Any]] | TypeEngine[Any], names: str) -> Iterator[Column[Any]]:
    for name in names.split():
        yield Column(name, kind)


def _enum(name: str, members: Sequence[str]) -> ENUM:
    return ENUM(*members, name=name, schema=SCHEMA, metadata=metadata)


job_state = _enum("job_state", [state.value for state in State])

completed_jobs = Table(
    "completed_jobs",
    metadata,
    *_columns(BigInteger, "id ctime qtime etime start_time end_time walltime soft_walltime min_walltime max_walltime"),
    *_columns(BigInteger, "runtime mem cput mem_used"),
    *_columns(Integer, "ncpus nodect ngpus exit_status run_count"),
    *_columns(job_state, "state"),
    *_columns(Boolean, "interactive"),
    *_columns(Text, "server job_id user_name group_name project account job_name queue select_spec place"),
)

NEVER_STARTED = -1
"""Start time in the natural key of a job that never started."""

start_or_never = func.coalesce(completed_jobs.c.start_time, text(f"'{NEVER_STARTED}'::bigint"))

job_scripts = Table("job_scripts", metadata, *_columns(BigInteger, "ctime"), *_columns(Text, "job_id script"))

teaching_states = Table("teaching_states", metadata, *_columns(job_state, "state"))

interrupted_runs = Table(
    "interrupted_runs",
    metadata,
    *_columns(BigInteger, "start_time end_time walltime soft_walltime runtime"),
    *_columns(Integer, "exit_status run_count"),
    *_columns(job_state, "state"),
    *_columns(Text, "server job_id user_name project queue"),
)

current_jobs = Table(
    "current_jobs",
    metadata,
    *_columns(BigInteger, "ctime qtime etime start_time walltime soft_walltime min_walltime max_walltime mem"),
    *_columns(Integer, "ncpus nodect ngpus"),
    *_columns(Boolean, "interactive is_array"),
    *_columns(Text, "server job_id user_name group_name project account queue job_name select_spec place"),
    *_columns(BigInteger, "recorded_at"),
)

log_positions = Table(
    "log_positions",
    metadata,
    *_columns(Text, "server path"),
    *_columns(BigInteger, "byte_offset line_number"),
    *_columns(Integer, "head_length tail_length"),
    *_columns(LargeBinary, "head_digest tail_digest"),
    *_columns(DateTime(timezone=True), "updated_at"),
)

malformed_lines = Table(
    "malformed_lines",
    metadata,
    *_columns(BigInteger, "id line_number byte_offset"),
    *_columns(DateTime(timezone=True), "seen_at"),
    *_columns(Text, "server path reason field"),
    *_columns(LargeBinary, "line"),
)

malformed_dropped = Table("malformed_dropped", metadata, *_columns(Text, "server"), *_columns(BigInteger, "lines"))

write_lock = Table("write_lock", metadata)

predictions = Table(
    "predictions",
    metadata,
    *_columns(BigInteger, "id predicted_at walltime soft_walltime had ordering"),
    *_columns(Double, "predicted"),
    *_columns(Integer, "took timeouts exchange_before"),
    *_columns(Text, "event job_id user_name project queue mode predictor action basis"),
    *_columns(_enum("decision_reason", [reason.value for reason in Reason]), "reason"),
)
