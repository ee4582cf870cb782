"""Store forecasts of starts: the newest of each waiting job, those kept for evaluation, and of jobs not submitted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from softwalltime.store.encoding import storable_row, storable_text
from softwalltime.store.quality import StartQuality
from softwalltime.store.queries import query

MAX_GAP_S = 3600
"""Maximum seconds between two forecasts of a job that are kept for evaluation; fewer shortly before its start."""
FORGOTTEN_AFTER_S = 86400
"""Seconds without a forecast after which the forecasts of a job that left the queue without a known start are deleted,
measured to the newest stored end of a job."""
RAW_VALUES = 9
"""Number of uncalibrated values of a forecast; rows with another number, of other versions, are not used."""
NEWEST_END_WINDOW_S = 30 * 86400
"""Seconds of history searched for that end; without one nothing is deleted."""


@dataclass(frozen=True, slots=True)
class StoredStart:
    """The newest forecast of a waiting job; times in epoch seconds, ``None`` where there is no forecast.

    ``raw``: values before calibration (``WaitForecast`` of the forecast).
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


class PublishedStart(NamedTuple):
    """A stored forecast with its server and time (epoch seconds)."""

    start: StoredStart
    server: str
    forecast_at: int


class JudgedStart(NamedTuple):
    """A kept forecast whose job has started; times in epoch seconds."""

    server: str
    job_id: str
    forecast_at: int
    started: int
    raw: Sequence[float] | None


class OpenStart(NamedTuple):
    """A kept forecast of a job without known start (epoch seconds), and the job's number of forecasts."""

    job_id: str
    forecast_at: int
    raw: Sequence[float]
    forecasts: int


def publish_starts(
    connection: Connection, server: str, starts: Sequence[StoredStart], now: int, fresh: int
) -> frozenset[str]:
    """Replace the newest forecasts of a server's jobs, and keep some for evaluation; return the jobs of those.

    :param now: time of the forecasts, epoch seconds.
    :param fresh: maximum seconds after submission for a job's first forecast to count as made at submission.
    """
    rows = {start.job_id: storable_row({**asdict(start), "raw": _array(start.raw)}) for start in starts}
    arrays = {name: [row[name] for row in rows.values()] for name in StoredStart.__dataclass_fields__}
    values = {"server": storable_text(server), "now": now}
    connection.execute(query("delete_expected"), {"server": values["server"], "job_id": arrays["job_id"]})
    connection.execute(query("set_expected"), arrays | values)
    kept = connection.execute(query("keep_starts"), values | {"fresh": fresh, "gap": MAX_GAP_S})
    return frozenset(kept.scalars())


def judge_starts(connection: Connection, server: str, now: int) -> list[JudgedStart]:
    """Add newly known starts to the kept forecasts of a server's jobs; return these forecasts.

    :param now: epoch seconds.
    """
    name = storable_text(server)
    judged = _judged(connection.execute(query("judge_starts"), {"server": name}))
    values = {"server": name, "now": now, "settled": FORGOTTEN_AFTER_S, "since": now - NEWEST_END_WINDOW_S}
    connection.execute(query("forget_starts"), values)
    return judged


def withdraw_starts(connection: Connection, server: str, not_before: Mapping[str, int]) -> frozenset[str]:
    """Delete forecasts that assumed starts before the earliest permitted time; return their jobs.

    :param not_before: earliest permitted start by job id (epoch seconds).
    """
    if not not_before:
        return frozenset()
    values = {"server": storable_text(server), "job_id": [*not_before], "not_before": [*not_before.values()]}
    return frozenset(connection.execute(query("withdraw_starts"), values).scalars())


def judged_starts(connection: Connection, server: str, most: int) -> list[JudgedStart]:
    """Return the last ``most`` forecasts with known starts and stored uncalibrated values."""
    values = {"server": storable_text(server), "most": most}
    return _judged(connection.execute(query("judged_starts"), values))


