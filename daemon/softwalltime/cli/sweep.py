"""``softwalltime sweep``: measure a grid of predictors on several workloads, and save the results."""

import glob
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import (
    MINIMUM_OPTION,
    PROCESSES,
    SOURCES,
    StoreOptions,
    named_specs,
    predictor,
    predictors,
)
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SourceError, UsageError
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column

if TYPE_CHECKING:
    from softwalltime.replay.sweep.evaluation import SweepFailure, SweepTask
    from softwalltime.replay.sweep.results import Results
    from softwalltime.replay.sweep.workers import Workers

GRID = (
    "v1", "v2", "v3", "v4",
    "percentile:keys=user|project|user+project|user+project+walltime,p=75|85|95,window=7d|30d|90d",
)  # fmt: skip
"""The published predictors, ``percentile`` with the options that Tang et al. (2013) vary."""
SHOWN = 10
"""Number of failures to print."""
BEST = 5
"""Predictors of each source to print."""
_TABLE = (
    sentence_column("predictor"),
    TextColumn("accuracy"),
    TextColumn("after warm-up", 1),
    TextColumn("under"),
    TextColumn("mean abs. error"),
)
ResultRow = Mapping[str, str]
"""A row of the results, as texts by column."""


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """What a sweep has computed; the figures are in the file."""

    file: str
    """The file of the results."""
    rows: int
    """Number of rows in the file."""
    new: int
    """Number of rows that this run added."""
    failed: int
    """Number of predictors that failed."""
    best: dict[str, list[ResultRow]]
    """The most accurate predictors of each source, as rows of the file; texts as there."""


@options
class SweepOptions:
    sources: tuple[str, ...] = SOURCES
    file: Path = option("CSV file for the results.", "-o", "--output", metavar="FILE")
    listed: str | None = predictors("Predictors or grids, separated by commas.")
    single: tuple[str, ...] = predictor("One predictor or grid; repeatable.")
    processes: int | None = PROCESSES
    scheduler: str | None = option(
        "Run on a Dask cluster: address of its scheduler, such as tcp://host:8786.", metavar="ADDRESS"
    )
    again: bool = option("Discard the results in the file.", "--discard")
    selection: JobSelection
    minimum: int = MINIMUM_OPTION
    output: Output
    settings: StoreOptions


@command("a source and predictor, with the columns of the results' file", columns=())
def sweep(options: SweepOptions) -> Result[SweepDocument]:
    """Measure a grid of predictors on recorded jobs.

    A SOURCE is the same as for replay, but each source is a separate workload.  The results have a row for each
    source and predictor, with every option in a column.  In a SPEC "|" separates alternatives; all combinations are
    tried.

    At the end the most accurate predictors of each source are printed.

    Results are saved as they are computed.  After an interruption the same command continues.  New sources and
    predictors add rows.  A source whose jobs have changed is computed again.

    \b
    Example:
      softwalltime sweep accounting -o results.csv
      softwalltime sweep KTH-SP2.swf.gz SDSC-SP2.swf.gz -o results.csv
      softwalltime sweep LOGS -o results.csv --predictor 'percentile:p=75|85|95,keys=user|project'
    """
    # Check workers and output before minutes of reading.
    from softwalltime.predictors.registry import BASELINE
    from softwalltime.replay.sweep.grid import expand_all
    from softwalltime.replay.sweep.results import Results
    from softwalltime.replay.sweep.workers import dask_workers, local_workers

    file, output = options.file, options.output
    specs = expand_all([BASELINE, *(named_specs(options.listed, options.single) or GRID)])
    if file.suffix != ".csv":
        raise UsageError(f"{file}: the file name must end in .csv")
    if options.processes is not None and options.scheduler is not None:
        raise UsageError(
            "--processes sets the processes on this host; with --scheduler the workers of the cluster run the sweep"
        )

    def say(text: str) -> None:
        if output.form == "table":
            output.paragraph(text)

    with ExitStack() as stack:
        workers = (
            stack.enter_context(dask_workers(options.scheduler))
            if options.scheduler
            else local_workers(options.processes)
        )
        results = stack.enter_context(Results(file, again=options.again))
        folder = stack.enter_context(_scratch(file))
        tasks, whole = _tasks(options, specs, folder)
        todo, dropped = results.prepare(tasks, _option_names(specs))
        if dropped:
            say(f"{file}: {dropped:,} outdated rows removed")
        say(f"{file}: {len(todo):,} of {len(tasks):,} rows to do, by {workers.words}")
        failures: list[SweepFailure] = []
        begin = len(results)
        try:
            _do(workers, todo, results, failures)
        finally:
            new = len(results) - begin
            say(f"{file}: {len(results):,} rows, {new:,} of them new")
            for line in _failure_lines(failures):
                click.echo(line, err=True)
    document = SweepDocument(str(file), len(results), new, len(failures), best_rows(results.rows, BEST))
    text = partial(_text, rows=results.rows)
    return Result(document, text, 0 if whole and not failures else 1, rows=results.rows)


