"""Shorter walltimes for users, simulated and printed: the work of ``softwalltime advise``."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import click

from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems, require_folder
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.cli.written import write_csv
from softwalltime.errors import SourceError, UsageError
from softwalltime.formatting import day, duration, percent, plural, printable, walltime
from softwalltime.replay.workload import Workload
from softwalltime.reports.advice import (
    FITS,
    LEAST_JOBS,
    RequestAdvice,
    UserAdvice,
    advise_users,
    measure_earlier_starts,
)
from softwalltime.reports.simulation import SimulationInput, SimulationOptions, SimulationSkipped, prepare
from softwalltime.text_table import Cell, TextColumn, TextTable

COLUMNS = (
    "user", "jobs", "requested_s", "used", "suggested_s", "requested", "suggested", "earlier_s", "earlier_low_s",
    "earlier_high_s", "message",
)  # fmt: skip
"""Columns of the mail-merge file."""


ROW_COLUMNS = ("user", *(field.name for field in fields(RequestAdvice)))
"""Columns of CSV: a row for each user and requested walltime."""
MIN_PRINTED_SHARE = 0.01
"""Least share of the walltime that is printed as a number."""
_TABLE = (
    TextColumn("requested walltime", left=True),
    TextColumn("jobs"),
    TextColumn("used"),
    TextColumn("99% end within", 1),
    TextColumn("request instead", least=24),
)


@dataclass(frozen=True, slots=True)
class AdviceWithMessage(UserAdvice):
    """A user's requests, and what to tell the user."""

    message: str = ""
    """What to tell the user."""


@dataclass(frozen=True, slots=True)
class AdviseDocument:
    """Shorter walltimes that would have been enough."""

    processors: int
    """Size of the simulated machine."""
    estimated: bool
    """Whether the size was estimated from the log."""
    jobs: int
    """Number of jobs."""
    order: str
    """Order of the queue."""
    seeds: tuple[int, ...]
    """The shaken workloads."""
    users: tuple[AdviceWithMessage, ...]
    """The advice, by user."""


def suggest_walltimes(
    user: str | None, sources: tuple[str, ...], merge: Path | None, since: int | None, until: int | None,
    processors: int | None, order: str, seeds: tuple[int, ...], simulated_jobs: int, walltimes: dict[str, int],
    output: Output, settings: LazySettings,
) -> int:  # fmt: skip
    """Suggest walltimes, to one user or to all; return the exit status."""
    if (user is None) == (merge is None):
        raise UsageError("name a USER, or write a file for all users with --mail-merge FILE")
    if merge is not None:
        require_folder(merge)
    sources = sources or (STORE,)
    columns, tally = load_columns(sources, settings, selection=JobSelection(since, until), walltimes=walltimes)
    options = SimulationOptions(processors=processors or tally.machine or None, seeds=seeds, jobs=simulated_jobs)
    prepared = prepare(Workload(columns), options)
    if isinstance(prepared, SimulationSkipped):
        raise SourceError(f"no advice: {prepared.reason}")
    advice = advise_users(prepared.jobs)
    if user is not None and user not in advice:
        raise SourceError(f"no job of {printable(user)} in {' '.join(sources)} has a runtime and a walltime")
    chosen = [
        user_advice
        for user_advice in advice.values()
        if user_advice.suggestions and (user is None or user_advice.user == user)
    ]
    with progress_bar("simulating", 2 * len(prepared.jobs) * len(seeds) if chosen else 0) as progress:
        earlier = (
            measure_earlier_starts(prepared.jobs, prepared.processors, chosen, order, seeds, progress) if chosen else {}
        )
    chosen = [replace(user_advice, earlier=earlier[user_advice.user]) for user_advice in chosen]
    if merge is not None:
        _write(merge, chosen)
    shown = chosen if user is None else [chosen[0] if chosen else advice[user]]
    if output.form == "json":
        output.document(_document(shown, prepared, seeds, order))
    elif output.form == "csv":
        rows = (
            {"user": user_advice.user, **asdict(request)} for user_advice in shown for request in user_advice.requests
        )
        output.rows(ROW_COLUMNS, rows)
    elif user is None:
        output.paragraph(f"{merge}: {plural(len(chosen), 'user')} of {len(advice):,} with a suggestion")
    else:
        _print(output, shown[0], prepared, seeds, order)
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def _print(output: Output, advice: UserAdvice, prepared: SimulationInput, seeds: Sequence[int], order: str) -> None:
    submitted = prepared.jobs.submitted
    span = f"{day(submitted[0])} to {day(submitted[-1])}"
    rows: list[list[Cell | str]] = [
        [
            walltime(request.walltime), f"{request.jobs:,}", percent(request.used, 0), duration(request.longest),
            Cell(_kept(request), "faint") if request.suggested is None else Cell(walltime(request.suggested), "good"),
        ]
        for request in sorted(advice.requests, key=lambda request: -request.jobs)
        if request.jobs >= LEAST_JOBS
    ]  # fmt: skip
    few = [request.jobs for request in advice.requests if request.jobs < LEAST_JOBS]
    if few:
        reason = Cell(f"fewer than {LEAST_JOBS} jobs each", "faint")
        rows.append([plural(len(few), "other"), f"{sum(few):,}", "", "", reason])
    output.paragraph(f"{printable(advice.user)}: {plural(advice.jobs, 'job')}, {span}")
    output.line()
    output.table(TextTable.of(_TABLE, rows))
    output.line()
    output.paragraph(_message(advice), "strong")
    if advice.suggestions:
        size = plural(prepared.processors, "processor")
        output.line()
        output.paragraph(
            f"Simulated on {size}{' (estimated)' if prepared.estimated else ''}, order {order}, EASY "
            f"backfilling, {plural(len(seeds), 'shaken workload')}.  A job that ran longer keeps its walltime.",
            "faint",
        )


