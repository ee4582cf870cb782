"""Waiting and running jobs, as of the last accounting record read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Text, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from softwalltime.core.jobs import (
    FIELDS,
    OF_SUBMISSION,
    UNSET,
    Alter,
    CurrentJob,
    Submission,
    submission_values,
    whole_array,
)
from softwalltime.store.completed_jobs import of_jobs, script
from softwalltime.store.connections import lock
from softwalltime.store.encoding import storable_row
from softwalltime.store.queries import query
from softwalltime.store.tables import current_jobs, job_scripts

_columns = current_jobs.columns
_submission = [_columns[field.column] for field in FIELDS[:OF_SUBMISSION] if field.name != "script"]
# In the order of CurrentJob's fields after the submission.
_progress = (
    _columns.server, _columns.start_time, _columns.qtime, _columns.etime, _columns.soft_walltime, _columns.recorded_at,
)  # fmt: skip


def delete_current(connection: Connection, gone: Collection[tuple[str, str]], before: int | None = None) -> None:
    """Delete jobs, by id and server, that no longer wait or run; unknown jobs are ignored.

    :param before: delete only jobs submitted before this time (epoch seconds); later jobs have a reused id.
    """
    _execute(connection, "delete_current", _keys(gone), before=before)


def delete_completed(connection: Connection, after: int) -> None:
    """Delete current jobs that are among the completed jobs with ids above ``after``."""
    lock(connection)
    connection.execute(query("delete_completed"), {"after": after})


def set_current(connection: Connection, there: Collection[CurrentJob], *, late: bool = False) -> None:
    """Insert or update jobs that wait or run; jobs that are known to have completed are ignored.

    Records older than a job's last change do not change it.

    :param late: later records were read before.  Only running jobs are added: a waiting job may have been deleted
        since, and deletions are not stored.
    """
    unique = {(row["job_id"], row["server"]): row for row in map(_row, there)}
    _execute(connection, "set_current", list(unique.values()), late=late)


def requeue_current(connection: Connection, jobs: Collection[tuple[str, str]]) -> None:
    """Mark jobs, by id and server, as waiting again; unknown jobs are ignored."""
    _execute(connection, "requeue_current", _keys(jobs))


def alter_current(connection: Connection, altered: Collection[Alter]) -> None:
    """Set walltimes and soft walltimes of known jobs; ``UNSET`` removes one."""
    _execute(connection, "alter_current", [storable_row(asdict(alter)) for alter in altered], unset=UNSET)


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """Jobs that were added, changed or deleted: their state, ``None`` for jobs that neither wait nor run now."""

    jobs: Mapping[tuple[str, str], CurrentJob | None]
    """By job id and server, in the order of the jobs' submissions."""
    last: int
    """Number of the last change."""


def last_change(connection: Connection) -> int:
    """Return the number of the last change of the current jobs, 0 if there was none."""
    return connection.execute(query("first_queue_change")).one().last or 0


def read_changes(connection: Connection, after: int) -> QueueChanges | None:
    """Return the jobs that changed since change ``after``; ``None`` if that change or older ones are not stored.

    The work depends on the number of changes, not of jobs.  The transaction must see one snapshot.
    """
    changed = connection.execute(query("queue_changes"), {"after": after}).all()
    stored = connection.execute(query("first_queue_change")).one()
    if not changed:
        return QueueChanges({}, after) if after <= (stored.last or 0) else None
    if stored.first > after + 1:
        return None
    keys = [(row.job_id, row.server) for row in changed]
    jobs = {(job.submission.job_id, job.server): job for job in read_current(connection, keys=keys)}
    gone = {key: None for key in keys if key not in jobs}
    return QueueChanges({**jobs, **gone}, max(row.number for row in changed))


def read_current(
    connection: Connection, since: int | None = None, keys: Sequence[tuple[str, str]] | None = None
) -> Iterator[CurrentJob]:
    """Yield the jobs that wait or run, whole arrays among them, ordered by submission time and job id.

    :param since: only jobs submitted at this time (epoch seconds) or later.
    :param keys: only jobs with these ids and servers.
    """
    source = current_jobs.outerjoin(job_scripts, of_jobs(current_jobs))
    wanted = select(*_submission, script, *_progress).select_from(source)
    # Job numbers have no leading zeros, so shorter ids are lower numbers.
    wanted = wanted.order_by(_columns.ctime, func.length(_columns.job_id), _columns.job_id)
    if since is not None:
        wanted = wanted.where(_columns.ctime >= since)
    if keys is not None:
        # Arrays: the planner knows their length and uses the primary key for few jobs.
        texts = (cast([key[place] for key in keys], ARRAY(Text)) for place in (0, 1))
        chosen = func.unnest(*texts).table_valued("job_id", "server", name="chosen").render_derived()
        wanted = wanted.where(_columns.job_id == chosen.c.job_id, _columns.server == chosen.c.server)
    for row in connection.execute(wanted):
        yield CurrentJob(Submission(*row[:OF_SUBMISSION]), *row[OF_SUBMISSION:])


def read_unknown(connection: Connection, since: int) -> list[CurrentJob]:
    """Return the jobs submitted at ``since`` (epoch seconds) or later whose script is unknown, oldest first."""
    return [
        job
        for job in read_current(connection, since)
        if not job.submission.script and whole_array(job.submission.job_id) == job.submission.job_id
    ]


def _keys(jobs: Collection[tuple[str, str]]) -> list[dict[str, Any]]:
    return [storable_row({"job_id": job_id, "server": server}) for job_id, server in jobs]


def _execute(connection: Connection, name: str, rows: list[dict[str, Any]], **values: object) -> None:
    if rows:
        lock(connection)
        arrays = {column: [row[column] for row in rows] for column in rows[0]}
        connection.execute(query(name), arrays | values)


def _row(job: CurrentJob) -> dict[str, Any]:
    submission = submission_values(job.submission)[:-1]
    values = (*submission, job.server, job.start, job.qtime, job.etime, job.soft_walltime, job.recorded_at)
    names = (column.name for column in (*_submission, *_progress))
    return storable_row({**dict(zip(names, values, strict=True)), "is_array": "[]" in job.submission.job_id})
