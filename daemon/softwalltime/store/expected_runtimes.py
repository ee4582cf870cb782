"""Predicted runtimes of the jobs that wait and run, as of the newest forecast of starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, PrimaryKeyConstraint, Table

from softwalltime.store.encoding import storable_text
from softwalltime.store.queries import query
from softwalltime.store.tables import key_column, metadata, seconds_column

expected_runtimes = Table(
    "expected_runtimes",
    metadata,
    seconds_column("forecast_at", "time of the forecast, epoch seconds", known=True),
    seconds_column("shortest", "seconds that it will run at least with probability 0.95", known=True),
    seconds_column("median", "seconds that it will run at least with probability 0.5", known=True),
    seconds_column("longest", "seconds that it will run at least with probability 0.05", known=True),
    seconds_column("suggested", "shorter walltime for which its start was forecast too, seconds; null: none"),
    seconds_column("sooner", "seconds by which it would start earlier with that walltime"),
    key_column("server", "PBS server"),
    key_column("job_id", "job id with the array index, such as 3[1].srv"),
    PrimaryKeyConstraint("job_id", "server"),
    comment="Predicted runtime of each job that waits or runs, from its start on.",
)


@dataclass(frozen=True, slots=True)
class ExpectedRuntime:
    """How long a job will run in all, in seconds: the 5%, 50% and 95% quantiles.

    Of a running job they take into account how long it has run.  ``sooner`` is by how many seconds a waiting job would
    start earlier with the walltime ``suggested``, ``None`` where that is not known.
    """

    job_id: str
    shortest: int
    median: int
    longest: int
    suggested: int | None = None
    sooner: int | None = None


def publish_runtimes(connection: Connection, server: str, runtimes: Sequence[ExpectedRuntime], now: int) -> None:
    """Replace the predicted runtimes of a server's jobs.

    :param now: when they were predicted, epoch seconds.
    """
    rows = {storable_text(runtime.job_id): runtime for runtime in runtimes}
    values = {"server": storable_text(server), "job_id": list(rows)}
    connection.execute(query("delete_runtimes"), values)
    names = ("shortest", "median", "longest", "suggested", "sooner")
    columns = {name: [getattr(row, name) for row in rows.values()] for name in names}
    connection.execute(query("set_runtimes"), values | columns | {"now": now})