def open_starts(connection: Connection, server: str, most: int) -> list[OpenStart]:
    """Return the kept forecasts of a server's jobs without known start, in order of time.

    :param most: maximum forecasts of each job, evenly spaced from the first.
    """
    selected = connection.execute(query("open_starts"), {"server": storable_text(server), "most": most})
    rows = [(*start, _usable(raw), forecasts) for *start, raw, forecasts in selected]
    return [OpenStart(*row) for row in rows if row[2] is not None]


def range_factor(starts: Iterable[StoredStart]) -> float | None:
    """Return the mean width of the 90% ranges divided by that of the uncalibrated ranges; ``None``: not known."""
    width = before = 0.0
    for start in starts:
        if start.raw is not None and start.low90 is not None and start.high90 is not None:
            width += start.high90 - start.low90
            # The last four values are the ends of both ranges in ascending order.
            before += start.raw[-1] - start.raw[-4]
    return width / before if before > 0 else None


def _judged(rows: Iterable[Any]) -> list[JudgedStart]:
    return [JudgedStart(*(*start, _usable(raw))) for *start, raw in rows]


def _usable(raw: Sequence[float | None] | None) -> Sequence[float] | None:
    """Return the uncalibrated values of a forecast if all are stored."""
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
    """Return the accuracy of the forecasts of the last seven days, by queue."""
    rows = connection.execute(query("start_quality"), {"server": storable_text(server)})
    return tuple(
        StartQuality(queue, int(count), float(wait), None if error is None else float(error), *map(float, rest))
        for queue, count, wait, error, *rest in rows
    )


def _array(values: Sequence[float] | None) -> str | None:
    """Return the text of an array: PostgreSQL refuses arrays of arrays of different lengths."""
    return None if values is None else f"{{{','.join(str(float(value)) for value in values)}}}"


@dataclass(frozen=True, slots=True)
class ExpectedRuntime:
    """Predicted total runtime of a job in seconds: 5%, 50% and 95% quantiles.

    Those of a running job are conditional on its elapsed time.  ``sooner``: seconds by which a waiting job would start
    earlier with the walltime ``suggested``; ``None``: not known.
    """

    job_id: str
    shortest: int
    median: int
    longest: int
    suggested: int | None = None
    sooner: int | None = None


def publish_runtimes(connection: Connection, server: str, runtimes: Sequence[ExpectedRuntime], now: int) -> None:
    """Replace the predicted runtimes of a server's jobs.

    :param now: time of the predictions, epoch seconds.
    """
    rows = {storable_text(runtime.job_id): runtime for runtime in runtimes}
    values = {"server": storable_text(server), "job_id": list(rows)}
    connection.execute(query("delete_runtimes"), values)
    names = ("shortest", "median", "longest", "suggested", "sooner")
    columns = {name: [getattr(row, name) for row in rows.values()] for name in names}
    connection.execute(query("set_runtimes"), values | columns | {"now": now})


@dataclass(frozen=True, slots=True)
class StoredProbe:
    """Expected start of a job that is submitted at the time of the forecast, and the 90% range; all in epoch seconds.

    ``walltime`` in seconds.  ``submit_to``: names for ``qsub -q`` with which it runs in ``queue``; an empty one: none.
    """

    queue: str
    ncpus: int
    walltime: int
    submit_to: Sequence[str]
    forecast_at: int
    expected: int
    low90: int | None
    high90: int | None


def publish_probes(connection: Connection, server: str, probes: Sequence[StoredProbe]) -> None:
    """Replace the expected starts of jobs that are not submitted yet."""
    name = storable_text(server)
    connection.execute(query("delete_probes"), {"server": name})
    rows = (replace(probe, submit_to=[storable_text(queue) for queue in probe.submit_to]) for probe in probes)
    if stored := [storable_row(asdict(row)) | {"server": name} for row in rows]:
        connection.execute(query("add_probes"), stored)
