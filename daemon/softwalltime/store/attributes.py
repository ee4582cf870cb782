"""Attributes of a submission that no E record has: script, submission host and dependencies.

They are kept apart from the jobs, by submission time and job id, because they come from the hook and from Q records,
before or after the record of the job's end.  Whoever reads jobs joins them.  The subjobs of an array share those of the
array: PBS knows no script of a subjob.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    case,
    func,
)

from softwalltime.jobs import ATTRIBUTES, Submission, attributes_of, merged_attributes, whole_array
from softwalltime.store.encoding import LONGEST_NAME, storable_text
from softwalltime.store.queries import query
from softwalltime.store.tables import metadata

LONGEST = 512
"""Characters of each that are kept."""
_KEYS = ("ctime", "job_id")


def _text(name: str, comment: str) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=False, server_default="", comment=comment)


submission_attributes = Table(
    "submission_attributes",
    metadata,
    Column("ctime", BigInteger, nullable=False, comment="submission time, epoch seconds"),
    Column(
        "job_id", Text(collation="C"), nullable=False, comment="job id; of a subjob that of its array, such as 3[].srv"
    ),
    _text("script", "digest of the path of the script, or of the executable; empty: unknown"),
    _text("submit_host", "host from which the job was submitted; empty: unknown"),
    _text("depend", "dependencies given at submission, such as afterok:17.srv; empty: none, or unknown"),
    PrimaryKeyConstraint(*_KEYS),
    comment="What the accounting log does not say of completed jobs, from the hook and from Q records.",
)


def attribute(name: str) -> ColumnElement[str]:
    """The column of an attribute in a query that joins :func:`of_jobs`; empty where it is unknown."""
    return func.coalesce(submission_attributes.columns[name], "").label(name)


def of_jobs(jobs: Table) -> ColumnElement[bool]:
    """The condition of the outer join with a table of jobs."""
    mine, job_id = submission_attributes.columns, jobs.columns.job_id
    array = case((job_id.contains("["), func.regexp_replace(job_id, r"\[[0-9]+\]", "[]")), else_=job_id)
    return and_(mine.ctime == jobs.columns.ctime, mine.job_id == array)


def add_attributes(connection: Connection, submissions: Collection[Submission]) -> None:
    """Store the attributes of those submissions that have an id and any; an empty one leaves what is stored.

    What jobs with ids longer than ``LONGEST_NAME`` have is left out.
    """
    rows: dict[tuple[int, str], tuple[str, ...]] = {}
    for of in submissions:
        job_id = storable_text(whole_array(of.job_id))
        if 0 < len(job_id) <= LONGEST_NAME and any(attributes := attributes_of(of)):
            key = of.submitted, job_id
            given = [storable_text(value)[:LONGEST] for value in attributes]
            rows[key] = merged_attributes(given, rows.get(key, given))
    if not rows:
        return
    # In one order, so that two writers of the same jobs do not wait for each other.
    chosen = sorted(rows)
    values: dict[str, list[Any]] = {name: [key[place] for key in chosen] for place, name in enumerate(_KEYS)}
    values |= {name: [rows[key][place] for key in chosen] for place, name in enumerate(ATTRIBUTES)}
    connection.execute(query("add_attributes"), values)
