"""``softwalltime experiment``: the experiments of five papers, repeated on any trace."""

import json

import click

from softwalltime.cli.options import LazySettings, Seeds, store_options
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import load_jobs
from softwalltime.errors import UsageError
from softwalltime.experiments.papers import PAPERS, repeat
from softwalltime.experiments.study import study_of
from softwalltime.predictors.registry import make
from softwalltime.workloads.synthetic import generate

SYNTHETIC = 4000
"""Jobs of the synthetic workload that is used where no trace is named."""
PROCESSORS = 128


@click.command()
@click.argument("paper", type=click.Choice(list(PAPERS)))
@click.argument("traces", nargs=-1, metavar="[TRACE...]")
@click.option("--processors", type=click.IntRange(1), metavar="N", help="Machine size.  Default: the most in use.")
@click.option("--seeds", type=Seeds(), metavar="LIST", help="Simulate workloads shaken by weeks, one for each.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N jobs submitted.")
@click.option("--months", type=Seeds(), metavar="LIST", help="Only these months of the trace, counted from 1: 1-12.")
@click.option(
    "--predictor",
    "more",
    multiple=True,
    metavar="SPEC",
    help="One more predictor to compare, in papers that compare predictors; may be given again.",
)
@click.option("--details", is_flag=True, help="Print the long tables as well.")
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
@click.option("-j", "--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@store_options
def experiment(
    paper: str, traces: tuple[str, ...], processors: int | None, seeds: tuple[int, ...] | None, limit: int | None,
    months: tuple[int, ...] | None, more: tuple[str, ...], details: bool, form: str, processes: int | None,
    settings: LazySettings,
) -> int:  # fmt: skip
    """Repeat a paper's experiment on recorded jobs.

    A TRACE is what a SOURCE is to replay; each one is a separate workload.  Without one, a synthetic workload is
    used.  The policies, predictors and metrics are the paper's.  The output has its figures beside the results, and
    the differences from its setting below them.  With --seeds, changes have 95% confidence intervals.

    \b
    Example:
      softwalltime experiment tang2013 accounting --processors 128 --limit 2000
      softwalltime experiment tang2013 SDSC-SP2.swf.gz --processors 128 --months 1-12
      softwalltime experiment chlumsky2022 SDSC-SP2.swf.gz HPC2N.swf.gz --seeds 31-35 -j 2
      softwalltime experiment fan2017 LOGS --predictor v3 --format json
    """
    if more and not PAPERS[paper].compares:
        raise UsageError(f"{paper} compares settings of one predictor: omit --predictor")
    for spec in more:
        make(spec)
    documents = []
    status = 0
    for source in traces or ("",):
        if source:
            jobs, tally = load_jobs((source,), settings)
        else:
            jobs, tally = generate(SYNTHETIC, processors=processors or PROCESSORS), None
        study = study_of(
            source or f"synthetic workload of {SYNTHETIC:,} jobs", jobs, processors, limit, months or (), seeds or (),
            processes, settings().teaching, progress_bar,
        )  # fmt: skip
        report = repeat(paper, study, more)
        if form == "json":
            documents.append(report.document())
        else:
            click.echo(("\n" if documents else "") + report.markdown(details))
            documents.append({})
        if tally is not None:
            for line in problems(tally):
                click.echo(line, err=True)
            status = 1 if tally.broken else status
    if form == "json":
        click.echo(json.dumps({"experiments": documents}))
    return status
