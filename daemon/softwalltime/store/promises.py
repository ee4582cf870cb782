"""Store promised starts with their outcomes, latest starts, and the state of the guard."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from sqlalchemy import Connection

from softwalltime.core.promises import LatestStart, Promise
from softwalltime.store.encoding import storable_row, storable_text
from softwalltime.store.queries import query


class GuardState(NamedTuple):
    """State of the guard since ``at`` (epoch seconds).

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
        values = storable_row(
            {**asdict(promise), "server": server or host_of(promise.job_id), "outcome": promise.outcome.value}
        )
        # A killed process may have left an earlier promise open.
        connection.execute(query("withdraw_earlier_promises"), values)
        connection.execute(query("store_promise"), values)


def broken_since(connection: Connection, since: int) -> tuple[int, int]:
    """Return the number of jobs with a promise that started since ``since`` (epoch seconds), and of late ones.

    :raises StoreError: if PostgreSQL fails.
    """
    count, broken = connection.execute(query("broken_since"), {"since": since}).one()
    return int(count), int(broken)


def open_promises(connection: Connection, server: str) -> Iterator[Promise]:
    """Yield the open promises in the store.

    :param server: name of the PBS server; empty: of all servers.
    """
    for row in connection.execute(query("open_promises"), {"server": server}):
        yield Promise(**row._asdict())


def starts_of(connection: Connection, server: str, jobs: Collection[str]) -> list[tuple[str, int]]:
    """Return job id and start (epoch seconds) of those of these jobs that have completed, oldest first."""
    values = {
        "job_ids": [storable_text(job) for job in jobs],
        "servers": [storable_text(server or host_of(job)) for job in jobs],
    }
    return [(row.job_id, row.start_time) for row in connection.execute(query("starts_of_promised"), values)]


def store_latest_starts(connection: Connection, server: str, starts: Mapping[str, LatestStart | None]) -> None:
    """Replace the latest starts of these jobs, by id; delete those given as ``None``.

    :param server: name of the PBS server; empty: the host part of each job id.
    """
    for job_id, start in starts.items():
        key = storable_row({"job_id": job_id, "server": server or host_of(job_id)})
        if start is None:
            connection.execute(query("delete_latest_start"), key)
        else:
            connection.execute(query("store_latest_start"), storable_row(asdict(start)) | key)


def known_latest_starts(connection: Connection, server: str) -> Iterator[LatestStart]:
    """Yield the stored latest starts of waiting jobs.

    :param server: name of the PBS server; empty: of all servers.
    """
    for row in connection.execute(query("latest_starts"), {"server": server}):
        yield LatestStart(*row)


def store_state(connection: Connection, state: GuardState) -> None:
    connection.execute(query("store_live_state"), storable_row(state._asdict()))


def last_late_jobs(connection: Connection) -> dict[str, str]:
    """Return the late job in the newest state of each server, by server name."""
    return {row.server: row.late_job for row in connection.execute(query("last_live_states"))}


def host_of(job_id: str) -> str:
    """Return the host part of a job id, which is the server's name.

    >>> host_of("5[].pbs1.example.org")
    'pbs1.example.org'
    """
    return job_id.partition(".")[2]
