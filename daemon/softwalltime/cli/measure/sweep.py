"""Measure a grid of predictors and save the results: the work of ``softwalltime sweep``."""

import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.measure.swept import BEST, SweepDocument, best_rows, print_best
from softwalltime.cli.options import LazySettings, named_specs
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SourceError, UsageError
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.sweep.grid import expand_all

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


def sweep_sources(
    sources: tuple[str, ...], file: Path, listed: str | None, single: tuple[str, ...], processes: int | None,
    scheduler: str | None, again: bool, minimum: int, selection: JobSelection, output: Output,
    settings: LazySettings,
) -> int:  # fmt: skip
    """Measure the predictors on each source; return the exit status."""
    specs = _grid(listed, single)
    if file.suffix != ".csv":
        raise UsageError(f"{file}: the file name must end in .csv")
    if processes is not None and scheduler is not None:
        raise UsageError(
            "--processes sets the processes on this host; with --scheduler the workers of the cluster run the sweep"
        )

    from softwalltime.replay.sweep.results import Results
    from softwalltime.replay.sweep.workers import dask_workers, local_workers

    def say(text: str) -> None:
        if output.form == "table":
            output.paragraph(text)

    with ExitStack() as stack:
        # Check workers and output before minutes of reading.
        workers = stack.enter_context(dask_workers(scheduler)) if scheduler else local_workers(processes)
        results = stack.enter_context(Results(file, again=again))
        folder = stack.enter_context(_scratch(file))
        tasks, whole = _tasks(list(dict.fromkeys(sources)), specs, minimum, settings, selection, folder)
        todo, dropped = results.prepare(tasks, _options(specs))
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
    if output.form == "json":
        output.document(SweepDocument(str(file), len(results), new, len(failures), best_rows(results.rows, BEST)))
    elif output.form == "csv":
        # The file has the same columns.
        output.rows(list(results.rows[0]) if results.rows else [], results.rows)
    else:
        print_best(output, results.rows)
    return 0 if whole and not failures else 1


def _grid(listed: str | None, single: tuple[str, ...]) -> list[str]:
    """Return the predictors, the baseline first; raise an error for an invalid one."""
    return expand_all([BASELINE, *(named_specs(listed, single) or GRID)])


def _options(specs: list[str]) -> list[str]:
    """Return the options of all predictors, without duplicates."""
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


def _tasks(
    sources: list[str], specs: list[str], minimum: int, settings: LazySettings, selection: JobSelection, folder: Path
) -> tuple[list["SweepTask"], bool]:
    """Return a task for each predictor on each source, and whether all sources could be read to their end."""
    from softwalltime.replay.sweep.evaluation import SweepTask
    from softwalltime.replay.sweep.snapshot import take

    teaching = settings().teaching
    tasks: list[SweepTask] = []
    whole = True
    for number, source in enumerate(sources):
        jobs, tally = load_columns((source,), settings, selection=selection)
        snapshot = take(jobs, teaching, folder / f"{number}.json")
        tasks.extend(SweepTask(source, snapshot, spec, minimum) for spec in specs)
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
