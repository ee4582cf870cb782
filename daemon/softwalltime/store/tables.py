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
from sqlalchemy.dialects.postgresql import ENUM

from softwalltime.reasons import Reason
from softwalltime.states import State

SCHEMA = "softwalltime"

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={"pk": "%(table_name)s_pkey"},
)


def _seconds(name: str, comment: str, *, known: bool = False) -> Column[int]:
    # 8 bytes: a log may claim any number of seconds, and nothing is gained by refusing those past 68 years.
    return Column(name, BigInteger, nullable=not known, comment=comment)


def _count(name: str, comment: str) -> Column[int]:
    return Column(name, Integer, comment=comment)


def _text(name: str, comment: str) -> Column[str]:
    # Compared byte by byte: the same order on every machine, and several times faster to index than a language's.
    return Column(name, Text(collation="C"), nullable=False, server_default="", comment=comment)


def _key_text(name: str, comment: str) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=False, comment=comment)


def _enum(name: str, members: Sequence[str]) -> ENUM:
    # One of few words in 4 bytes, which PostgreSQL checks and everybody can read.
    return ENUM(*members, name=name, schema=SCHEMA, metadata=metadata)


job_state = _enum("job_state", [state.value for state in State])
decision_reason = _enum("decision_reason", [reason.value for reason in Reason])

completed_jobs = Table(
    "completed_jobs",
    metadata,
    # Widest first, so that no byte is lost to alignment.
    Column("id", BigInteger, Identity(always=True), nullable=False, comment="the order in which jobs became known"),
    _seconds("ctime", "when it was submitted, epoch seconds", known=True),
    _seconds("qtime", "when it came into its queue, epoch seconds"),
    _seconds("etime", "when it became eligible to run, epoch seconds"),
    _seconds("start_time", "when it started, epoch seconds; null: it never did"),
    _seconds("end_time", "when it ended, epoch seconds", known=True),
    _seconds("walltime", "what the user asked for or a default gave, seconds; null: no limit"),
    _seconds("soft_walltime", "the last soft walltime that it had, seconds; null: none"),
    _seconds("min_walltime", "least walltime of a shrink-to-fit job, seconds; null: it was none"),
    _seconds("max_walltime", "greatest walltime of a shrink-to-fit job, seconds"),
    _seconds("runtime", "how long it ran, seconds; 0: it did not, or died at once", known=True),
    Column("mem", BigInteger, comment="memory asked for, bytes"),
    _seconds("cput", "processor time used, seconds"),
    Column("mem_used", BigInteger, comment="memory used, bytes"),
    _count("ncpus", "processors asked for"),
    _count("nodect", "chunks or nodes asked for"),
    _count("ngpus", "GPUs asked for"),
    _count("exit_status", "as PBS recorded it"),
    _count("run_count", "how often it was started"),
    Column("state", job_state, nullable=False, comment="how it ended, by its exit status"),
    Column("interactive", Boolean, comment="whether it was an interactive job; null: not recorded"),
    _key_text("server", "the PBS server whose log told of it"),
    _key_text("job_id", "with the array index, as 3[1].srv"),
    _text("user_name", "who ran it"),
    _text("group_name", "the group that it ran under"),
    _text("project", "PBS's project"),
    _text("account", "the account string given at submission"),
    _text("job_name", "the name given at submission"),
    _text("queue", "the queue that it ran from"),
    _text("select_spec", "the chunks asked for"),
    _text("place", "how the chunks were to be placed"),
    # Learning order: for the order itself and for windows of time.
    PrimaryKeyConstraint("end_time", "id"),
    comment="Jobs that ended, each run of a job once. Learning order is (end_time, id).",
)

NEVER_STARTED = -1
"""The start of a job that never started, as the natural key sees it."""

start_or_never = func.coalesce(completed_jobs.c.start_time, text(f"'{NEVER_STARTED}'::bigint"))

