"""``softwalltime sweep``: measure a grid of predictors on several workloads, and save the results."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import command
from softwalltime.cli.options import KEEP, MINIMUM_OPTION, WorkerOptions, named_specs, predictors
from softwalltime.cli.output import csv_value, prefixed, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.errors import UsageError
from softwalltime.core.written import require_folder, write_csv

if TYPE_CHECKING:
    from softwalltime.measure.replay.sweep.trial import Trial, TrialTask

GRID = (
    "v1", "v2", "v3", "v4",
    "percentile:keys=user|project|user+project|user+project+walltime,p=75|85|95,window=7d|30d|90d",
)  # fmt: skip
"""The published predictors, ``percentile`` with the options that Tang et al. (2013) vary."""
MAX_SHOWN_FAILURES = 10
"""Number of failures to print."""
OPTION = "option_"
"""Prefix of the columns of options, which separates them from other columns."""


@options
class SweepOptions:
    file: Path = option("CSV file for the results.", "-o", "--output", metavar="FILE")
    listed: tuple[str, ...] = predictors("Predictors or grids")
    workers: WorkerOptions
    keep: Path | None = KEEP
    minimum: int = MINIMUM_OPTION
    recorded: RecordedJobs


@command()
def sweep(options: SweepOptions) -> int:
    """Measure a grid of predictors on recorded jobs.

    A SOURCE is the same as for replay, but each source is a separate workload.  The results have a row for each
    source and predictor, with every option in a column.  In a SPEC "|" separates alternatives; all combinations are
    tried.

    \b
    Example:
      softwalltime sweep accounting -o results.csv
      softwalltime sweep LOGS -o results.csv --predictor 'percentile:p=75|85|95,keys=user|project'
    """
    # Check workers and output before minutes of reading.
    from softwalltime.measure.replay.sweep.grid import expand_all
    from softwalltime.measure.replay.sweep.kept_lines import KeptLines
    from softwalltime.measure.replay.sweep.shared_folder import shared_folder
    from softwalltime.measure.replay.sweep.trials import run_trials, saved_trials
    from softwalltime.measure.replay.sweep.workers import chosen_workers
    from softwalltime.predict.predictors.registry import BASELINE

    file = options.file
    specs = expand_all([BASELINE, *(named_specs(options.listed) or GRID)])
    if file.suffix != ".csv":
        raise UsageError(f"{file}: the file name must end in .csv")
    require_folder(file)

    with ExitStack() as stack:
        workers = stack.enter_context(chosen_workers(options.workers.processes, options.workers.scheduler))
        kept = stack.enter_context(closing(KeptLines(options.keep)))
        # Beside the results, where the workers of a cluster can read it.
        folder = stack.enter_context(
            shared_folder(file.parent.absolute(), f".{file.name}.jobs-", options.workers.jobs_folder)
        )
        tasks, whole = _tasks(options, specs, folder)
        done = saved_trials(tasks, kept)
        todo = [task for task in tasks if task not in done]
        click.echo(f"{file}: {len(todo):,} of {len(tasks):,} rows to do, by {workers.words}")
        failures: list[str] = []
        total = sum(task.snapshot.jobs for task in todo)
        try:
            with closing(run_trials(todo, workers, kept)) as trials, progress_bar("sweeping", total) as progress:
                for task, trial in trials:
                    if trial.failure:
                        failures.append(f"{task.spec} on {task.source}: {trial.failure}")
                    progress(task.snapshot.jobs)
        finally:
            saved = saved_trials(tasks, kept)
            rows = list(_rows(specs, ((task, saved[task]) for task in tasks if task in saved)))
            write_csv(file, list(rows[0]) if rows else (), (map(csv_value, row.values()) for row in rows))
            click.echo(f"{file}: {len(rows):,} rows, {len(rows) - len(done):,} of them new")
            for line in failures[:MAX_SHOWN_FAILURES]:
                click.echo(line, err=True)
            if len(failures) > MAX_SHOWN_FAILURES:
                click.echo(f"... and {len(failures) - MAX_SHOWN_FAILURES:,} more predictors that failed", err=True)
    return 0 if whole and not failures else 1


def _rows(specs: list[str], trials: "Iterable[tuple[TrialTask, Trial]]") -> Iterator[dict[str, Any]]:
    """Yield the results of each trial by column; each option of the predictors has one, in the user's notation."""
    from softwalltime.predict.predictors.registry import make

    made = {spec: make(spec) for spec in specs}
    given = {spec: {OPTION + name: _notation(value) for name, value in made[spec].options} for spec in specs}
    every = dict.fromkeys(name for options in given.values() for name in options)
    for task, trial in trials:
        scores, after = map(asdict, trial.parts)
        yield {
            "source": task.source, "predictor": task.spec, "name": made[task.spec].name, **every, **given[task.spec],
            "min_soft_walltime": task.minimum, **scores, **prefixed("after_warm_up_", after),
            "seconds": round(trial.seconds, 6), "version": task.version,
        }  # fmt: skip


def _notation(value: object) -> object:
    return "+".join(map(str, value)) if isinstance(value, tuple) else value


def _tasks(options: SweepOptions, specs: list[str], folder: Path) -> tuple[list["TrialTask"], bool]:
    """Return a task for each predictor on each source, and whether all sources could be read to their end."""
    from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE
    from softwalltime.measure.replay.sweep.jobs_file import take
    from softwalltime.measure.replay.sweep.trial import Part, TrialTask

    parts = Part(), Part(warm_up=WARM_UP_SHARE)
    tasks: list[TrialTask] = []
    whole = True
    for number, source in enumerate(dict.fromkeys(options.recorded.sources)):
        workload, tally = replace(options.recorded, sources=(source,)).workload({})
        snapshot = take(workload, folder / f"{number}.parquet")
        tasks.extend(TrialTask(source, snapshot, spec, parts, options.minimum) for spec in specs)
        for line in problems(tally):
            click.echo(line, err=True)
        whole = whole and not tally.broken
    return tasks, whole
