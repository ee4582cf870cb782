"""Write completed jobs and interrupted runs to the store; read completed jobs."""

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.dialects.postgresql import insert

from softwalltime.core.jobs import FIELDS, CompletedJob, Submission, Values, job_of, values_of, whole_array
from softwalltime.core.states import state_of
from softwalltime.store.connections import blockers_named, driver_connection, lock
from softwalltime.store.encoding import MAX_NAME_CHARS, NULL, CopyTexts, storable_row, storable_text
from softwalltime.store.queries import query
from softwalltime.store.tables import NEVER_STARTED, SCHEMA, completed_jobs, interrupted_runs, job_scripts

# The hook records scripts, before or after the job's end is read; no accounting record has them.
script = sa.func.coalesce(job_scripts.c.script, "").label("script")
"""The script in a query that joins :func:`of_jobs`; empty: unknown."""


def of_jobs(jobs: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition of the outer join of scripts with a table of jobs."""
    job_id = jobs.columns.job_id
    array = sa.case((job_id.contains("["), sa.func.regexp_replace(job_id, r"\[[0-9]+\]", "[]")), else_=job_id)
    return sa.and_(job_scripts.c.ctime == jobs.columns.ctime, job_scripts.c.job_id == array)


def add_scripts(connection: sa.Connection, submissions: Collection[Submission]) -> None:
    """Store the scripts of those submissions that have one and an id of at most ``MAX_NAME_CHARS`` characters."""
    scripts = {
        (of.submitted, job_id): storable_text(of.script)
        for of in submissions
        if of.script and 0 < len(job_id := storable_text(whole_array(of.job_id))) <= MAX_NAME_CHARS
    }
    if scripts:
        # Sorted, so that two writers of the same jobs do not deadlock.
        keys = sorted(scripts)
        values = {"ctime": [key[0] for key in keys], "job_id": [key[1] for key in keys]}
        connection.execute(query("add_scripts"), {**values, "script": [scripts[key] for key in keys]})


_CHUNK = 100
"""Jobs fetched at once: psycopg converts them without releasing the interpreter, which delays the hook."""

_numbers = count(1)

_columns = completed_jobs.columns
job_columns = tuple(script if field.name == "script" else _columns[field.column] for field in FIELDS)
"""Columns of a job in :data:`jobs_read`, in the order of its values."""
jobs_read = completed_jobs.outerjoin(job_scripts, of_jobs(completed_jobs))
"""Completed jobs with their scripts."""
# Columns that are written; the state is derived from the others and never read back.
_WRITTEN = (*(_columns[field.column] for field in FIELDS if field.name != "script"), _columns.state)
_NAMES = [column.name for column in _WRITTEN]
_LINE = "\t".join(["%s"] * len(_WRITTEN)) + "\n"

_COLUMNS = [field.column for field in FIELDS]
"""Columns of the values of a job."""

# Temporary staging table, from which only unknown jobs are inserted.
_incoming = sa.Table(
    "softwalltime_incoming",
    sa.MetaData(),
    *(sa.Column(column.name, column.type) for column in _WRITTEN),
    prefixes=["TEMPORARY"],
)


class PreparedJobs(NamedTuple):
    """Number of jobs, and these in COPY's text format, cheap to pass between processes."""

    number: int
    text: str


def prepare_jobs(jobs: Sequence[Values]) -> PreparedJobs:
    """Convert jobs for :func:`add_prepared_jobs`; needs no connection, so another process can do it.

    :param jobs: the values of each, within the limits of :mod:`softwalltime.accounting.pbs_records`.
    """
    texts = CopyTexts()
    return PreparedJobs(len(jobs), "".join([_line(job, texts) for job in jobs]))


def add_prepared_jobs(connection: sa.Connection, prepared: Sequence[PreparedJobs]) -> int:
    """Store those jobs that are not known yet, in the order given; return how many were stored.

    Two records describe the same run of a job if server, job id (with array index) and start are equal; the first one
    is kept.  Call it with some thousands of jobs.  Other writers wait until the caller's transaction ends.

    :raises StoreError: if PostgreSQL fails.
    """
    count = sum(jobs.number for jobs in prepared)
    return _add(connection, count, [jobs.text for jobs in prepared]) if count else 0


def read_jobs(connection: sa.Connection) -> Iterator[CompletedJob]:
    """Yield all jobs, ordered by end time, then by the order in which they were stored.

    Memory is bounded; the transaction must stay open until the end.
    """
    wanted = sa.select(*job_columns).select_from(jobs_read).order_by(_columns.end_time, _columns.id)
    yield from map(job_of, stream(connection, wanted))


def stream(connection: sa.Connection, wanted: sa.Select[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query through a server-side cursor; the transaction must stay open until the end."""
    query = wanted.compile(dialect=connection.dialect)
    # psycopg's cursor: SQLAlchemy's stays open when the connection is lost.
    with driver_connection(connection) as driver, driver.cursor(f"softwalltime_{next(_numbers)}") as cursor:
        cursor.itersize = _CHUNK
        cursor.execute(str(query), query.params)
        yield from cursor


def add_interrupted(connection: sa.Connection, runs: Sequence[CompletedJob]) -> None:
    """Store the runs that are not known yet."""
    if runs:
        lock(connection)
        connection.execute(insert(interrupted_runs).on_conflict_do_nothing(), [_interrupted(run) for run in runs])


def vacuum_analyze(engine: sa.Engine) -> None:
    """Run VACUUM ANALYZE on the completed jobs after a bulk load: some seconds for millions.

    Before it, the planner has no statistics and index-only scans read the table.  Autovacuum does the same within some
    minutes, but an embedded PostgreSQL rarely runs that long.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"VACUUM (ANALYZE) {completed_jobs.fullname}"))


def rebuild_indexes(engine: sa.Engine) -> Iterator[tuple[str, int, int]]:
    """Rebuild the indexes of jobs and predictions one by one; yield each name, and its bytes before and after.

    A user's new jobs are inserted between those of other users, which splits pages in two halves that stay half empty.
    Readers and writers continue.  It can be repeated: what an interrupted run left behind is dropped first.

    :raises StoreError: if a transaction that began earlier does not end within ``LOCK_TIMEOUT``; names its session.
    """
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, blockers_named(connection):
        for name, quoted, size, valid in connection.execute(query("large_indexes")).all():
            statement = "REINDEX INDEX CONCURRENTLY {}" if valid else "DROP INDEX CONCURRENTLY IF EXISTS {}"
            with driver_connection(connection) as driver:
                driver.execute(sql.SQL(statement).format(sql.Identifier(SCHEMA, name)))
            if valid:
                yield name, size, connection.execute(sa.select(sa.func.pg_relation_size(quoted))).scalar_one()


def _add(connection: sa.Connection, count: int, written: Sequence[str]) -> int:
    lock(connection)
    # COPY directly into the table is fastest; it fails if a job is known or occurs twice.
    try:
        with connection.begin_nested():
            copy_lines(connection, completed_jobs, _NAMES, written)
            return count
    except psycopg.errors.UniqueViolation:
        pass
    with connection.begin_nested():
        _incoming.create(connection)
        copy_lines(connection, _incoming, _NAMES, written)
        unknown = insert(completed_jobs).from_select(_NAMES, sa.select(*_incoming.columns)).on_conflict_do_nothing()
        stored = connection.execute(unknown.execution_options(preserve_rowcount=True)).rowcount
        _incoming.drop(connection)
        return stored


def copy_lines(connection: sa.Connection, table: sa.Table, names: Sequence[str], lines: Sequence[str]) -> None:
    """Insert rows in COPY's text format: the columns with these names, ``NULL`` as null string."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN (NULL {})").format(
        sql.Identifier(*filter(None, (table.schema, table.name))),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.Literal(NULL),
    )
    with driver_connection(connection) as driver, driver.cursor() as cursor, cursor.copy(statement) as copy:
        for text in lines:
            copy.write(text)


def _line(job: Values, texts: CopyTexts) -> str:
    """Return the job in COPY's text format, in the order of ``_WRITTEN``; unrolled: a loop takes twice as long."""
    (
        job_id, user, submitted, walltime, group, project, account, job_name, queue, min_walltime, max_walltime,
        ncpus, nodect, ngpus, mem, select_spec, place, interactive, _,
        server, start, end, runtime, qtime, etime, soft_walltime, exit_status, run_count, cput, mem_used,
    ) = job  # fmt: skip
    return _LINE % (
        texts[job_id], texts[user], submitted, walltime, texts[group], texts[project], texts[account], texts[job_name],
        texts[queue], min_walltime, max_walltime, ncpus, nodect, ngpus, mem, texts[select_spec], texts[place],
        interactive, texts[server], start, end, runtime, qtime, etime, soft_walltime, exit_status, run_count, cput,
        mem_used, state_of(exit_status, runtime, walltime, start),
    )  # fmt: skip


def _interrupted(run: CompletedJob) -> dict[str, object]:
    row = {**dict(zip(_COLUMNS, values_of(run), strict=True)), "state": run.state}
    row["start_time"] = NEVER_STARTED if run.start is None else run.start
    return storable_row({column.name: row[column.name] for column in interrupted_runs.columns})
