"""``softwalltime report``: write a page that recommends for or against soft walltimes."""

from datetime import UTC, datetime
from pathlib import Path

import click

from softwalltime.cli.completing import complete_source
from softwalltime.cli.gc_pause import rare_collections
from softwalltime.cli.options import (
    LazySettings,
    Seeds,
    change_date_option,
    max_broken_option,
    minimum_option,
    predictors_options,
    store_options,
    write_option,
)
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.problems import problems, require_folder
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection, Period, selection_options
from softwalltime.cli.site_options import SiteOptions, site_options
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.cli.written import write_text
from softwalltime.jobs import DecisionRecord

TITLE = "Report on soft walltimes"


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="HTML page to write; - for the standard output.",
)
@predictors_options
@max_broken_option
@click.option("--no-simulation", is_flag=True, help="Do not simulate waits; faster, but nothing can be switched on.")
@site_options
@click.option(
    "--seeds",
    type=Seeds(),
    default="31-40",
    show_default=True,
    metavar="LIST",
    help="Simulate a shaken workload for each; at least two.",
)
@click.option(
    "--simulated-jobs",
    type=click.IntRange(1),
    default=50_000,
    show_default=True,
    metavar="N",
    help="Simulate the newest N jobs.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@change_date_option
@click.option(
    "--compare",
    nargs=2,
    type=Period(),
    metavar="A..B C..D",
    help="Compare waits in these two periods, such as 2026-01-01..2026-03-31 2026-04-01..2026-06-30 (UTC).",
)
@click.option("--title", default=TITLE, show_default=True, help="Title of the page.")
@click.option(
    "--pseudonyms",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="KEYFILE",
    help="Replace the names of users and projects, with the key in this file.  A missing file is created.",
)
@click.option("--pseudonymous-queues", is_flag=True, help="With --pseudonyms: also replace the names of queues.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N submitted jobs.")
@write_option
@selection_options
@minimum_option
@output_options
@store_options
@rare_collections()
def report(
    sources: tuple[str, ...], file: Path, specs: tuple[str, ...], max_broken: float,
    no_simulation: bool, site: SiteOptions, seeds: tuple[int, ...], simulated_jobs: int,
    processes: int | None, split: datetime | None, compare: tuple[tuple[int, int], tuple[int, int]] | None,
    title: str, pseudonyms: Path | None, pseudonymous_queues: bool, limit: int | None, plan: Path | None,
    minimum: int, selection: JobSelection,
    output: Output, settings: LazySettings,
) -> int:  # fmt: skip
    """Write a page that says whether to switch soft walltimes on.

    The sources are those of "softwalltime replay".  The page is one HTML file.  It shows how inaccurate the walltimes
    are, and how accurate each predictor would have been and for whom.  Waits are simulated on
    the newest jobs with PBS's scheduling cycle and 95% confidence intervals.  The verdict is one of three: switch a
    policy on, do not, or the simulation cannot tell, because it does not reproduce the recorded waits.  The page
    contains user names unless --pseudonyms replaces them.  With --write a recommended policy is also written as a plan
    that "softwalltime policy set" applies and "softwalltime verify" checks later.

    \b
    Example:
      softwalltime report accounting -o report.html
      softwalltime report accounting -o report.html --write plan.toml
      softwalltime report /var/spool/pbs/server_priv/accounting -o report.html
      softwalltime report store --pseudonyms ~/report.key --change-date 2026-10-01
      softwalltime report store --queue batch --compare 2026-01-01..2026-03-31 2026-04-01..2026-06-30
    """
    if pseudonymous_queues and pseudonyms is None:
        raise click.UsageError("--pseudonymous-queues needs --pseudonyms KEYFILE")
    if len(seeds) < 2:
        raise click.UsageError("--seeds needs at least two: a single schedule says nothing about a policy")
    if compare is not None and split is not None:
        raise click.UsageError("--compare and --change-date both name the periods to compare: give one of them")
    if compare is not None and compare[0][1] > compare[1][0]:
        raise click.UsageError("--compare: the first period must end before the second one begins")
    # Fail before minutes of work.
    printed = file == Path("-")
    if printed and output.form != "table":
        raise click.UsageError(f"--format {output.form} prints the summary: give the page a file with -o")
    for written in (None if printed else file, plan):
        if written is not None:
            require_folder(written)

    # matplotlib and jinja2 take long to import, and no other command needs them.
    from softwalltime.cli.advice import write_plan
    from softwalltime.cli.report_summary import COLUMNS, summary_of, summary_rows
    from softwalltime.replay.workload import Workload
    from softwalltime.reports import page
    from softwalltime.reports import report as reports
    from softwalltime.reports.pseudonyms import Pseudonyms, read_key
    from softwalltime.reports.simulation import SimulationOptions

    rename = Pseudonyms(read_key(pseudonyms), queues=pseudonymous_queues) if pseudonyms is not None else None
    jobs, tally = load_columns(sources, settings, selection=selection, walltimes=site.walltimes)
    decisions = _decisions(settings) if STORE in sources else []
    workload = Workload(jobs, limit)
    options = reports.ReportOptions(
        specs, max_broken / 100, minimum,
        int(split.replace(tzinfo=UTC).timestamp()) if split else None,
        None if no_simulation else SimulationOptions(
            site.baseline(minimum), site.processors or tally.machine or None, seeds, simulated_jobs, processes
        ), compare,
    )  # fmt: skip
    with progress_bar("analyzing", reports.total_work(options, len(workload.jobs))) as progress:
        found = reports.make_report(workload, options, rename or (lambda kind, name: name), decisions, progress)
    # A folder name may identify a user.
    shown = () if rename else sources
    selected = str(selection.renamed(rename) if rename else selection)
    text = page.render(found, page.Origin(title, shown, tally.malformed, rename is not None, selected))
    if printed:
        click.echo(text, nl=False)
    else:
        write_text(file, text, "backslashreplace")
    if output.form == "json":
        output.document(summary_of(found, str(file), selected))
    elif output.form == "csv":
        output.rows(COLUMNS, summary_rows(summary_of(found, str(file), selected)))
    else:
        name = "report" if printed else file
        summary = f"{name}: {len(workload.jobs):,} jobs, {found.scored:,} scored\n{found.recommendation.sentence}"
        click.echo(summary, err=printed)
    if plan is not None:
        click.echo(write_plan(plan, found.recommendation, found.simulation), err=printed or output.form != "table")
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def _decisions(settings: LazySettings) -> list[DecisionRecord]:
    from softwalltime.store.opening import open_store
    from softwalltime.store.predictions import read_decisions

    with open_store(settings(), create=False) as engine, engine.connect() as connection:
        return list(read_decisions(connection))
