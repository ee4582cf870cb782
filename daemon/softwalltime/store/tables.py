"""The tables, all in the schema ``softwalltime``.

migrations/ builds them; a test holds the two together.  Times are epoch seconds, as in the logs.
"""

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, ENUM

from softwalltime.reasons import Reason
from softwalltime.states import State

SCHEMA = "softwalltime"

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={"pk": "%(table_name)s_pkey"},
)


def seconds_column(name: str, comment: str, *, known: bool = False) -> Column[int]:
    # 8 bytes: a log may contain any number of seconds, and refusing more than 68 years gains nothing.
    return Column(name, BigInteger, nullable=not known, comment=comment)


def _count(name: str, comment: str) -> Column[int]:
    return Column(name, Integer, comment=comment)


RAW = (
    "forecast before any correction, seconds: delay, time waited, median, by walltimes, of like jobs, "
    "ends of both ranges; null: not kept"
)


def text_column(name: str, comment: str) -> Column[str]:
    # Compared byte by byte: the same order on every host, and several times faster to index than a locale's order.
    return Column(name, Text(collation="C"), nullable=False, server_default="", comment=comment)


def key_column(name: str, comment: str) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=False, comment=comment)


def enum_type(name: str, members: Sequence[str]) -> ENUM:
    # 4 bytes, readable, and checked by PostgreSQL.
    return ENUM(*members, name=name, schema=SCHEMA, metadata=metadata)


job_state = enum_type("job_state", [state.value for state in State])
decision_reason = enum_type("decision_reason", [reason.value for reason in Reason])

