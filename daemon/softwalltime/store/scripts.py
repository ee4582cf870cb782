"""Scripts of jobs, which no accounting record has: the hook records them, before or after the job's end is read.

They are kept apart from the jobs, by submission time and job id; reading jobs joins them.  The subjobs of an array
share that of the array: PBS knows no script of a subjob.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, PrimaryKeyConstraint, Table, and_, case, func

from softwalltime.jobs import Submission, whole_array
from softwalltime.store.encoding import LONGEST_NAME, storable_text
from softwalltime.store.queries import query
from softwalltime.store.tables import key_column, metadata, seconds_column

job_scripts = Table(
    "job_scripts",
    metadata,
    seconds_column("ctime", "submission time, epoch seconds", known=True),
    key_column("job_id", "job id; of a subjob that of its array, such as 3[].srv"),
    key_column("script", "digest of the path of the script, or of the executable"),
    PrimaryKeyConstraint("ctime", "job_id"),
    comment="What completed jobs executed, as the hook says it.",
)
script = func.coalesce(job_scripts.c.script, "").label("script")
"""The script in a query that joins :func:`of_jobs`; empty: unknown."""


def of_jobs(jobs: Table) -> ColumnElement[bool]:
    """The condition of the outer join with a table of jobs."""
    job_id = jobs.columns.job_id
    array = case((job_id.contains("["), func.regexp_replace(job_id, r"\[[0-9]+\]", "[]")), else_=job_id)
    return and_(job_scripts.c.ctime == jobs.columns.ctime, job_scripts.c.job_id == array)


def add_scripts(connection: Connection, submissions: Collection[Submission]) -> None:
    """Store the scripts of those submissions that have one and an id of at most ``LONGEST_NAME`` characters."""
    scripts = {
        (of.submitted, job_id): storable_text(of.script)
        for of in submissions
        if of.script and 0 < len(job_id := storable_text(whole_array(of.job_id))) <= LONGEST_NAME
    }
    if scripts:
        # In one order, so that two writers of the same jobs do not wait for each other.
        keys = sorted(scripts)
        values = {"ctime": [key[0] for key in keys], "job_id": [key[1] for key in keys]}
        connection.execute(query("add_scripts"), {**values, "script": [scripts[key] for key in keys]})
