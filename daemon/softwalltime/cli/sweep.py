"""``softwalltime sweep``: many predictors with many options, on many workloads."""

import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.options import LazySettings, minimum_option, named_specs, store_options
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.sources import load_jobs, problems
from softwalltime.errors import SourceError, UsageError
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.sweep.grid import expand_all

if TYPE_CHECKING:
    from softwalltime.replay.sweep.evaluation import Failure, Task
    from softwalltime.replay.sweep.results import Results
    from softwalltime.replay.sweep.workers import Workers

GRID = (
    "v1", "v2", "v3", "v4",
    "percentile:keys=user|project|user+project|user+project+walltime,p=75|85|95,window=7d|30d|90d",
)  # fmt: skip
"""The published predictors, the last one with the options that Tang et al. (2013) vary."""
SHOWN = 10
"""How many failures are shown one by one."""


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where the results go, .csv or .parquet.",
)  # fmt: skip
@click.option("--predictors", "listed", metavar="LIST", help="Predictors or grids of them, by commas.")
@click.option("--predictor", "single", multiple=True, metavar="SPEC", help="One grid; may be given again.")
@click.option("--jobs", "processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster do it: its scheduler, as tcp://host:8786.")
@click.option("--again", is_flag=True, help="Forget the results that the file holds.")
@minimum_option
@store_options
def sweep(
    sources: tuple[str, ...], output: Path, listed: str | None, single: tuple[str, ...], processes: int | None,
    scheduler: str | None, again: bool, minimum: int, settings: LazySettings,
) -> int:  # fmt: skip
    """Judge a grid of predictors on recorded jobs.

    A SOURCE is what it is to replay, but each one is a workload of its own: the results have a row for each source and
    predictor, with every option in a column.  In a SPEC, "|" separates alternatives, and all combinations are tried.

    Rows are kept as they come.  The same command goes on where it was interrupted; with further sources or predictors
    it adds theirs.  A source whose jobs have changed is done again.

    \b
    Example:
      softwalltime sweep KTH-SP2.swf.gz SDSC-SP2.swf.gz -o results.csv
      softwalltime sweep LOGS -o results.csv --predictor 'percentile:p=75|85|95,keys=user|project'
    """
    specs = _grid(listed, single)
    table = _table(output)
    if processes is not None and scheduler is not None:
        raise UsageError("--jobs is for processes on this machine; with --scheduler the cluster's workers do it")

    from softwalltime.replay.sweep.results import Results
    from softwalltime.replay.sweep.workers import dask_workers, local_workers

    with ExitStack() as stack:
        # What may be wrong with where it runs and where it writes is better said now than after reading for minutes.
        workers = stack.enter_context(dask_workers(scheduler)) if scheduler else local_workers(processes)
        results = stack.enter_context(Results(table, again=again))
        folder = stack.enter_context(_scratch(table))
        tasks, whole = _tasks(list(dict.fromkeys(sources)), specs, minimum, settings, folder)
        todo, dropped = results.prepare(tasks, _options(specs))
        if dropped:
            click.echo(f"{output}: {dropped:,} rows were out of date and are gone")
        click.echo(f"{output}: {len(todo):,} of {len(tasks):,} rows to do, by {workers.words}")
        failures: list[Failure] = []
        begin = len(results)
        try:
            _do(workers, todo, results, failures)
        finally:
            if output != table:
                results.write_parquet(output)
            new = len(results) - begin
            click.echo(f"{output}: {len(results):,} rows, {new:,} of them new")
            for line in _told(failures):
                click.echo(line, err=True)
    return 0 if whole and not failures else 1


def _grid(listed: str | None, single: tuple[str, ...]) -> list[str]:
    """The predictors, the baseline first; each was made as a trial, before anything is read."""
    return expand_all([BASELINE, *(named_specs(listed, single) or GRID)])


def _options(specs: list[str]) -> list[str]:
    """The options of all the predictors, each once."""
    return list(dict.fromkeys(option for spec in specs for option in type(make(spec).options).model_fields))


def _table(output: Path) -> Path:
    """The CSV file in which rows are kept; for Parquet, which cannot grow by a row, it stands beside."""
    if output.suffix == ".csv":
        return output
    if output.suffix != ".parquet":
        raise UsageError(f"{output}: name a file that ends in .csv or .parquet")
    if find_spec("duckdb") is None:
        raise UsageError("Parquet is written by DuckDB: pip install 'pbs-softwalltime[parquet]', or name a .csv file")
    return output.with_suffix(".csv")


@contextmanager
def _scratch(table: Path) -> Iterator[Path]:
    """A folder for the jobs, beside the results: where the results are, a cluster's workers can read too."""
    parent, prefix = table.parent.absolute(), f".{table.name}.jobs-"
    try:
        # Whoever left one was killed, since the results are locked by us.
        for left in parent.glob(f"{glob.escape(prefix)}*"):
            shutil.rmtree(left)
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error
    with folder as name:
        yield Path(name)


def _tasks(
    sources: list[str], specs: list[str], minimum: int, settings: LazySettings, folder: Path
) -> tuple[list["Task"], bool]:
    """Every predictor on every source, and whether all sources could be read to their end."""
    from softwalltime.replay.sweep.evaluation import Task
    from softwalltime.replay.sweep.snapshot import take

    teaching = settings().teaching
    tasks: list[Task] = []
    whole = True
    for number, source in enumerate(sources):
        jobs, tally = load_jobs((source,), settings)
        snapshot = take(jobs, teaching, folder / f"{number}.json")
        tasks.extend(Task(source, snapshot, spec, minimum) for spec in specs)
        for line in problems(tally):
            click.echo(line, err=True)
        whole = whole and not tally.broken
    return tasks, whole


def _do(workers: "Workers", tasks: list["Task"], results: "Results", failures: list["Failure"]) -> None:
    """Do the tasks; results and failures are added as they come, so that an interruption costs none of them."""
    from softwalltime.replay.sweep.evaluation import Row, evaluate

    total = sum(task.snapshot.jobs for task in tasks)
    with closing(workers.do(evaluate, tasks)) as outcomes, progress_bar("sweeping", total) as progress:
        for outcome in outcomes:
            if isinstance(outcome, Row):
                results.add(outcome)
            else:
                failures.append(outcome)
            progress(outcome.task.snapshot.jobs)


def _told(failures: list["Failure"]) -> Iterator[str]:
    """The failures, a line each, and how many more there are."""
    yield from map(str, failures[:SHOWN])
    if len(failures) > SHOWN:
        yield f"... and {len(failures) - SHOWN:,} more predictors that failed"
