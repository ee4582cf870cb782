"""``softwalltime sweep``: measure a grid of predictors on several workloads, and save the results."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import (
    KEEP,
    MINIMUM_OPTION,
    PROCESSES,
    SOURCES,
    StoreOptions,
    named_specs,
    predictor,
    predictors,
)
from softwalltime.cli.output import Output, csv_value, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns, problems
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.core.written import require_folder, write_csv

if TYPE_CHECKING:
    from softwalltime.measure.replay.sweep.trials import Trial, TrialTask

GRID = (
    "v1", "v2", "v3", "v4",
    "percentile:keys=user|project|user+project|user+project+walltime,p=75|85|95,window=7d|30d|90d",
)  # fmt: skip
"""The published predictors, ``percentile`` with the options that Tang et al. (2013) vary."""
MAX_SHOWN_FAILURES = 10
"""Number of failures to print."""
MAX_SHOWN_PREDICTORS = 5
"""Predictors of each source to print."""
_TABLE = (
    sentence_column("predictor"),
    TextColumn("accuracy"),
    TextColumn("after warm-up", 1),
    TextColumn("under"),
    TextColumn("mean abs. error"),
)
OPTION = "option_"
"""Prefix of the columns of options, which separates them from other columns."""
ResultRow = Mapping[str, Any]
"""A row of the results by column."""


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """Summary of a sweep; the results are in the file."""

    file: str
    """The file of the results."""
    rows: int
    """Number of rows in the file."""
    new: int
    """Number of rows that this run computed."""
    failed: int
    """Number of predictors that failed."""
    best: dict[str, list[ResultRow]]
    """The most accurate predictors of each source, as rows of the file."""


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
    keep: Path | None = KEEP
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

    \b
    Example:
      softwalltime sweep accounting -o results.csv
      softwalltime sweep KTH-SP2.swf.gz SDSC-SP2.swf.gz -o results.csv
      softwalltime sweep LOGS -o results.csv --predictor 'percentile:p=75|85|95,keys=user|project'
    """
    # Check workers and output before minutes of reading.
    from softwalltime.measure.replay.sweep.grid import expand_all
    from softwalltime.measure.replay.sweep.kept_lines import KeptLines
    from softwalltime.measure.replay.sweep.trials import run_trials, saved_trials
    from softwalltime.measure.replay.sweep.workers import dask_workers, local_workers
    from softwalltime.predict.predictors.registry import BASELINE

    file, output = options.file, options.output
    specs = expand_all([BASELINE, *(named_specs(options.listed, options.single) or GRID)])
    if file.suffix != ".csv":
        raise UsageError(f"{file}: the file name must end in .csv")
    if options.processes is not None and options.scheduler is not None:
        raise UsageError(
            "--processes sets the processes on this host; with --scheduler the workers of the cluster run the sweep"
        )
    require_folder(file)

    def say(text: str) -> None:
        if output.form == "table":
            output.paragraph(text)

    with ExitStack() as stack:
        workers = (
            stack.enter_context(dask_workers(options.scheduler))
            if options.scheduler
            else local_workers(options.processes)
        )
        kept = stack.enter_context(closing(KeptLines(options.keep)))
        folder = stack.enter_context(_scratch(file))
        tasks, whole = _tasks(options, specs, folder)
        done = saved_trials(tasks, kept)
        todo = [task for task in tasks if task not in done]
        say(f"{file}: {len(todo):,} of {len(tasks):,} rows to do, by {workers.words}")
        failures: list[str] = []
        columns = _columns(specs)
        total = sum(task.snapshot.jobs for task in todo)
        try:
            with closing(run_trials(todo, workers, kept)) as trials, progress_bar("sweeping", total) as progress:
                for task, trial in trials:
                    if trial.failure:
                        failures.append(f"{task.spec} on {task.source}: {trial.failure}")
                    progress(task.snapshot.jobs)
        finally:
            saved = saved_trials(tasks, kept)
            rows = [_row(task, saved[task]) for task in tasks if task in saved]
            write_csv(file, columns, ([csv_value(row.get(column)) for column in columns] for row in rows))
            say(f"{file}: {len(rows):,} rows, {len(rows) - len(done):,} of them new")
            for line in failures[:MAX_SHOWN_FAILURES]:
                click.echo(line, err=True)
            if len(failures) > MAX_SHOWN_FAILURES:
                click.echo(f"... and {len(failures) - MAX_SHOWN_FAILURES:,} more predictors that failed", err=True)
    shown = [{column: row.get(column) for column in columns} for row in rows]
    new = len(rows) - len(done)
    document = SweepDocument(str(file), len(rows), new, len(failures), best_rows(shown, MAX_SHOWN_PREDICTORS))
    text = partial(_text, rows=shown)
    return Result(document, text, 0 if whole and not failures else 1, rows=shown)


