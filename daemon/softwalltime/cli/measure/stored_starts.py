"""Which forecasts of starts are wanted, and those that the daemon has stored."""

import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softwalltime.cli.measure.start_rows import StartDocument, StartsDocument, print_csv, print_table
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.errors import SourceError, UsageError
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.formatting import local_time, plural

if TYPE_CHECKING:
    from softwalltime.store.start_times import PublishedStart


@dataclass(frozen=True, slots=True)
class StartSelection:
    """Whose jobs are wanted; an empty text wants all."""

    user: str = ""
    group: str = ""
    project: str = ""
    queue: str = ""

    def jobs(self, chosen: Collection[str], snapshot: ServerSnapshot) -> frozenset[str]:
        """Return those of the chosen ids that are wanted."""
        wanted = [
            (self.user, "user"), (self.group, "group"), (self.project, "project"), (self.queue, "queue"),
        ]  # fmt: skip
        return frozenset(
            job.submission.job_id
            for job in snapshot.jobs
            if job.submission.job_id in chosen
            and all(not value or getattr(job.submission, name) == value for value, name in wanted)
        )


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


def print_stored(jobs: Collection[str], of: StartSelection, output: Output, settings: LazySettings) -> None:
    """Print the forecasts of the store.

    :raises SourceError: if it has none.
    :raises UsageError: if no job that waits has one of the names.
    """
    from softwalltime.store.opening import open_store
    from softwalltime.store.start_times import read_expected

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        every = read_expected(connection)
        selected = (
            read_expected(connection, of.user, of.group, of.project, of.queue) if of != StartSelection() else every
        )
    if not every and not jobs:
        raise SourceError("the store has no forecasts of starts: no job waits, or [starts] is off (deploy/STARTS.md)")
    for name in jobs:
        if not any(matches(published.start.job_id, name) for published in every):
            raise UsageError(f"{name}: no forecast: softwalltime starts --from-store without a job lists all")
    selected = [
        published for published in selected if not jobs or any(matches(published.start.job_id, name) for name in jobs)
    ]
    taken = max((published.forecast_at for published in every), default=0)
    rows = [_document(published) for published in selected]
    if output.form == "json":
        servers = " ".join(sorted({published.server for published in every}))
        basis = "as the daemon has learnt them"
        output.document(StartsDocument(taken, servers, None, basis, (), tuple(rows), _factor(selected)))
    elif output.form == "csv":
        print_csv(output, rows)
    else:
        now = int(time.time())
        head = f"{plural(len(rows), 'waiting job')}, forecast by the daemon at {local_time(taken, now)}"
        factor = _factor(selected)
        judged = "" if factor is None else f"; judged forecasts make the 90% ranges {factor:.2f} times as wide"
        output.paragraph(head + judged)
        print_table(output, rows, now)


def _document(found: "PublishedStart") -> StartDocument:
    start = found.start
    return StartDocument(
        start.job_id, start.user_name, start.queue, start.ncpus, start.walltime, "", start.expected,
        _range(start.low50, start.high50), _range(start.low90, start.high90), start.waits_for, start.pbs_estimate,
        None, "", start.group_name, start.project, _factor([found]),
    )  # fmt: skip


def _factor(found: Iterable["PublishedStart"]) -> float | None:
    from softwalltime.store.start_times import range_factor

    factor = range_factor(each.start for each in found)
    return None if factor is None else round(factor, 3)


def _range(begin: int | None, end: int | None) -> tuple[int, int] | None:
    return None if begin is None or end is None else (begin, end)
