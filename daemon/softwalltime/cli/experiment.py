"""``softwalltime experiment``: the experiments of five papers, repeated on any trace."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import LIMIT, PROCESSES, PROCESSORS, WALLTIMES, StoreOptions, numbers, predictor
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import argument, option, options
from softwalltime.cli.sources import load_columns, problems
from softwalltime.core.errors import UsageError

if TYPE_CHECKING:
    from softwalltime.measure.experiments.result_tables import ExperimentDocument, PaperResults

PAPERS = ("tang2013", "chlumsky2022", "fan2017", "rubio2021", "li2004")
"""The modules of the papers in :mod:`softwalltime.measure.experiments`; the help imports none of them."""
COLUMNS = ("paper", "source", "table", "row", "column", "value", "low", "high")
"""Columns of CSV: ``low`` and ``high`` are the ends of a 95% interval."""


@options
class ExperimentOptions:
    paper: str = argument(type=click.Choice(PAPERS))
    traces: tuple[str, ...] = argument("TRACE...", required=True, shell_complete=complete_source)
    processors: int | None = PROCESSORS
    seeds: tuple[int, ...] | None = option(
        "Simulate workloads shaken by weeks, one for each.", type=numbers, metavar="LIST"
    )
    limit: int | None = LIMIT
    months: tuple[int, ...] | None = option(
        "Only these months of the trace, counted from 1: 1-12.", type=numbers, metavar="LIST"
    )
    more: tuple[str, ...] = predictor(
        "One more predictor to compare, in papers that compare predictors; may be given again.", "--predictor"
    )
    walltimes: Mapping[str, int] = WALLTIMES
    output: Output
    processes: int | None = PROCESSES
    settings: StoreOptions


@command("a value of a table, with its interval", columns=COLUMNS)
def experiment(options: ExperimentOptions) -> Result["ExperimentDocument"]:
    """Repeat a paper's experiment on recorded jobs.

    A TRACE is the same as a SOURCE of replay; each one is a separate workload.  The policies, predictors and metrics
    are the paper's.  The output has its figures beside the results, and the differences from its setting below them.
    With --seeds, changes have 95% confidence intervals.

    \b
    Example:
      softwalltime experiment tang2013 accounting --processors 128 --limit 2000
      softwalltime experiment tang2013 SDSC-SP2.swf.gz --processors 128 --months 1-12
    """
    from softwalltime.measure.experiments.result_tables import ExperimentDocument
    from softwalltime.measure.experiments.study import study_of
    from softwalltime.predict.predictors.registry import make

    if options.more and options.paper == "tang2013":
        raise UsageError(f"{options.paper} compares settings of one predictor: omit --predictor")
    for spec in options.more:
        make(spec)
    results: list[PaperResults] = []
    remarks, status = list[str](), 0
    paper = import_module(f"softwalltime.measure.experiments.{options.paper}")
    for source in options.traces:
        recorded, tally = load_columns((source,), options.settings, walltimes=options.walltimes)
        study = study_of(
            source, recorded, options.processors or tally.machine or None, options.limit, options.months or (),
            options.seeds or (), options.processes, options.settings().teaching, progress_bar,
        )  # fmt: skip
        results.append(paper.repeat(study, options.more))
        remarks += problems(tally)
        status = 1 if tally.broken else status

    def text(output: Output, _document: ExperimentDocument) -> None:
        for number, report in enumerate(results):
            if number:
                output.line()
            for part in report.parts():
                if isinstance(part, str):
                    output.paragraph(part, "strong" if part.startswith("#") else "")
                else:
                    output.table(part)

    document = ExperimentDocument(tuple(report.document() for report in results))
    return Result(document, text, status, remarks, rows=[cell for report in results for cell in report.cells()])
