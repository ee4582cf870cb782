"""Read the jobs from which predictors learn: the history at start-up, then new jobs."""

from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from softwalltime.core.jobs import CompletedJob, job_of
from softwalltime.core.states import TEACHING, State
from softwalltime.store.completed_jobs import job_columns, jobs_read, stream
from softwalltime.store.connections import lock
from softwalltime.store.tables import completed_jobs, job_state, teaching_states

_jobs = completed_jobs.columns
_last = (_jobs.id, _jobs.job_id, _jobs.end_time)


@dataclass(frozen=True, slots=True)
class LastJob:
    """The newest job that was read, by its id in the store; 0: none.  All jobs with ids up to it were committed."""

    id: int = 0
    job_id: str = ""
    end: int = 0


def last_id(connection: sa.Connection) -> int:
    """Return the id of the newest job, 0 if there is none; all jobs with ids up to it are committed."""
    return last_job(connection).id


def last_job(connection: sa.Connection) -> LastJob:
    """Return the newest job."""
    row = connection.execute(sa.select(*_last).order_by(_jobs.id.desc()).limit(1)).first()
    return LastJob(*row) if row else LastJob()


def is_stored(connection: sa.Connection, last: LastJob) -> bool:
    """Return whether the newest job that was read is still stored, and with it all jobs that were read before it.

    After a failover the store may lack commits that were read from the old primary, and give their ids to other jobs.
    """
    return last.id == 0 or connection.execute(sa.select(*_last).where(_jobs.id == last.id)).first() == astuple(last)


def read_history(
    connection: sa.Connection, per_user: int | None, since: int | None, now: int, teaching: Collection[State] = TEACHING
) -> Iterator[CompletedJob]:
    """Yield each user's last ``per_user`` jobs that ran, the last ``per_user`` that also had a walltime, and all jobs
    that ended at ``since`` (epoch seconds) or later, ordered by end time.

    :param per_user: ``None``: all jobs; 0: none by user.
    :param since: ``None``: none by time.
    :param now: the last jobs are those that ended by this time; later jobs are added.
    :param teaching: end states of the jobs to read.
    """
    wanted = sa.select(*job_columns).where(_teaches(teaching)).order_by(_jobs.end_time, _jobs.id)
    if per_user is not None:
        since = now + 1 if since is None else min(since, now + 1)
        # Two queries: for a combined one PostgreSQL reads all jobs, 10 s for 10,000,000.
        chosen = _chosen(per_user, since, now, _teaches(teaching))
        older = jobs_read.join(chosen, (chosen.c.end_time == _jobs.end_time) & (chosen.c.id == _jobs.id))
        yield from map(job_of, stream(connection, wanted.select_from(older)))
        wanted = wanted.where(_jobs.end_time >= since)
    yield from map(job_of, stream(connection, wanted.select_from(jobs_read)))


def last_ended_since(connection: sa.Connection, count: int, now: int) -> int:
    """Return the earliest end of the last ``count`` jobs, epoch seconds; 0 if there are no more jobs.

    :param now: the last jobs are those that ended by this time.
    """
    ends = sa.select(_jobs.end_time).where(_jobs.end_time <= now).order_by(_jobs.end_time.desc())
    since: int | None = connection.execute(ends.offset(count).limit(1)).scalar_one_or_none()
    return 0 if since is None else since + 1


def _teaches(teaching: Collection[State]) -> sa.ColumnElement[bool]:
    return _jobs.state == sa.any_(sa.cast([state.value for state in teaching], ARRAY(job_state)))


def _chosen(per_user: int, since: int, now: int, teaches: sa.ColumnElement[bool]) -> sa.Subquery:
    """Select those of each user's last jobs at ``now`` that ended before ``since``."""
    # Loose index scan: skip from user to user without reading their other jobs.
    first = sa.select(sa.func.min(_jobs.user_name).label("user_name")).where(_jobs.runtime > 0)
    users = first.cte("users", recursive=True)
    following = (
        sa.select(sa.func.min(_jobs.user_name)).where(_jobs.runtime > 0, _jobs.user_name > users.c.user_name)
    ).scalar_subquery()
    users = users.union_all(sa.select(following).where(users.c.user_name.is_not(None)))
    parts = []
    for condition in (teaches, teaches & (_jobs.walltime > 0)):
        last = (
            sa.select(_jobs.end_time, _jobs.id)
            .where(_jobs.user_name == users.c.user_name, _jobs.runtime > 0, _jobs.end_time <= now, condition)
            .order_by(_jobs.end_time.desc())
            # Include ties: predictors order jobs of the same second by columns that the index lacks.
            .fetch(sa.literal(per_user), with_ties=True)
            .lateral()
        )
        last_jobs = sa.select(last.c.end_time, last.c.id).select_from(users.join(last, sa.true()))
        parts.append(last_jobs.where(last.c.end_time < since))
    return sa.union(*parts).subquery("chosen")


def read_new(connection: sa.Connection, after: LastJob) -> Iterator[tuple[LastJob, CompletedJob]]:
    """Yield all jobs stored after this one, each with its place, in the order in which they were committed."""
    wanted = sa.select(_jobs.id, *job_columns).select_from(jobs_read).where(_jobs.id > after.id).order_by(_jobs.id)
    for number, *row in stream(connection, wanted):
        job = job_of(row)
        yield LastJob(number, job.submission.job_id, job.end), job


def set_teaching(connection: sa.Connection, states: Collection[State]) -> bool:
    """Store the job states from which the predictors in SQL learn; return whether they changed."""
    known = set(connection.execute(sa.select(teaching_states.c.state)).scalars())
    if known == set(states):
        return False
    lock(connection)
    connection.execute(sa.delete(teaching_states))
    if states:
        connection.execute(sa.insert(teaching_states), [{"state": state.value} for state in states])
    return True