def _columns(specs: list[str]) -> list[str]:
    """Return the columns of the results; each option of the predictors has one."""
    from softwalltime.measure.replay.accuracy_metrics import Scores
    from softwalltime.predict.predictors.registry import make

    options = dict.fromkeys(OPTION + name for spec in specs for name in type(make(spec).options).model_fields)
    scores = [field.name for field in fields(Scores)]
    after = [f"after_warm_up_{name}" for name in scores]
    return ["source", "predictor", "name", *options, "min_soft_walltime", *scores, *after, "seconds", "version"]


def _row(task: "TrialTask", trial: "Trial") -> dict[str, Any]:
    """Return the results of a trial by column; several values of an option in the user's notation."""
    from softwalltime.predict.predictors.registry import make

    predictor = make(task.spec)
    options = {OPTION + name: getattr(predictor.options, name) for name in type(predictor.options).model_fields}
    scores, after = map(asdict, trial.parts)
    return {
        "source": task.source,
        "predictor": task.spec,
        "name": predictor.name,
        **{name: "+".join(map(str, value)) if isinstance(value, tuple) else value for name, value in options.items()},
        "min_soft_walltime": task.minimum,
        **scores,
        **{f"after_warm_up_{name}": value for name, value in after.items()},
        "seconds": round(trial.seconds, 6),
        "version": task.version,
    }


@contextmanager
def _scratch(table: Path) -> Iterator[Path]:
    """Create a folder for the jobs beside the results, which the workers of a cluster can read."""
    parent, prefix = table.parent.absolute(), f".{table.name}.jobs-"
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error
    with folder as name:
        yield Path(name)


def _tasks(options: SweepOptions, specs: list[str], folder: Path) -> tuple[list["TrialTask"], bool]:
    """Return a task for each predictor on each source, and whether all sources could be read to their end."""
    from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
    from softwalltime.measure.replay.sweep.jobs_file import take
    from softwalltime.measure.replay.sweep.trials import Part, TrialTask

    teaching, parts = options.settings().teaching, (Part(), Part(warm_up=WARM_UP_SHARE))
    tasks: list[TrialTask] = []
    whole = True
    for number, source in enumerate(dict.fromkeys(options.sources)):
        jobs, tally = load_columns((source,), options.settings, selection=options.selection)
        snapshot = take(jobs, teaching, folder / f"{number}.json")
        tasks.extend(TrialTask(source, snapshot, spec, parts, options.minimum) for spec in specs)
        for line in problems(tally):
            click.echo(line, err=True)
        whole = whole and not tally.broken
    return tasks, whole


def best_rows(rows: Sequence[ResultRow], count: int) -> dict[str, list[ResultRow]]:
    """Return the most accurate predictors of each source, without the baseline."""
    from softwalltime.predict.predictors.registry import BASELINE

    scored: dict[str, list[ResultRow]] = {}
    for row in rows:
        if row["accuracy_mean"] is not None and row["predictor"] != BASELINE:
            scored.setdefault(row["source"], []).append(row)
    return {source: sorted(scores, key=lambda row: -row["accuracy_mean"])[:count] for source, scores in scored.items()}


def _text(output: Output, document: SweepDocument, rows: Sequence[ResultRow]) -> None:
    from softwalltime.predict.predictors.registry import BASELINE

    for source, best in document.best.items():
        baseline = [row for row in rows if row["source"] == source and row["predictor"] == BASELINE]
        greatest = best[0]["accuracy_mean"]
        output.line()
        output.paragraph(f"{source}: the most accurate predictors, and the walltimes ({BASELINE})")
        output.line()
        output.table(TextTable.of(_TABLE, [_cells(row, greatest) for row in (*best, *baseline)]))


def _cells(row: ResultRow, greatest: float) -> list[Cell | str]:
    from softwalltime.reports.replay_document import accuracy_cell, underestimated_cell

    accuracy, warmed_up, under, error = (
        row[name] for name in ("accuracy_mean", "after_warm_up_accuracy_mean", "underestimated", "mean_absolute_error")
    )
    return [
        Cell(row["predictor"], "strong"),
        accuracy_cell(accuracy, greatest),
        accuracy_cell(warmed_up, 0.0),
        underestimated_cell(under),
        "-" if error is None else f"{error:.0f} s",
    ]