completed_jobs = Table(
    "completed_jobs",
    metadata,
    # Widest columns first: alignment wastes no bytes.
    Column("id", BigInteger, Identity(always=True), nullable=False, comment="order in which jobs were stored"),
    seconds_column("ctime", "submission time, epoch seconds", known=True),
    seconds_column("qtime", "time at which it entered its queue, epoch seconds"),
    seconds_column("etime", "time at which it became eligible to run, epoch seconds"),
    seconds_column("start_time", "start time, epoch seconds; null: never started"),
    seconds_column("end_time", "end time, epoch seconds", known=True),
    seconds_column("walltime", "requested or default walltime, seconds; null: no limit"),
    seconds_column("soft_walltime", "last soft walltime, seconds; null: none"),
    seconds_column("min_walltime", "minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit"),
    seconds_column("max_walltime", "maximum walltime of a shrink-to-fit job, seconds"),
    seconds_column("runtime", "runtime, seconds; 0: did not run, or ended at once", known=True),
    Column("mem", BigInteger, comment="memory requested, bytes"),
    seconds_column("cput", "processor time used, seconds"),
    Column("mem_used", BigInteger, comment="memory used, bytes"),
    _count("ncpus", "processors requested"),
    _count("nodect", "chunks or nodes requested"),
    _count("ngpus", "GPUs requested"),
    _count("exit_status", "Exit_status as PBS recorded it"),
    _count("run_count", "number of starts"),
    Column("state", job_state, nullable=False, comment="how the job ended, derived from its exit status"),
    Column("interactive", Boolean, comment="interactive job; null: not recorded"),
    key_column("server", "PBS server whose accounting log has the job"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    text_column("user_name", "user"),
    text_column("group_name", "group"),
    text_column("project", "PBS project"),
    text_column("account", "account string given at submission"),
    text_column("job_name", "job name given at submission"),
    text_column("queue", "queue from which it ran"),
    text_column("select_spec", "select specification: chunks requested"),
    text_column("place", "placement requested for the chunks"),
    # For reading in order of end time and for windows of time.
    PrimaryKeyConstraint("end_time", "id"),
    comment="Completed jobs, each run of a job once.",
)

NEVER_STARTED = -1
"""Start time in the natural key of a job that never started."""

start_or_never = func.coalesce(completed_jobs.c.start_time, text(f"'{NEVER_STARTED}'::bigint"))

# Measured with 5,000,000 jobs of 600 users (a third of them one user's, 46,000 a month) on PostgreSQL 18, 2 cores;
# bytes are per job, of 675 with the table's own 305.  COPY into an empty store with the primary key (32 bytes), the
# natural key and the indexes by user and by project: 155,000 jobs/s, with none 400,000, into 5,000,000 jobs 130,000.
#
# The natural key, 86 bytes.  A job that never started has no start, and two nulls would be two different jobs; NULLS
# NOT DISTINCT needs PostgreSQL 15, and the expression has no measurable cost.  The id comes first, because it is nearly
# unique.
Index(
    "completed_jobs_natural_key",
    completed_jobs.c.job_id,
    completed_jobs.c.server,
    start_or_never,
    unique=True,
)

# The user's last jobs, and percentiles with any keys that hold the user, 167 bytes.  Ascending although it is read
# backwards: new jobs are then inserted at each user's right edge, which keeps pages full.  The included columns allow
# index-only scans: the heaviest user's percentile takes 4.6 ms (0.3 ms for a typical user), 16 ms without
# the project (50 bytes less), 27 ms with none included.  An index (user_name, project, walltime, end_time) would
# answer the triple key in 0.9 ms, for 126 bytes more, a fifth of the ingestion's speed, and that key alone.
Index(
    "completed_jobs_by_user",
    completed_jobs.c.user_name,
    completed_jobs.c.end_time,
    completed_jobs.c.id,
    postgresql_include=["runtime", "walltime", "state", "project"],
    postgresql_where=completed_jobs.c.runtime > 0,
)

# New jobs after the last id that a daemon has learned; cheap for ingest because it is only appended to.
Index("completed_jobs_by_id", completed_jobs.c.id, unique=True)

# Percentiles by project, 67 bytes: 30 ms over the 130,000 jobs a month of a project of all users, mostly for sorting;
# 60 ms without the included columns, for 18 bytes less.
Index(
    "completed_jobs_by_project",
    completed_jobs.c.project,
    completed_jobs.c.end_time,
    postgresql_include=["runtime", "walltime", "state"],
    postgresql_where=(completed_jobs.c.runtime > 0) & (completed_jobs.c.walltime > 0),
)

teaching_states = Table(
    "teaching_states",
    metadata,
    Column("state", job_state, primary_key=True, comment="predictors learn from jobs with this state"),
    comment="Job states from which predictors learn: the site's setting, stored for the predictors in SQL.",
)

interrupted_runs = Table(
    "interrupted_runs",
    metadata,
    seconds_column("start_time", "start time of this run, epoch seconds", known=True),
    seconds_column("end_time", "time at which the run was stopped, epoch seconds", known=True),
    seconds_column("walltime", "walltime, seconds; null: no limit"),
    seconds_column("soft_walltime", "last soft walltime, seconds; null: none"),
    seconds_column("runtime", "runtime, seconds", known=True),
    _count("exit_status", "Exit_status as PBS recorded it"),
    _count("run_count", "run count"),
    Column("state", job_state, nullable=False, comment="how the job ended, derived from its exit status"),
    key_column("server", "PBS server whose accounting log has the job"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    text_column("user_name", "user"),
    text_column("project", "PBS project"),
    text_column("queue", "queue from which it ran"),
    PrimaryKeyConstraint("job_id", "server", "start_time"),
    comment="Runs that were stopped and requeued; completed_jobs has the run that completed.",
)

current_jobs = Table(
    "current_jobs",
    metadata,
    seconds_column("ctime", "submission time, epoch seconds", known=True),
    seconds_column("qtime", "time at which it entered its queue, epoch seconds"),
    seconds_column("etime", "time at which it became eligible to run, epoch seconds; null: not eligible, such as held"),
    seconds_column("start_time", "start time, epoch seconds; null: waiting"),
    seconds_column("walltime", "walltime, seconds; null: no limit"),
    seconds_column("soft_walltime", "soft walltime, seconds; null: none"),
    seconds_column("min_walltime", "minimum walltime of a shrink-to-fit job, seconds; null: not shrink-to-fit"),
    seconds_column("max_walltime", "maximum walltime of a shrink-to-fit job, seconds"),
    Column("mem", BigInteger, comment="memory requested, bytes"),
    _count("ncpus", "processors requested"),
    _count("nodect", "chunks or nodes requested"),
    _count("ngpus", "GPUs requested"),
    Column("interactive", Boolean, comment="interactive job; null: not recorded"),
    Column("is_array", Boolean, nullable=False, comment="whole array; its subjobs run, the array itself waits"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    text_column("user_name", "user"),
    text_column("group_name", "group"),
    text_column("project", "PBS project"),
    text_column("account", "account string given at submission"),
    text_column("queue", "queue"),
    text_column("job_name", "job name given at submission"),
    text_column("select_spec", "select specification: chunks requested"),
    text_column("place", "placement requested for the chunks"),
    seconds_column(
        "recorded_at",
        "time at which it was queued, started or requeued, by the record that says so, epoch seconds; null: unknown",
    ),
    PrimaryKeyConstraint("job_id", "server"),
    comment="Waiting and running jobs, as of the last accounting record read.",
)

queue_changes = Table(
    "queue_changes",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="order of the changes"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    comment="Jobs that were added to current_jobs, changed there or deleted from it, the newest 100,000 changes.",
)

log_positions = Table(
    "log_positions",
    metadata,
    key_column("server", "PBS server that writes the log"),
    key_column("path", "path of the file"),
    Column("byte_offset", BigInteger, nullable=False, comment="bytes read, always whole lines"),
    Column("line_number", BigInteger, nullable=False, comment="lines read"),
    Column(
        "head_length", Integer, nullable=False, comment="number of the first bytes of the file that head_digest covers"
    ),
    Column("head_digest", LargeBinary, nullable=False, comment="SHA-256 of those bytes: identifies the file"),
    Column("tail_length", Integer, nullable=False, comment="number of the last bytes read that tail_digest covers"),
    Column("tail_digest", LargeBinary, nullable=False, comment="SHA-256 of those bytes: detects a rewritten file"),
    Column(
        "updated_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="time of the last change",
    ),
    PrimaryKeyConstraint("server", "path"),
    comment="Position up to which each accounting log has been read; changes in the same transaction as the jobs.",
)

malformed_lines = Table(
    "malformed_lines",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="order in which the lines were read"),
    Column("line_number", BigInteger, nullable=False, comment="line number in the file, from 1"),
    Column("byte_offset", BigInteger, nullable=False, comment="offset of the line in the file"),
    Column(
        "seen_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="time at which it was first read",
    ),
    key_column("server", "PBS server that wrote the log"),
    key_column("path", "path of the file"),
    key_column("reason", "what is wrong with it"),
    text_column("field", "malformed field; empty: the whole line"),
    Column("line", LargeBinary, nullable=False, comment="first 4096 bytes of the line, unchanged"),
    comment="Malformed lines of accounting logs, the newest 10,000.",
)

# The line is part of the key, because another file may replace the file at the same path.
Index(
    "malformed_lines_natural_key",
    malformed_lines.c.server,
    malformed_lines.c.path,
    malformed_lines.c.byte_offset,
    func.md5(malformed_lines.c.line),
    unique=True,
)

malformed_dropped = Table(
    "malformed_dropped",
    metadata,
    key_column("server", "PBS server that wrote the log"),
    Column("lines", BigInteger, nullable=False, comment="number of lines deleted"),
    PrimaryKeyConstraint("server"),
    comment="Number of malformed lines that were deleted because newer ones arrived.",
)

write_lock = Table(
    "write_lock",
    metadata,
    comment="Without rows: who writes locks this table, so that there is one writer at a time.",
)

predictions = Table(
    "predictions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="order in which they were recorded"),
    seconds_column("predicted_at", "time of the request, epoch seconds", known=True),
    seconds_column("walltime", "walltime of the job at that time, seconds; null: no limit"),
    seconds_column("soft_walltime", "soft walltime after the policy, seconds; null: none"),
    Column("predicted", Double, comment="predicted runtime before rounding and clamping, seconds"),
    _count("took", "response time of the daemon, microseconds"),
    Column(
        "timeouts",
        Integer,
        nullable=False,
        server_default="0",
        comment="consecutive requests of the hook that timed out before this one",
    ),
    _count("exchange_before", "round trip of the hook's previous request, microseconds"),
    text_column("event", "PBS hook event: queuejob, postqueuejob, modifyjob or runjob"),
    text_column("job_id", "job id; empty at queuejob, where the job has none yet"),
    text_column("user_name", "user"),
    text_column("project", "PBS project"),
    text_column("queue", "queue at that time; empty: the default queue"),
    text_column("mode", "mode of the policy for this job: off, shadow or on"),
    text_column("predictor", "predictor with its options; or walltime or keep"),
    text_column("action", "set: the hook was to set it; late: the hook had timed out; shadow: predicted only; none"),
    text_column("basis", "sentence: the basis of the prediction, or the reason that there is none"),
    Column("reason", decision_reason, nullable=False, comment="reason code of the decision"),
    seconds_column("had", "soft walltime of the job at the request, seconds; 0: none; null: unknown"),
    seconds_column("ordering", "value for job_sort_formula, seconds; null: the policy has none"),
    comment="Decisions of the daemon: one row per request of the hook.",
)

Index("predictions_by_time", predictions.c.predicted_at)
Index("predictions_by_job", predictions.c.job_id)

expected_starts = Table(
    "expected_starts",
    metadata,
    seconds_column("forecast_at", "time of the forecast, epoch seconds", known=True),
    seconds_column("ctime", "submission time, epoch seconds", known=True),
    seconds_column("expected", "expected start, epoch seconds; null: no forecast"),
    seconds_column("low90", "begin of the 90% range, epoch seconds"),
    seconds_column("low50", "begin of the 50% range, epoch seconds"),
    seconds_column("high50", "end of the 50% range, epoch seconds"),
    seconds_column("high90", "end of the 90% range, epoch seconds"),
    seconds_column("pbs_estimate", "estimated.start_time of PBS, epoch seconds; null: none"),
    seconds_column("walltime", "walltime, seconds; null: no limit"),
    _count("ncpus", "processors requested"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    text_column("user_name", "user"),
    text_column("group_name", "group"),
    text_column("project", "PBS project"),
    text_column("queue", "queue"),
    text_column("waits_for", "sentence: what it waits for, or the reason that there is no forecast"),
    Column("raw", ARRAY(Double), comment=RAW),
    PrimaryKeyConstraint("job_id", "server"),
    comment="Newest forecast of the start of each waiting job.",
)

start_times = Table(
    "start_times",
    metadata,
    seconds_column("forecast_at", "time of the forecast, epoch seconds", known=True),
    seconds_column("ctime", "submission time, epoch seconds", known=True),
    seconds_column("started", "start of the job after the forecast, epoch seconds; null: not known yet"),
    seconds_column("expected", "expected start, epoch seconds", known=True),
    seconds_column("low90", "begin of the 90% range, epoch seconds", known=True),
    seconds_column("low50", "begin of the 50% range, epoch seconds", known=True),
    seconds_column("high50", "end of the 50% range, epoch seconds", known=True),
    seconds_column("high90", "end of the 90% range, epoch seconds", known=True),
    seconds_column("pbs_estimate", "estimated.start_time of PBS, epoch seconds; null: none"),
    Column("is_first", Boolean, nullable=False, comment="first forecast of a job that had just been submitted"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    text_column("queue", "queue at the time of the forecast"),
    Column("raw", ARRAY(Double), comment=RAW),
    PrimaryKeyConstraint("job_id", "server", "forecast_at"),
    comment="Forecasts of starts that are kept to be judged: the first one of each job, one an hour, and more before "
    "its start.",
)

Index("start_times_by_time", start_times.c.forecast_at)
# Those that are still to be judged: a few of many.
Index("start_times_open", start_times.c.job_id, postgresql_where=start_times.c.started.is_(None))
