"""Forecasts of starts in the store: the newest of each waiting job, and those that are kept to be judged."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from softwalltime.store.encoding import storable_text
from softwalltime.store.quality import StartQuality
from softwalltime.store.queries import query

GAP = 3600
"""Seconds between two forecasts of a job that are kept to be judged, at most; fewer before its start."""
FORGOTTEN = 86400
"""Seconds without a forecast after which those of a job that waits no more, and was not seen to start, are deleted.
They are counted until the newest end of a job that is stored."""
RAW_VALUES = 9
"""Values of a forecast before any correction; others were kept by another version, and are not used."""
SEARCHED = 30 * 86400
"""Seconds in which that is looked for; without any job that ended nothing is deleted."""


@dataclass(frozen=True, slots=True)
class StoredStart:
    """The newest forecast of a waiting job; times in epoch seconds, ``None`` where there is no forecast.

    ``raw`` is what was forecast before any correction (``RawForecast`` of the forecast).
    """

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
    raw: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class PublishedStart:
    """A forecast as it is read from the store: of which server, and when it was made (epoch seconds)."""

    start: StoredStart
    server: str
    forecast_at: int


class JudgedStart(NamedTuple):
    """A kept forecast of a job that has started since; times in epoch seconds."""

    server: str
    job_id: str
    forecast_at: int
    started: int
    raw: Sequence[float] | None


class OpenStart(NamedTuple):
    """A forecast of a job that is not known to have started (epoch seconds), and the number of forecasts of it."""

    job_id: str
    forecast_at: int
    raw: Sequence[float]
    forecasts: int


def publish_starts(
    connection: Connection, server: str, starts: Sequence[StoredStart], now: int, fresh: int
) -> frozenset[str]:
    """Replace the newest forecasts of a server's jobs, and keep some of them to be judged; return the jobs of these.

    :param now: when the forecasts were made, epoch seconds.
    :param fresh: seconds since its submission up to which a job's first forecast counts as made then.
    """
    columns = StoredStart.__dataclass_fields__
    rows = {start.job_id: {**asdict(start), "raw": _array(start.raw)} for start in starts}
    arrays = {name: [_storable(row[name]) for row in rows.values()] for name in columns}
    values = {"server": storable_text(server), "now": now}
    connection.execute(query("delete_expected"), {"server": values["server"], "job_id": arrays["job_id"]})
    connection.execute(query("set_expected"), arrays | values)
    kept = connection.execute(query("keep_starts"), values | {"fresh": fresh, "gap": GAP})
    return frozenset(kept.scalars())


def judge_starts(connection: Connection, server: str, now: int) -> list[JudgedStart]:
    """Fill in the starts of a server's jobs that became known; return the forecasts that were judged by them.

    :param now: epoch seconds.
    """
    name = storable_text(server)
    judged = [_judged(*row) for row in connection.execute(query("judge_starts"), {"server": name})]
    values = {"server": name, "now": now, "settled": FORGOTTEN, "since": now - SEARCHED}
    connection.execute(query("forget_starts"), values)
    return judged


def withdraw_starts(connection: Connection, server: str, not_before: Mapping[str, int]) -> frozenset[str]:
    """Delete forecasts that assumed that jobs may start earlier than they may; return whose they were.

    :param not_before: ids of the server's jobs that the scheduler may not start before a time (epoch seconds).
    """
    if not not_before:
        return frozenset()
    values = {"server": storable_text(server), "job_id": [*not_before], "not_before": [*not_before.values()]}
    return frozenset(connection.execute(query("withdraw_starts"), values).scalars())


def judged_starts(connection: Connection, server: str, most: int) -> list[JudgedStart]:
    """Return the last judged forecasts whose uncorrected values are stored."""
    values = {"server": storable_text(server), "most": most}
    return [_judged(*row) for row in connection.execute(query("judged_starts"), values)]


def open_starts(connection: Connection, server: str, most: int) -> list[OpenStart]:
    """Return what was forecast of a server's jobs that are not known to have started, in order of time.

    :param most: forecasts of each job, chosen evenly from the first on.
    """
    selected = connection.execute(query("open_starts"), {"server": storable_text(server), "most": most})
    rows = [(job_id, made, _usable(raw), forecasts) for job_id, made, raw, forecasts in selected]
    return [OpenStart(job_id, made, raw, forecasts) for job_id, made, raw, forecasts in rows if raw is not None]


def range_factor(starts: Iterable[StoredStart]) -> float | None:
    """Return the mean width of the 90% ranges divided by that of the uncorrected ranges; ``None``: not known."""
    width = before = 0.0
    for start in starts:
        if start.raw is not None and start.low90 is not None and start.high90 is not None:
            width += start.high90 - start.low90
            # The last four values are the ends of both ranges in ascending order.
            before += start.raw[-1] - start.raw[-4]
    return width / before if before > 0 else None


def _judged(server: str, job_id: str, made: int, started: int, raw: Sequence[float | None] | None) -> JudgedStart:
    return JudgedStart(server, job_id, made, started, _usable(raw))


def _usable(raw: Sequence[float | None] | None) -> Sequence[float] | None:
    """Return the uncorrected values of a forecast if all are stored."""
    values = [value for value in raw or () if value is not None and math.isfinite(value)]
    return values if len(values) == len(raw or ()) == RAW_VALUES else None


def read_expected(
    connection: Connection, user: str = "", group: str = "", project: str = "", queue: str = ""
) -> list[PublishedStart]:
    """Return the newest forecasts, the earliest expected starts first; an empty text selects all."""
    chosen = {"user": user, "group": group, "project": project, "queue": queue}
    rows = connection.execute(query("read_expected"), {name: storable_text(text) for name, text in chosen.items()})
    return [PublishedStart(StoredStart(*[*row[:-3], _usable(row[-3])]), *row[-2:]) for row in rows]


def start_quality(connection: Connection, server: str) -> tuple[StartQuality, ...]:
    """Return how good the forecasts of the last seven days were, by queue."""
    rows = connection.execute(query("start_quality"), {"server": storable_text(server)})
    return tuple(
        StartQuality(queue, int(count), float(wait), None if error is None else float(error), *map(float, rest))
        for queue, count, wait, error, *rest in rows
    )


def _array(values: Sequence[float] | None) -> str | None:
    """The text of an array; PostgreSQL takes no array of arrays of different lengths."""
    return None if values is None else f"{{{','.join(str(float(value)) for value in values)}}}"


def _storable(value: object) -> object:
    return storable_text(value) if isinstance(value, str) else value


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