def _option_names(specs: list[str]) -> list[str]:
    """Return the options of all predictors, without duplicates."""
    from softwalltime.predictors.registry import make

    return list(dict.fromkeys(option for spec in specs for option in type(make(spec).options).model_fields))


@contextmanager
def _scratch(table: Path) -> Iterator[Path]:
    """Create a folder for the jobs beside the results, which the workers of a cluster can read."""
    parent, prefix = table.parent.absolute(), f".{table.name}.jobs-"
    try:
        # The results are locked, so the process that left such a folder was killed.
        for left in parent.glob(f"{glob.escape(prefix)}*"):
            shutil.rmtree(left)
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error
    with folder as name:
        yield Path(name)


def _tasks(options: SweepOptions, specs: list[str], folder: Path) -> tuple[list["SweepTask"], bool]:
    """Return a task for each predictor on each source, and whether all sources could be read to their end."""
    from softwalltime.replay.sweep.evaluation import SweepTask
    from softwalltime.replay.sweep.snapshot import take

    teaching = options.settings().teaching
    tasks: list[SweepTask] = []
    whole = True
    for number, source in enumerate(dict.fromkeys(options.sources)):
        jobs, tally = load_columns((source,), options.settings, selection=options.selection)
        snapshot = take(jobs, teaching, folder / f"{number}.json")
        tasks.extend(SweepTask(source, snapshot, spec, options.minimum) for spec in specs)
        for line in problems(tally):
            click.echo(line, err=True)
        whole = whole and not tally.broken
    return tasks, whole


def _do(workers: "Workers", tasks: list["SweepTask"], results: "Results", failures: list["SweepFailure"]) -> None:
    """Run the tasks; add each result and failure as it is computed, so an interruption loses none."""
    from softwalltime.replay.sweep.evaluation import SweepRow, evaluate

    total = sum(task.snapshot.jobs for task in tasks)
    with closing(workers.do(evaluate, tasks)) as outcomes, progress_bar("sweeping", total) as progress:
        for outcome in outcomes:
            if isinstance(outcome, SweepRow):
                results.add(outcome)
            else:
                failures.append(outcome)
            progress(outcome.task.snapshot.jobs)


def _failure_lines(failures: list["SweepFailure"]) -> Iterator[str]:
    """Return one line for each failure, and the number of the rest."""
    yield from map(str, failures[:SHOWN])
    if len(failures) > SHOWN:
        yield f"... and {len(failures) - SHOWN:,} more predictors that failed"


def best_rows(rows: Sequence[ResultRow], count: int) -> dict[str, list[ResultRow]]:
    """Return the most accurate predictors of each source, without the baseline."""
    from softwalltime.predictors.registry import BASELINE

    scored: dict[str, list[ResultRow]] = {}
    for row in rows:
        if row["accuracy_mean"] and row["predictor"] != BASELINE:
            scored.setdefault(row["source"], []).append(row)
    return {
        source: sorted(scores, key=lambda row: -float(row["accuracy_mean"]))[:count]
        for source, scores in scored.items()
    }


def _text(output: Output, document: SweepDocument, rows: Sequence[ResultRow]) -> None:
    """Print the most accurate predictors of each source, and the baseline."""
    from softwalltime.predictors.registry import BASELINE

    for source, best in document.best.items():
        baseline = [row for row in rows if row["source"] == source and row["predictor"] == BASELINE]
        greatest = float(best[0]["accuracy_mean"])
        output.line()
        output.paragraph(f"{source}: the most accurate predictors, and the walltimes ({BASELINE})")
        output.line()
        output.table(TextTable.of(_TABLE, [_cells(row, greatest) for row in (*best, *baseline)]))


def _cells(row: ResultRow, greatest: float) -> list[Cell | str]:
    from softwalltime.reports.table import accuracy_cell, underestimated_cell

    accuracy, warmed_up, under, error = (
        float(row[name]) if row[name] else None
        for name in ("accuracy_mean", "after_warm_up_accuracy_mean", "underestimated", "mean_absolute_error")
    )
    return [
        Cell(row["predictor"], "strong"),
        accuracy_cell(accuracy, greatest),
        accuracy_cell(warmed_up, 0.0),
        underestimated_cell(under),
        "-" if error is None else f"{error:.0f} s",
    ]
