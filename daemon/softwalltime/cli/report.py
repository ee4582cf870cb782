"""``softwalltime report``: write a page that recommends for or against soft walltimes."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import (
    LIMIT,
    MINIMUM_OPTION,
    PLAN,
    PROCESSES,
    SIMULATED_JOBS,
    LimitOptions,
    PredictorOptions,
    numbers,
)
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.recommendation_output import write_plan
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.garbage import rare_collections
from softwalltime.core.written import require_folder, write_text

if TYPE_CHECKING:
    from softwalltime.reports.report_figures import ReportDocument

_PRINTED = Path("-")


@options
class ReportPageOptions:
    file: Path = option(
        "HTML page to write; - for the standard output.", "-o", "--output",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), default=Path("report.html"),
    )  # fmt: skip
    predictors: PredictorOptions
    limits: LimitOptions
    no_simulation: bool = option("Do not simulate waits; faster, but nothing can be switched on.")
    site: SiteOptions
    seeds: tuple[int, ...] = option(
        "Simulate a shaken workload for each; at least two.", type=numbers, default="31-40", metavar="LIST"
    )
    simulated_jobs: int = SIMULATED_JOBS
    processes: int | None = PROCESSES
    pseudonyms: Path | None = option(
        "Replace the names of users and projects, with the key in this file.  A missing file is created.",
        metavar="KEYFILE",
    )
    limit: int | None = LIMIT
    plan: Path | None = PLAN
    minimum: int = MINIMUM_OPTION
    output: Output
    recorded: RecordedJobs

    def check(self) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises UsageError: if options contradict each other.
        :raises SourceError: if a file cannot be written.
        """
        if len(self.seeds) < 2:
            raise click.UsageError("--seeds needs at least two: a single schedule says nothing about a policy")
        if self.file == _PRINTED and self.output.form != "table":
            raise click.UsageError(f"--format {self.output.form} prints the summary: give the page a file with -o")
        require_folder(None if self.file == _PRINTED else self.file)
        require_folder(self.plan)


@command("today, then each simulated setting")
@rare_collections()
def report(options: ReportPageOptions) -> Result["ReportDocument"]:
    """Write a page that says whether to switch soft walltimes on.

    The sources are those of "softwalltime replay".  The page shows how inaccurate the walltimes are, how accurate each
    predictor would have been, and waits that are simulated on the newest jobs with PBS's scheduling cycle.  The verdict
    is one of three: switch a policy on, do not, or the simulation cannot tell.  The page contains user names unless
    --pseudonyms replaces them.  With --write a recommended policy is also written as a plan that "softwalltime policy
    set" applies and "softwalltime verify" checks later; it has the real names in the limits and shares of --site.

    \b
    Example:
      softwalltime report accounting -o report.html
      softwalltime report accounting -o report.html --write plan.toml
      softwalltime report store --pseudonyms ~/report.key
    """
    options.check()
    from softwalltime.reports import page
    from softwalltime.reports.pseudonyms import Pseudonyms, read_key
    from softwalltime.reports.report_figures import ReportOptions, make_report
    from softwalltime.reports.simulation import SimulationOptions

    rename = None if options.pseudonyms is None else Pseudonyms(read_key(options.pseudonyms))
    workload, tally = options.recorded.workload(options.site.walltimes, options.limit)
    simulation = SimulationOptions(
        options.site.baseline(options.minimum), options.site.processors or tally.machine or None, options.seeds,
        0 if options.no_simulation else options.simulated_jobs, options.processes,
    )  # fmt: skip
    analysis = ReportOptions(options.predictors.specs, options.limits.shares, options.minimum, simulation)
    report = make_report(workload, analysis, rename or (lambda kind, name: name), progress_bar)
    # A folder name may identify a user.
    shown = () if rename else options.recorded.sources
    selected = str(options.recorded.selection.renamed(rename) if rename else options.recorded.selection)
    text = page.render(report, page.Origin(shown, tally.malformed, rename is not None, selected))
    printed = options.file == _PRINTED
    if printed:
        click.echo(text, nl=False)
    else:
        write_text(options.file, text, "backslashreplace")

    def summary(_output: Output, document: "ReportDocument") -> None:
        name = "report" if printed else options.file
        click.echo(
            f"{name}: {document.jobs:,} jobs, {document.scored:,} scored\n{document.advice.sentence}", err=printed
        )

    found, simulated = report.recommendation, report.simulation
    write = partial(write_plan, file=options.plan, found=found, simulated=simulated, err=printed)
    document = replace(report.document, page=str(options.file), selection=selected or None)
    return Result(document, summary, 1 if tally.broken else 0, problems(tally), then=write)
