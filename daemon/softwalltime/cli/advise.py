"""``softwalltime advise``: tell users which walltime would have been enough."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import STORE, complete_source
from softwalltime.cli.options import PROCESSORS, SIMULATED_JOBS, SITE_ORDER, WALLTIMES, StoreOptions, numbers
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.selection import SINCE, UNTIL, JobSelection
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import day, duration, percent, plural, printable, walltime
from softwalltime.core.shorter_walltimes import FITS, MIN_JOBS
from softwalltime.core.text_table import Cell, TextColumn, TextTable
from softwalltime.core.written import require_folder, write_csv

if TYPE_CHECKING:
    from softwalltime.reports.user_advice import AdviseDocument, RequestAdvice


@options
class AdviseOptions:
    user: str | None = argument()
    logs: tuple[str, ...] = option(
        "A log, folder or trace; repeatable.  Default: the store, which must exist.", "--log", metavar="SOURCE",
        shell_complete=complete_source,
    )  # fmt: skip
    merge: Path | None = option("Write a CSV file with a line for each user who requests too much.", "--mail-merge")
    since: int | None = SINCE
    until: int | None = UNTIL
    processors: int | None = PROCESSORS
    order: str = SITE_ORDER
    seeds: tuple[int, ...] = option("A shaken workload for each.", type=numbers, default="31-35", metavar="LIST")
    simulated_jobs: int = SIMULATED_JOBS
    walltimes: Mapping[str, int] = WALLTIMES
    output: Output
    settings: StoreOptions


@command("a user and requested walltime")
def advise(options: AdviseOptions) -> Result["AdviseDocument"]:
    """Suggest shorter walltimes to a user.

    For each walltime that USER requests, the command suggests a shorter one that would have been enough for the user's
    jobs, also for the newer half that it was not made from, and simulates how much earlier they would have started.
    With --mail-merge it does the same for all users, who all follow their advice, and writes a CSV file.

    \b
    Example:
      softwalltime advise user069 --log accounting
      softwalltime advise alice --log /var/spool/pbs/server_priv/accounting
      softwalltime advise --mail-merge advice.csv --log KTH-SP2.swf.gz --processors 100
    """
    from softwalltime.reports.simulation import SimulationOptions, SimulationSkipped, prepare
    from softwalltime.reports.user_advice import (
        MERGED,
        AdviseDocument,
        advise_users,
        measure_earlier_starts,
        merged,
        with_messages,
    )

    user, seeds = options.user, options.seeds
    if (user is None) == (options.merge is None):
        raise UsageError("name a USER, or write a file for all users with --mail-merge FILE")
    if user is not None and "/" in user and not options.logs and Path(user).exists():
        raise UsageError(f"{printable(user)} is not a user: give a log as --log {printable(user)}, and name a USER")
    require_folder(options.merge)
    sources, selection = options.logs or (STORE,), JobSelection(since=options.since, until=options.until)
    recorded = RecordedJobs(sources=sources, selection=selection, settings=options.settings)
    workload, tally = recorded.workload(options.walltimes)
    processors = options.processors or tally.machine or None
    prepared = prepare(workload, SimulationOptions(processors=processors, seeds=seeds, jobs=options.simulated_jobs))
    if isinstance(prepared, SimulationSkipped):
        raise SourceError(f"no advice: {prepared.reason}")
    advice = advise_users(prepared.jobs)
    if user is not None and user not in advice:
        raise SourceError(f"no job of {printable(user)} in {' '.join(sources)} has a runtime and a walltime")
    chosen = [item for item in advice.values() if item.suggestions and (user is None or item.user == user)]
    if chosen:
        with progress_bar("simulating", 2 * len(prepared.jobs) * len(seeds)) as progress:
            earlier = measure_earlier_starts(prepared.jobs, prepared.processors, chosen, options.order, seeds, progress)
        chosen = [replace(item, earlier=earlier[item.user]) for item in chosen]
    shown = with_messages(chosen if user is None else [chosen[0] if chosen else advice[user]])
    if options.merge is not None:
        write_csv(options.merge, MERGED, merged(shown))
    document = AdviseDocument(prepared.processors, prepared.estimated, len(prepared.jobs), options.order, seeds, shown)
    submitted = prepared.jobs.submitted
    text = partial(_text, merge=options.merge, of=len(advice), since=submitted[0], until=submitted[-1])
    return Result(document, text, 1 if tally.broken else 0, problems(tally))


def _text(output: Output, document: "AdviseDocument", merge: Path | None, of: int, since: int, until: int) -> None:
    if merge is not None:
        output.paragraph(f"{merge}: {plural(len(document.users), 'user')} of {of:,} with a suggestion")
        return
    (advice,) = document.users
    columns: dict[TextColumn, Callable[[RequestAdvice], Cell | str]] = {
        TextColumn("requested walltime", left=True): lambda request: walltime(request.walltime),
        TextColumn("jobs"): lambda request: f"{request.jobs:,}",
        TextColumn("used"): lambda request: percent(request.used, 0),
        TextColumn("99% end within", 1): lambda request: duration(request.longest),
        TextColumn("request instead", least=24): _suggestion,
    }
    requests = sorted(advice.requests, key=lambda request: -request.jobs)
    output.paragraph(f"{printable(advice.user)}: {plural(advice.jobs, 'job')}, {day(since)} to {day(until)}")
    output.section(TextTable.by_column((one for one in requests if one.jobs >= MIN_JOBS), columns))
    if few := [request.jobs for request in requests if request.jobs < MIN_JOBS]:
        output.paragraph(f"and {plural(len(few), 'other')} with fewer than {MIN_JOBS} jobs each", "faint")
    output.line()
    output.paragraph(advice.message, "strong")
    if advice.suggestions:
        size = f"{plural(document.processors, 'processor')}{' (estimated)' if document.estimated else ''}"
        workloads = plural(len(document.seeds), "shaken workload")
        text = f"Simulated on {size}, order {document.order}, EASY backfilling, {workloads}."
        output.line()
        output.paragraph(f"{text}  A job that ran longer keeps its walltime.", "faint")


def _suggestion(item: "RequestAdvice") -> Cell:
    if item.suggested is not None:
        return Cell(walltime(item.suggested), "good")
    return Cell("keep it" if item.reason == FITS else f"keep it: {item.reason}", "faint")