def _message(advice: UserAdvice, followers: int = 1) -> str:
    """Return what to tell the user, in sentences.

    :param followers: the number of users who follow their advice in the simulation.
    """
    if not advice.suggestions:
        return "No suggestion: no walltime with enough jobs is much longer than the jobs need."
    lines = [_suggestion(suggestion) for suggestion in advice.suggestions]
    earlier = advice.earlier
    if earlier is not None and earlier.mean is not None:
        between = "" if earlier.low is None or earlier.high is None else (
            f" (95% interval {duration(earlier.low)} to {duration(earlier.high)})"
        )  # fmt: skip
        if (earlier.mean if earlier.low is None else earlier.low) > 0:
            condition = f" if all {followers:,} users with such advice had followed it" if followers > 1 else ""
            lines.append(
                f"These jobs would have started {duration(earlier.mean)} earlier in the median{between}{condition}."
            )
        elif earlier.mean == 0 and not earlier.low:
            lines.append("In the simulation these jobs would not have started earlier in the median.")
        else:
            lines.append(
                f"The simulation does not show that these jobs would have started earlier: {duration(earlier.mean)} in "
                f"the median{between}."
            )
    return " ".join(lines)


def _kept(one: RequestAdvice) -> str:
    return "keep it" if one.reason == FITS else f"keep it: {one.reason}"


def _suggestion(one: RequestAdvice) -> str:
    used = percent(one.used, 0) if one.used >= MIN_PRINTED_SHARE else f"less than {percent(MIN_PRINTED_SHARE, 0)}"
    return (
        f"You request {walltime(one.walltime)} and use {used}; 99% of these jobs ended within "
        f"{duration(one.longest)}: request {walltime(one.suggested or one.walltime)}."
    )


def _document(
    advice: Sequence[UserAdvice], prepared: SimulationInput, seeds: tuple[int, ...], order: str
) -> AdviseDocument:  # fmt: skip
    users = tuple(
        AdviceWithMessage(one.user, one.jobs, one.requests, one.earlier, message=_message(one, len(advice)))
        for one in advice
    )
    return AdviseDocument(prepared.processors, prepared.estimated, len(prepared.jobs), order, seeds, users)


def _write(path: Path, advice: Sequence[UserAdvice]) -> None:
    by_saving = sorted(advice, key=lambda one: -one.requests[0].saved)
    write_csv(path, COLUMNS, (_merge_row(one, len(advice)) for one in by_saving))


def _merge_row(one: UserAdvice, users: int) -> tuple[object, ...]:
    first, earlier = one.requests[0], one.earlier
    suggested = first.suggested or first.walltime
    seconds = (earlier.mean, earlier.low, earlier.high) if earlier is not None else (None, None, None)
    return (
        printable(one.user), one.jobs, first.walltime, f"{first.used:.3f}", suggested,
        walltime(first.walltime), walltime(suggested),
        *(None if value is None else round(value) for value in seconds), _message(one, users),
    )  # fmt: skip
