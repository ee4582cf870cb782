"""Jobs that wait or run at this moment, as far as the log has been read."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, Text, select, text

from softwalltime.jobs import UNSET, Alter, CurrentJob, Submission
from softwalltime.store.encoding import storable_text
from softwalltime.store.locks import lock
from softwalltime.store.tables import completed_jobs, current_jobs

_columns = current_jobs.columns
_NAMES = ", ".join(column.name for column in _columns)
_ARRAYS = ", ".join(
    f"CAST(:{column.name} AS {'text' if isinstance(column.type, Text) else column.type}[])" for column in _columns
)
_KEY = ("job_id", "server")

# All rows of one statement come as one array for each column.
_GONE = "unnest(CAST(:job_id AS text[]), CAST(:server AS text[])) AS gone(job_id, server)"
_FORGET = f"""
    DELETE FROM {current_jobs.fullname} AS known USING {_GONE}
    WHERE known.job_id = gone.job_id AND known.server = gone.server
        AND (CAST(:before AS bigint) IS NULL OR known.ctime < :before)
"""  # noqa: S608 - made of our own names only
# The same number may be that of a later job by now.
_FORGET_COMPLETED = f"""
    DELETE FROM {current_jobs.fullname} AS known USING {completed_jobs.fullname} AS ended
    WHERE ended.id > :after
        AND known.job_id = ended.job_id AND known.server = ended.server AND known.ctime <= ended.ctime
"""  # noqa: S608 - made of our own names only
# A log that is read after the one in which its jobs ended must not bring them back.  They are looked up one by one, by
# the natural key: for NOT EXISTS PostgreSQL may come to read all jobs that ever ended, when some hundred are there.
_ADD = f"""
    INSERT INTO {current_jobs.fullname} ({_NAMES})
    SELECT {_NAMES}
    FROM unnest({_ARRAYS}) AS there({_NAMES})
    WHERE (
        SELECT ended.id FROM {completed_jobs.fullname} AS ended
        WHERE ended.job_id = there.job_id AND ended.server = there.server AND ended.ctime >= there.ctime LIMIT 1
    ) IS NULL
    ON CONFLICT ({", ".join(_KEY)}) DO"""  # noqa: S608 - made of our own names only
_SET = f"{_ADD} UPDATE SET " + ", ".join(
    f"{column.name} = excluded.{column.name}" for column in _columns if column.name not in _KEY
)
_SET_LATE = f"{_ADD} NOTHING"
_REQUEUE = f"""
    UPDATE {current_jobs.fullname} AS known SET start_time = NULL FROM {_GONE}
    WHERE known.job_id = gone.job_id AND known.server = gone.server
"""  # noqa: S608 - made of our own names only
_ALTER = f"""
    UPDATE {current_jobs.fullname} AS known
    SET walltime = nullif(coalesce(altered.walltime, known.walltime), :unset),
        soft_walltime = nullif(coalesce(altered.soft_walltime, known.soft_walltime), :unset)
    FROM unnest(
        CAST(:job_id AS text[]), CAST(:server AS text[]), CAST(:walltime AS bigint[]), CAST(:soft_walltime AS bigint[])
    ) AS altered(job_id, server, walltime, soft_walltime)
    WHERE known.job_id = altered.job_id AND known.server = altered.server
"""  # noqa: S608 - made of our own names only


def forget_current(connection: Connection, gone: Collection[tuple[str, str]], before: int | None = None) -> None:
    """Forget jobs, by id and server, that neither wait nor run any more; also ones that were never known.

    :param before: only those that were submitted before this time (epoch seconds): later ones have but the same number.
    """
    _execute(connection, _FORGET, _keys(gone), before=before)


def forget_completed(connection: Connection, after: int) -> None:
    """Forget the jobs that have completed, by the completed jobs that were stored after the one with this id."""
    lock(connection)
    connection.execute(text(_FORGET_COMPLETED), {"after": after})


def set_current(connection: Connection, there: Collection[CurrentJob], *, late: bool = False) -> None:
    """Take in jobs that wait or run now, or have come further; those known to have completed are passed over.

    :param late: what followed was read before.  Then what is known stays, and only jobs that run are new: had one
        completed, that would be known, but not had it been deleted while it waited.
    """
    if late:
        there = [job for job in there if job.start is not None and "[]" not in job.submission.job_id]
    rows = map(_row, there)
    unique = {(row["job_id"], row["server"]): row for row in rows}
    _execute(connection, _SET_LATE if late else _SET, list(unique.values()))


def requeue_current(connection: Connection, jobs: Collection[tuple[str, str]]) -> None:
    """Let jobs, by id and server, wait again; also ones that were never known."""
    _execute(connection, _REQUEUE, _keys(jobs))


def alter_current(connection: Connection, altered: Collection[Alter]) -> None:
    """Set walltimes and soft walltimes of jobs where they are known; ``UNSET`` takes one away."""
    rows = [
        {
            "job_id": storable_text(alter.job_id),
            "server": storable_text(alter.server),
            "walltime": alter.walltime,
            "soft_walltime": alter.soft_walltime,
        }
        for alter in altered
    ]
    _execute(connection, _ALTER, rows, unset=UNSET)


def read_current(connection: Connection) -> Iterator[CurrentJob]:
    """All jobs that wait or run now, whole arrays among them, by the time of their submission."""
    for row in connection.execute(select(*_columns).order_by(_columns.ctime, _columns.job_id)).mappings():
        submission = Submission(
            row["job_id"],
            row["user_name"],
            row["ctime"],
            row["walltime"],
            project=row["project"],
            job_name=row["job_name"],
            queue=row["queue"],
            ncpus=row["ncpus"],
            nodect=row["nodect"],
        )
        yield CurrentJob(submission, row["server"], row["start_time"], row["qtime"], row["etime"], row["soft_walltime"])


def _keys(jobs: Collection[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"job_id": storable_text(job_id), "server": storable_text(server)} for job_id, server in jobs]


def _execute(connection: Connection, statement: str, rows: list[dict[str, Any]], **values: object) -> None:
    if rows:
        lock(connection)
        connection.execute(text(statement), {name: [row[name] for row in rows] for name in rows[0]} | values)


def _row(job: CurrentJob) -> dict[str, Any]:
    of = job.submission
    return {
        "ctime": of.submitted,
        "qtime": job.qtime,
        "etime": job.etime,
        "start_time": job.start,
        "walltime": of.walltime,
        "soft_walltime": job.soft_walltime,
        "ncpus": of.ncpus,
        "nodect": of.nodect,
        "is_array": "[]" in of.job_id,
        "server": storable_text(job.server),
        "job_id": storable_text(of.job_id),
        "user_name": storable_text(of.user),
        "project": storable_text(of.project),
        "queue": storable_text(of.queue),
        "job_name": storable_text(of.job_name),
    }