# Measured with 5,000,000 jobs of 600 users (a third of them one user's, 46,000 a month) on PostgreSQL 18, 2 cores;
# bytes are per job, of 675 with the table's own 305.  COPY into an empty store with the primary key (32 bytes), the
# natural key and the indexes by user and by project: 155,000 jobs/s, with none 400,000, into 5,000,000 jobs 130,000.
#
# The natural key, 86 bytes.  A job that never started has no start, and two nulls would be two different jobs; NULLS
# NOT DISTINCT needs PostgreSQL 15, and an expression costs nothing that could be measured.  The id comes first,
# because nearly every job's is its own.
Index(
    "completed_jobs_natural_key",
    completed_jobs.c.job_id,
    completed_jobs.c.server,
    start_or_never,
    unique=True,
)

# The user's last jobs, and percentiles with any keys that hold the user, 167 bytes.  Ascending although it is read
# backwards: new jobs then come at each user's right edge, which keeps pages full.  The included columns let all these
# queries do without the table: the heaviest user's percentile takes 4.6 ms (0.3 ms for a typical user), 16 ms without
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

# What is new to a daemon that has learnt up to some id; always appended to, so it costs ingestion little.
Index("completed_jobs_by_id", completed_jobs.c.id, unique=True)

# Percentiles by project, 67 bytes: 30 ms over the 130,000 jobs a month of a project that everyone is in, of which
# sorting is the most; 60 ms without the included columns, for 18 bytes less.
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
    Column("state", job_state, primary_key=True, comment="jobs that ended so teach the predictors"),
    comment="Which jobs teach: the site's setting, written down by the daemon for the predictors in SQL.",
)

interrupted_runs = Table(
    "interrupted_runs",
    metadata,
    _seconds("start_time", "when this run started, epoch seconds", known=True),
    _seconds("end_time", "when it was stopped, epoch seconds", known=True),
    _seconds("walltime", "its limit, seconds; null: none"),
    _seconds("soft_walltime", "the last soft walltime that it had, seconds; null: none"),
    _seconds("runtime", "how long it ran, seconds", known=True),
    _count("exit_status", "as PBS recorded it"),
    _count("run_count", "the how manieth run it was"),
    Column("state", job_state, nullable=False, comment="how it ended, by its exit status"),
    _key_text("server", "the PBS server whose log told of it"),
    _key_text("job_id", "with the array index, as 3[1].srv"),
    _text("user_name", "whose job it was"),
    _text("project", "PBS's project"),
    _text("queue", "the queue that it ran from"),
    PrimaryKeyConstraint("job_id", "server", "start_time"),
    comment="Runs that were stopped for the job to be run again; completed_jobs has the run that completed.",
)

current_jobs = Table(
    "current_jobs",
    metadata,
    _seconds("ctime", "when it was submitted, epoch seconds", known=True),
    _seconds("qtime", "when it came into its queue, epoch seconds"),
    _seconds("etime", "when it became eligible to run, epoch seconds; null: it is not, being held for instance"),
    _seconds("start_time", "when it started, epoch seconds; null: it waits"),
    _seconds("walltime", "its limit, seconds; null: none"),
    _seconds("soft_walltime", "its soft walltime, seconds; null: none"),
    _seconds("min_walltime", "least walltime of a shrink-to-fit job, seconds; null: it is none"),
    _seconds("max_walltime", "greatest walltime of a shrink-to-fit job, seconds"),
    Column("mem", BigInteger, comment="memory requested, bytes"),
    _count("ncpus", "processors asked for"),
    _count("nodect", "chunks or nodes asked for"),
    _count("ngpus", "GPUs requested"),
    Column("interactive", Boolean, comment="whether it is an interactive job; null: not recorded"),
    Column("is_array", Boolean, nullable=False, comment="whether it is a whole array; its subjobs run, and it waits"),
    _key_text("server", "the PBS server that has it"),
    _key_text("job_id", "with the array index, as 3[1].srv"),
    _text("user_name", "whose job it is"),
    _text("group_name", "the group that it runs under"),
    _text("project", "PBS's project"),
    _text("account", "the account string given at submission"),
    _text("queue", "the queue that it is in"),
    _text("job_name", "the name given at submission"),
    _text("select_spec", "the chunks requested"),
    _text("place", "the placement requested for the chunks"),
    PrimaryKeyConstraint("job_id", "server"),
    comment="Jobs that wait or run at this moment, as far as the accounting log has been read.",
)

