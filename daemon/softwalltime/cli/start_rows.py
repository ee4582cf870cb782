"""Forecasts of starts as rows: their documents, and how they are printed."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from softwalltime.cli.command import Result
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import MISSING, local_time, number, plural, printable, walltime
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column

if TYPE_CHECKING:
    from softwalltime.measure.forecast.expected import ExpectedStart
    from softwalltime.store.forecast_rows import PublishedStart


@dataclass(frozen=True, slots=True)
class StartDocument:
    """The forecast of one job; times in epoch seconds, durations in seconds."""

    job: str
    """Job id, or the text of --if."""
    user: str
    """Owner of the job."""
    queue: str
    """Queue of the job."""
    ncpus: int | None
    """Number of processors."""
    walltime: int | None
    """Requested walltime."""
    state: str
    """State of the job in PBS."""
    expected: int | None
    """Expected start; null: no forecast."""
    range50: tuple[int, int] | None
    """Range that holds the start with a probability of 50%."""
    range90: tuple[int, int] | None
    """Range that holds the start with a probability of 90%."""
    waits_for: str
    """What the job waits for."""
    pbs_estimate: int | None
    """Start that PBS itself estimates."""
    runtime: int | None
    """Median of the predicted runtime; null: no prediction."""
    basis: str
    """Source of the predicted runtime."""
    group: str
    """Group of the job."""
    project: str
    """Project of the job."""
    range_factor: float | None = None
    """Width of the 90% range, divided by its width before calibration; null: not known."""

    @classmethod
    def of(cls, label: str, found: "ExpectedStart") -> "StartDocument":
        asked = found.job.submission
        return cls(
            label, asked.user, asked.queue, asked.ncpus, asked.walltime, found.job.state, found.expected,
            found.range50, found.range90, found.waits_for, found.job.estimated_start,
            None if found.runtime is None else round(found.runtime.median),
            "" if found.runtime is None else found.runtime.basis, asked.group, asked.project,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartsDocument:
    """Forecasts of the starts of waiting jobs."""

    COLUMNS: ClassVar = (
        *(field.name for field in fields(StartDocument) if field.name not in ("range50", "range90", "range_factor")),
        "range50_from", "range50_to", "range90_from", "range90_to", "range_factor",
    )  # fmt: skip

    taken: int
    """Time of the server's state, epoch seconds."""
    server: str
    """Name of the server."""
    runs: int | None
    """Number of runs for the ranges; null: not known of stored forecasts."""
    runtimes: str
    """Source of the predicted runtimes."""
    remarks: tuple[str, ...]
    """What the forecasts do not take into account."""
    jobs: tuple[StartDocument, ...]
    """The forecasts."""
    range_factor: float | None = None
    """Mean width of the 90% ranges, divided by their width before calibration; null: not known."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for job in self.jobs:
            values = asdict(job)
            for name in ("range50", "range90"):
                values[f"{name}_from"], values[f"{name}_to"] = values[name] or (None, None)
            yield values


_TABLE = (
    sentence_column("job"),
    TextColumn("user", 2, left=True, least=8),
    TextColumn("queue", 3, left=True, least=8),
    TextColumn("processors", 4),
    TextColumn("walltime", 5),
    TextColumn("expected"),
    TextColumn("50% range", 6, least=14),
    TextColumn("90% range", 1, least=14),
    sentence_column("waits for"),
)


def print_table(output: Output, rows: Sequence[StartDocument], now: int) -> None:
    """Print a table, if there are rows; ``now`` (epoch seconds) says which day is today."""
    if not rows:
        return
    lines: list[list[Cell | str]] = [
        [
            Cell(printable(row.job), "strong"),
            printable(row.user),
            printable(row.queue),
            number(row.ncpus),
            walltime(row.walltime) if row.walltime else MISSING,
            MISSING if row.expected is None else local_time(row.expected, now),
            Cell(_range(row.range50, now), "faint"),
            Cell(_range(row.range90, now), "faint"),
            printable(row.waits_for),
        ]
        for row in rows
    ]
    output.line()
    output.table(TextTable.of(_TABLE, lines))


def _range(found: tuple[int, int] | None, now: int) -> str:
    if found is None:
        return MISSING
    begin, end = (local_time(moment, now) for moment in found)
    return begin if begin == end else f"{begin} to {end}"


def matches(job_id: str, name: str) -> bool:
    """Whether a job id is meant by a name: itself, or a number, an array index and a server, the last two optional."""
    match = re.match(r"(\d+)(\[\d*\])?(?:\.(.*))?$", name)
    if job_id == name or match is None:
        return job_id == name
    asked, index, server = match.groups()
    head, _, rest = job_id.partition(".")
    bare, bracket, _ = head.partition("[")
    if bare != asked or (server and rest != server):
        return False
    return index is None or head == f"{asked}{index}" or (index == "[]" and bool(bracket))


def stored_starts(jobs: Collection[str], wanted: Mapping[str, str], settings: LazySettings) -> Result[StartsDocument]:
    """Return the forecasts of the store.

    :param wanted: user, group, project and queue; empty for all.
    :raises SourceError: if it has none.
    :raises UsageError: if no job that waits has one of the names.
    """
    from softwalltime.store.forecast_rows import read_expected
    from softwalltime.store.opening import open_store

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        every = read_expected(connection)
        selected = read_expected(connection, **wanted) if any(wanted.values()) else every
    if not every and not jobs:
        raise SourceError("the store has no forecasts of starts: no job waits, or [starts] is off (deploy/STARTS.md)")
    for name in jobs:
        if not any(matches(published.start.job_id, name) for published in every):
            raise UsageError(f"{name}: no forecast: softwalltime starts --from-store without a job lists all")
    selected = [
        published for published in selected if not jobs or any(matches(published.start.job_id, name) for name in jobs)
    ]
    taken = max((published.forecast_at for published in every), default=0)
    servers = " ".join(sorted({published.server for published in every}))
    rows = tuple(_document(published) for published in selected)
    basis = "as the daemon has learnt them"
    return Result(StartsDocument(taken, servers, None, basis, (), rows, _factor(selected)), _text)


def _text(output: Output, document: StartsDocument) -> None:
    now, factor = int(time.time()), document.range_factor
    head = f"{plural(len(document.jobs), 'waiting job')}, forecast by the daemon at {local_time(document.taken, now)}"
    judged = "" if factor is None else f"; judged forecasts make the 90% ranges {factor:.2f} times as wide"
    output.paragraph(head + judged)
    print_table(output, document.jobs, now)


def _document(found: "PublishedStart") -> StartDocument:
    start = found.start
    return StartDocument(
        start.job_id, start.user_name, start.queue, start.ncpus, start.walltime, "", start.expected,
        _ends(start.low50, start.high50), _ends(start.low90, start.high90), start.waits_for, start.pbs_estimate,
        None, "", start.group_name, start.project, _factor([found]),
    )  # fmt: skip


def _factor(found: Iterable["PublishedStart"]) -> float | None:
    from softwalltime.store.forecast_rows import range_factor

    factor = range_factor(moment.start for moment in found)
    return None if factor is None else round(factor, 3)


def _ends(begin: int | None, end: int | None) -> tuple[int, int] | None:
    return None if begin is None or end is None else (begin, end)
