"""Forecasts of starts in the store: the newest of each waiting job, and those that are kept to be judged."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from softwalltime.store.encoding import storable_text
from softwalltime.store.quality import StartQuality
from softwalltime.store.queries import query

GAP = 3600
"""Seconds between two forecasts of a job that are kept to be judged."""
FORGOTTEN = 86400
"""Seconds without a forecast after which those of a job that waits no more, and was not seen to start, are deleted."""


@dataclass(frozen=True, slots=True)
class StoredStart:
    """The newest forecast of a waiting job; times in epoch seconds, ``None`` where there is no forecast."""

    job_id: str
    ctime: int
    expected: int | None
    low90: int | None
    low50: int | None
    high50: int | None
    high90: int | None
    pbs_estimate: int | None
    walltime: int | None
    ncpus: int | None
    user_name: str
    group_name: str
    project: str
    queue: str
    waits_for: str


@dataclass(frozen=True, slots=True)
class PublishedStart:
    """A forecast as it is read from the store: of which server, and when it was made (epoch seconds)."""

    start: StoredStart
    server: str
    forecast_at: int


def publish_starts(
    connection: Connection, server: str, starts: Sequence[StoredStart], now: int, fresh: int, gap: int = GAP
) -> None:
    """Replace the newest forecasts of a server's jobs, and keep some of them to be judged.

    :param now: when the forecasts were made, epoch seconds.
    :param fresh: seconds since its submission up to which a job's first forecast counts as made then.
    :param gap: seconds between two forecasts of a job that are kept.
    """
    columns = StoredStart.__dataclass_fields__
    rows = {each.job_id: asdict(each) for each in starts}
    arrays = {name: [_storable(row[name]) for row in rows.values()] for name in columns}
    values = {"server": storable_text(server), "now": now}
    connection.execute(query("delete_expected"), {"server": values["server"], "job_id": arrays["job_id"]})
    connection.execute(query("set_expected"), arrays | values)
    connection.execute(query("keep_starts"), values | {"fresh": fresh, "gap": gap})


def judge_starts(connection: Connection, now: int) -> int:
    """Fill in the starts that became known; return of how many forecasts.

    :param now: epoch seconds.
    """
    judged = connection.execute(query("judge_starts")).rowcount
    connection.execute(query("forget_starts"), {"before": now - FORGOTTEN})
    return judged


def read_expected(
    connection: Connection, user: str = "", group: str = "", project: str = "", queue: str = ""
) -> list[PublishedStart]:
    """Return the newest forecasts, the earliest expected starts first; an empty text selects all."""
    chosen = {"user": user, "group": group, "project": project, "queue": queue}
    found = connection.execute(query("read_expected"), {name: storable_text(text) for name, text in chosen.items()})
    return [PublishedStart(StoredStart(*row[:-2]), *row[-2:]) for row in found]


def start_quality(connection: Connection, server: str) -> tuple[StartQuality, ...]:
    """Return how good the forecasts of the last seven days were, by queue."""
    found = connection.execute(query("start_quality"), {"server": storable_text(server)})
    return tuple(
        StartQuality(queue, int(count), float(wait), None if error is None else float(error), *map(float, rest))
        for queue, count, wait, error, *rest in found
    )


def _storable(value: object) -> object:
    return storable_text(value) if isinstance(value, str) else value
