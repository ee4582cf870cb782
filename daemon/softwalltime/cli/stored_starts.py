"""The forecasts of starts that the daemon has stored: ``softwalltime starts --from-store``."""

import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.start_rows import StartDocument, StartsDocument, matches, print_table
from softwalltime.errors import SourceError, UsageError
from softwalltime.formatting import local_time, plural

if TYPE_CHECKING:
    from softwalltime.store.start_times import PublishedStart


def stored_starts(jobs: Collection[str], wanted: Mapping[str, str], settings: LazySettings) -> Result[StartsDocument]:
    """Return the forecasts of the store.

    :param wanted: user, group, project and queue; empty for all.
    :raises SourceError: if it has none.
    :raises UsageError: if no job that waits has one of the names.
    """
    from softwalltime.store.opening import open_store
    from softwalltime.store.start_times import read_expected

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
        _range(start.low50, start.high50), _range(start.low90, start.high90), start.waits_for, start.pbs_estimate,
        None, "", start.group_name, start.project, _factor([found]),
    )  # fmt: skip


def _factor(found: Iterable["PublishedStart"]) -> float | None:
    from softwalltime.store.start_times import range_factor

    factor = range_factor(each.start for each in found)
    return None if factor is None else round(factor, 3)


def _range(begin: int | None, end: int | None) -> tuple[int, int] | None:
    return None if begin is None or end is None else (begin, end)
