"""Repeat a paper's experiment: the work of ``softwalltime experiment``."""

from dataclasses import dataclass
from typing import Any

import click

from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import load_jobs
from softwalltime.errors import UsageError
from softwalltime.experiments.papers import PAPERS, repeat
from softwalltime.experiments.study import study_of
from softwalltime.experiments.tables import PaperResults
from softwalltime.predictors.registry import make
from softwalltime.workloads.synthetic import generate

SYNTHETIC = 4000
"""Jobs of the synthetic workload that is used where no trace is named."""
PROCESSORS = 128
COLUMNS = ("paper", "source", "table", "row", "column", "value", "low", "high")
"""Columns of CSV: a row for each value of each table; ``low`` and ``high`` are the ends of a 95% interval."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper, computed anew."""

    title: str
    """Its title."""
    published: str
    """What the paper has in its place."""
    rows: tuple[dict[str, Any], ...]
    """Its rows: values by column; an interval has mean, low and high."""


@dataclass(frozen=True, slots=True)
class PaperDocument:
    """A paper's experiment on one trace."""

    paper: str
    """Short name of the paper."""
    citation: str
    """The paper."""
    source: str
    """The trace."""
    jobs: int
    """Number of jobs."""
    refused: int
    """Number of jobs that are larger than the machine."""
    processors: int
    """Size of the machine."""
    settings: dict[str, Any]
    """What was simulated."""
    differences: tuple[str, ...]
    """How that differs from the paper."""
    unavailable: dict[str, str]
    """Predictors of the paper that were not run, with the reason."""
    tables: dict[str, PaperTable]
    """The tables, by name."""


@dataclass(frozen=True, slots=True)
class ExperimentDocument:
    """A paper's experiment on several traces."""

    experiments: tuple[PaperDocument, ...]
    """The experiments, one for each trace."""


def repeat_experiment(
    paper: str, traces: tuple[str, ...], processors: int | None, seeds: tuple[int, ...] | None, limit: int | None,
    months: tuple[int, ...] | None, more: tuple[str, ...], details: bool, walltimes: dict[str, int], output: Output,
    processes: int | None, settings: LazySettings,
) -> int:  # fmt: skip
    """Repeat the experiment on each trace; return the exit status."""
    if more and not PAPERS[paper].compares:
        raise UsageError(f"{paper} compares settings of one predictor: omit --predictor")
    for spec in more:
        make(spec)
    results: list[PaperResults] = []
    status = 0
    for source in traces or ("",):
        if source:
            jobs, tally = load_jobs((source,), settings, walltimes=walltimes)
            size = processors or tally.machine or None
        else:
            jobs, tally = generate(SYNTHETIC, processors=processors or PROCESSORS), None
            size = processors
        study = study_of(
            source or f"synthetic workload of {SYNTHETIC:,} jobs", jobs, size, limit, months or (), seeds or (),
            processes, settings().teaching, progress_bar,
        )  # fmt: skip
        report = repeat(paper, study, more)
        if output.form == "table":
            if results:
                output.line()
            _print(output, report, details)
        results.append(report)
        if tally is not None:
            for line in problems(tally):
                click.echo(line, err=True)
            status = 1 if tally.broken else status
    if output.form == "json":
        output.document({"experiments": [report.document() for report in results]})
    elif output.form == "csv":
        output.rows(COLUMNS, (cell for report in results for cell in report.cells()))
    return status


def _print(output: Output, report: PaperResults, details: bool) -> None:
    for part in report.parts(details):
        if isinstance(part, str):
            output.paragraph(part, "strong" if part.startswith("#") else "")
        else:
            output.table(part)
