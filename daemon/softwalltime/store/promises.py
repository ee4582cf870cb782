"""Promised starts and what became of them, latest starts, and the state of the guard, in the store."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    func,
    select,
)

from softwalltime.promises import LatestStart, Outcome, Promise
from softwalltime.store.encoding import storable_text
from softwalltime.store.queries import query
from softwalltime.store.tables import enum_type, key_column, metadata, seconds_column, text_column

outcomes = enum_type("promise_outcome", [outcome.value for outcome in Outcome])

promises = Table(
    "promises",
    metadata,
    seconds_column("promised_at", "time at which the daemon saw the first promise, epoch seconds", known=True),
    seconds_column("first_start", "start promised first (estimated.start_time), epoch seconds", known=True),
    seconds_column("last_start", "start promised last, epoch seconds", known=True),
    seconds_column("start_time", "start, epoch seconds; null: not known"),
    Column("ncpus", Integer, comment="processors requested"),
    Column("outcome", outcomes, nullable=False, comment="open, kept, late or withdrawn"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id; of an array that of the whole"),
    text_column("queue", "queue"),
    PrimaryKeyConstraint("job_id", "server", "promised_at"),
    comment="Starts that the scheduler promised to its top jobs, and what became of them.",
)

Index("promises_by_time", promises.c.promised_at)
# The open ones are read at each start of the daemon.
Index("promises_open", promises.c.job_id, postgresql_where=promises.c.outcome == Outcome.OPEN.value)

latest_starts = Table(
    "latest_starts",
    metadata,
    seconds_column("set_at", "time at which the daemon set it, epoch seconds", known=True),
    seconds_column("latest_start", "latest start, epoch seconds", known=True),
    key_column("server", "PBS server"),
    key_column("job_id", "job id"),
    text_column("terms", "digest of the job's attributes; empty once they have changed"),
    PrimaryKeyConstraint("job_id", "server"),
    comment="By when waiting jobs should start: order of arrival and walltimes, and a slack.",
)

live_states = Table(
    "live_states",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="order in which they were recorded"),
    seconds_column("changed_at", "time of the change, epoch seconds", known=True),
    key_column("server", "PBS server"),
    text_column("late_job", "late job for which the guard is on; empty: it is off"),
    comment="State of the guard after each change.",
)


@dataclass(frozen=True, slots=True)
class GuardState:
    """State of the guard from ``at`` (epoch seconds) on.

    ``late_job``: the job for which the guard is on; empty: it is off.
    """

    server: str
    at: int
    late_job: str


def store_promises(connection: Connection, server: str, promises: Sequence[Promise]) -> None:
    """Insert or update promises in the order given.

    :param server: name of the PBS server; empty: the host part of each job id.
    """
    for promise in promises:
        values = {
            "job_id": storable_text(promise.job_id),
            "server": storable_text(server or host_of(promise.job_id)),
            "promised_at": promise.promised_at,
            "first_start": promise.first,
            "last_start": promise.last,
            "start_time": promise.started,
            "ncpus": promise.ncpus,
            "queue": storable_text(promise.queue),
            "outcome": promise.outcome.value,
        }
        # A process that was killed may have left another one open.
        connection.execute(query("withdraw_earlier_promises"), values)
        connection.execute(query("store_promise"), values)


def broken_since(connection: Connection, since: int) -> tuple[int, int]:
    """Return how many of the jobs that started from ``since`` (epoch seconds) on had a promise, and how many were late.

    :raises StoreError: if PostgreSQL fails.
    """
    of = promises.columns
    ended = of.outcome.in_((Outcome.KEPT.value, Outcome.LATE.value))
    late = func.count().filter(of.outcome == Outcome.LATE.value)
    wanted = select(func.count(), late).where(ended, of.start_time >= since)
    count, broken = connection.execute(wanted).one()
    return int(count), int(broken)


def open_promises(connection: Connection, server: str) -> Iterator[Promise]:
    """Yield the promises that are open as far as the store knows.

    :param server: name of the PBS server; empty: of all servers.
    """
    for row in connection.execute(query("open_promises"), {"server": server}):
        yield Promise(
            row.job_id, row.promised_at, row.first_start, row.last_start, Outcome.OPEN, None, row.queue, row.ncpus
        )


def starts_of(connection: Connection, server: str, jobs: Collection[str]) -> list[tuple[str, int]]:
    """Return the starts (epoch seconds) of those of these jobs that have completed, by job id, the oldest first."""
    values = {
        "job_ids": [storable_text(job) for job in jobs],
        "servers": [storable_text(server or host_of(job)) for job in jobs],
    }
    return [(row.job_id, row.start_time) for row in connection.execute(query("starts_of_promised"), values)]


def store_latest_starts(connection: Connection, server: str, starts: Mapping[str, LatestStart | None]) -> None:
    """Replace the latest starts of these jobs, by id, and delete those that are ``None``.

    :param server: name of the PBS server; empty: the host part of each job id.
    """
    for job_id, start in starts.items():
        key = {"job_id": storable_text(job_id), "server": storable_text(server or host_of(job_id))}
        if start is None:
            connection.execute(query("delete_latest_start"), key)
        else:
            values = {"set_at": start.set_at, "latest_start": start.latest, "terms": start.terms}
            connection.execute(query("store_latest_start"), key | values)


def known_latest_starts(connection: Connection, server: str) -> Iterator[LatestStart]:
    """Yield the latest starts of waiting jobs as far as the store knows.

    :param server: name of the PBS server; empty: of all servers.
    """
    for row in connection.execute(query("latest_starts"), {"server": server}):
        yield LatestStart(row.job_id, row.set_at, row.latest_start, row.terms)


def store_state(connection: Connection, state: GuardState) -> None:
    values = {
        "server": storable_text(state.server),
        "changed_at": state.at,
        "late_job": storable_text(state.late_job),
    }
    connection.execute(query("store_live_state"), values)


def last_late_jobs(connection: Connection) -> dict[str, str]:
    """Return the late job of the newest state of each server, by its name."""
    return {row.server: row.late_job for row in connection.execute(query("last_live_states"))}


def host_of(job_id: str) -> str:
    """Return the host part of a job id, which is the server's name.

    >>> host_of("5[].pbs1.example.org")
    'pbs1.example.org'
    """
    return job_id.partition(".")[2]