log_positions = Table(
    "log_positions",
    metadata,
    _key_text("server", "the PBS server that writes the log"),
    _key_text("path", "of the file"),
    Column("byte_offset", BigInteger, nullable=False, comment="bytes read, all of them whole lines"),
    Column("line_number", BigInteger, nullable=False, comment="lines read"),
    Column("head_length", Integer, nullable=False, comment="how many of the file's first bytes head_digest covers"),
    Column("head_digest", LargeBinary, nullable=False, comment="SHA-256 of those bytes: is it still the same file?"),
    Column("tail_length", Integer, nullable=False, comment="how many of the last bytes read tail_digest covers"),
    Column("tail_digest", LargeBinary, nullable=False, comment="SHA-256 of those bytes: is it still as it was read?"),
    Column(
        "updated_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="when the position last moved",
    ),
    PrimaryKeyConstraint("server", "path"),
    comment="How far each accounting log has been read; moves in the same transaction as the jobs that were read.",
)

malformed_lines = Table(
    "malformed_lines",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="the order in which they were met"),
    Column("line_number", BigInteger, nullable=False, comment="in the file, from 1"),
    Column("byte_offset", BigInteger, nullable=False, comment="of the line's first byte in the file"),
    Column(
        "seen_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="when it was first met",
    ),
    _key_text("server", "the PBS server that wrote the log"),
    _key_text("path", "of the file"),
    _key_text("reason", "why it could not be read"),
    _text("field", "the field that could not be read; empty: the line as a whole"),
    Column("line", LargeBinary, nullable=False, comment="the line as it was, its first 4096 bytes"),
    comment="Lines of accounting logs that could not be read, the newest 10,000.",
)

# The line itself belongs to the key: another file may have come to the same path.
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
    _key_text("server", "the PBS server that wrote the log"),
    Column("lines", BigInteger, nullable=False, comment="how many of its lines were dropped"),
    PrimaryKeyConstraint("server"),
    comment="How many malformed lines were dropped because newer ones came.",
)

predictions = Table(
    "predictions",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="the order in which they were recorded"),
    _seconds("predicted_at", "when the hook asked, epoch seconds", known=True),
    _seconds("walltime", "of the job at that time, seconds; null: no limit"),
    _seconds("soft_walltime", "what the policy made of the prediction, seconds; null: none"),
    Column("predicted", Double, comment="the predicted runtime before rounding and clamping, seconds"),
    _count("took", "how long the answer took, microseconds"),
    Column(
        "timeouts",
        Integer,
        nullable=False,
        server_default="0",
        comment="questions of the hook that timed out just before",
    ),
    _count("exchange_before", "how long the hook waited for the answer before this one, microseconds"),
    _text("event", "PBS's event: queuejob, postqueuejob, modifyjob or runjob"),
    _text("job_id", "of the job; empty at queuejob, where it has none yet"),
    _text("user_name", "who submitted it"),
    _text("project", "PBS's project"),
    _text("queue", "the queue at that time; empty: the default queue"),
    _text("mode", "of the policy for this job: off, shadow or on"),
    _text("predictor", "which was asked, with its options; or walltime or keep"),
    _text("action", "set: PBS was told to set it; shadow: it would have been; none"),
    _text("basis", "what the prediction rests on, or why there is none"),
    # An INSERT may leave it out: a daemon of the version before may still write while hosts are upgraded.
    Column(
        "reason",
        decision_reason,
        comment="why the decision is what it is; null: recorded by a version that did not say",
    ),
    comment="What the daemon predicted, and what was done with it.",
)

Index("predictions_by_time", predictions.c.predicted_at)
Index("predictions_by_job", predictions.c.job_id)
