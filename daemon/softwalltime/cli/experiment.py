"""``softwalltime experiment``: the experiments of five papers, repeated on any trace."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
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
    from softwalltime.measure.experiments.plan import PlannedRun
    from softwalltime.measure.experiments.result_tables import ExperimentDocument, PaperResults

PAPERS = ("tang2013", "chlumsky2022", "fan2017", "rubio2021", "li2004")
"""The modules of the papers in :mod:`softwalltime.measure.experiments`; the help imports none of them."""
ALL = "all"
COLUMNS = ("paper", "source", "table", "row", "column", "value", "low", "high")
"""Columns of CSV: ``low`` and ``high`` are the ends of a 95% interval."""


@options
class ExperimentOptions:
    paper: str = argument(type=click.Choice((*PAPERS, ALL)))
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
    are the paper's.  The output begins with the paper's claims and whether they hold.  It has the paper's figures
    beside the results, and the differences from its setting below them.  With --seeds, changes have 95% confidence
    intervals.

    The paper all repeats every paper on the public logs in a folder of traces, in half an hour.

    \b
    Example:
      softwalltime experiment tang2013 accounting --processors 128 --limit 2000
      softwalltime experiment tang2013 SDSC-SP2.swf.gz --processors 128 --months 1-12
      softwalltime experiment all TRACES > RESULTS.md
    """
    from softwalltime.measure.experiments.papers import paper_text
    from softwalltime.measure.experiments.plan import INTRODUCTION, PlannedRun
    from softwalltime.measure.experiments.result_tables import ExperimentDocument, verdict_cells, verdict_table
    from softwalltime.measure.experiments.study import study_of
    from softwalltime.predict.predictors.registry import make

    if options.more and options.paper in ("tang2013", ALL):
        raise UsageError(f"{options.paper} does not compare further predictors: omit --predictor")
    if options.paper == ALL and (options.processors or options.months or options.seeds):
        raise UsageError(f"{ALL} has its own settings: omit --processors, --months and --seeds")
    for spec in options.more:
        make(spec)
    results: dict[str, list[PaperResults]] = {}
    remarks, status = list[str](), 0
    settings = None, options.limit, options.months or (), options.seeds or ()
    given = ((PlannedRun(options.paper, trace, *settings), trace, options.processors) for trace in options.traces)
    for run, path, processors in _planned(options, remarks) if options.paper == ALL else given:
        recorded, tally = load_columns((path,), options.settings, walltimes=options.walltimes)
        study = study_of(
            run.source, recorded, processors or tally.machine or None, run.limit, run.months, run.seeds,
            options.processes, options.settings().teaching, progress_bar,
        )  # fmt: skip
        module = import_module(f"softwalltime.measure.experiments.{run.paper}")
        results.setdefault(run.paper, []).append(module.repeat(study, options.more))
        remarks += problems(tally)
        status = 1 if tally.broken else status
    claims = [claim.verdict(paper, found) for paper, found in results.items() for claim in paper_text(paper).claims]
    reports = [report for found in results.values() for report in found]

    def text(output: Output, _document: ExperimentDocument) -> None:
        if options.paper == ALL:
            output.line(f"<!-- Written by: softwalltime experiment {ALL} TRACES -->\n{INTRODUCTION}")
        output.table(verdict_table(claims))
        for report in reports:
            output.line()
            for part in report.parts():
                if isinstance(part, str):
                    output.paragraph(part, "strong" if part.startswith("#") else "")
                else:
                    output.table(part)

    document = ExperimentDocument(tuple(claims), tuple(report.document() for report in reports))
    rows = [*verdict_cells(claims), *(cell for report in reports for cell in report.cells())]
    return Result(document, text, status, remarks, rows=rows)


def _planned(options: ExperimentOptions, remarks: list[str]) -> "Iterator[tuple[PlannedRun, str, int | None]]":
    """Yield the runs of all papers on the logs that are there; remark on the others."""
    from softwalltime.measure.benchmark.cards import cards, named_logs
    from softwalltime.measure.experiments.plan import PLAN

    there = {log.name: str(log.path) for log in named_logs([Path(trace).absolute() for trace in options.traces])}
    known = {card.name: card for card in cards()}
    missing = {run.log: known[run.log].source for run in PLAN if run.log not in there}
    remarks += [f"{log} is missing: get it from {source}" for log, source in missing.items()]
    if not any(run.log in there for run in PLAN):
        raise UsageError(f"no log of the experiments is there; {'; '.join(remarks)}")
    for run in PLAN:
        if run.log in there:
            limit = min((limit for limit in (run.limit, options.limit) if limit), default=None)
            yield run._replace(limit=limit), there[run.log], run.processors or known[run.log].processors
