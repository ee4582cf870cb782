"""What predictors have to be taught: the past when they begin, and then what is new."""

from collections.abc import Iterator

from sqlalchemy import Connection, Subquery, false, func, literal, select, true, union

from softwalltime.jobs import CompletedJob
from softwalltime.store.jobs import completed_job, job_columns, stream
from softwalltime.store.tables import completed_jobs

_jobs = completed_jobs.columns


def last_id(connection: Connection) -> int:
    """The id of the newest job, 0 if there is none; all jobs with ids up to it are committed."""
    newest: int = connection.execute(select(func.coalesce(func.max(_jobs.id), 0))).scalar_one()
    return newest


def read_history(connection: Connection, per_user: int | None, since: int | None) -> Iterator[CompletedJob]:
    """Each user's last ``per_user`` jobs that ran, the last as many that also had a walltime, and all that ended at
    ``since`` (epoch seconds) or later, in learning order.

    :param per_user: ``None`` for all jobs; 0 for none by user.
    :param since: ``None`` for none by time.
    """
    wanted = select(*job_columns).order_by(_jobs.end_time, _jobs.id)
    if per_user is not None:
        chosen = _chosen(per_user, since)
        wanted = wanted.join(chosen, (chosen.c.end_time == _jobs.end_time) & (chosen.c.id == _jobs.id))
    yield from map(completed_job, stream(connection, wanted))


def _chosen(per_user: int, since: int | None) -> Subquery:
    recent = select(_jobs.end_time, _jobs.id).where(_jobs.end_time >= since if since is not None else false())
    # Every user, by leaping from one to the next through the index: the others of a user's jobs are not looked at.
    first = select(func.min(_jobs.user_name).label("user_name")).where(_jobs.runtime > 0)
    users = first.cte("users", recursive=True)
    following = (
        select(func.min(_jobs.user_name)).where(_jobs.runtime > 0, _jobs.user_name > users.c.user_name)
    ).scalar_subquery()
    users = users.union_all(select(following).where(users.c.user_name.is_not(None)))
    parts = [recent]
    for condition in (true(), _jobs.walltime > 0):
        last = (
            select(_jobs.end_time, _jobs.id)
            .where(_jobs.user_name == users.c.user_name, _jobs.runtime > 0, condition)
            .order_by(_jobs.end_time.desc(), _jobs.id.desc())
            .limit(literal(per_user))
            .lateral()
        )
        parts.append(select(last.c.end_time, last.c.id).select_from(users.join(last, true())))
    return union(*parts).subquery("chosen")


def read_new(connection: Connection, after: int) -> Iterator[tuple[int, CompletedJob]]:
    """The jobs with ids above ``after`` in the order in which they were committed, each with its id."""
    wanted = select(_jobs.id, *job_columns).where(_jobs.id > after).order_by(_jobs.id)
    for number, *row in stream(connection, wanted):
        yield number, completed_job(row)
