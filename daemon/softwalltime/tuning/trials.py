"""Many trials, on all cores, saved as they end."""

import tempfile
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from pathlib import Path

from softwalltime.predictors.registry import BASELINE, available
from softwalltime.replay.job_columns import JobColumns
from softwalltime.replay.sweep.grid import expand_all
from softwalltime.replay.sweep.snapshot import take
from softwalltime.replay.sweep.workers import local_workers
from softwalltime.states import State
from softwalltime.tuning.trial import Trial, TrialTask, run_trial
from softwalltime.tuning.trial_file import TrialFile


def candidates() -> list[str]:
    """Return the predictors to try, the baseline first: all of the registry, with the options that each one names."""
    grids = [
        f"{predictor.name}:{options}" if options else predictor.name
        for predictor in available()
        for options in predictor.tried_options
    ]
    return expand_all([BASELINE, *grids])


def run_trials(
    jobs: JobColumns, teaching: Collection[State], specs: Sequence[str], bounds: tuple[int | None, ...], minimum: int,
    *, keep: Path | None = None, processes: int | None = None, timeout: float = float("inf"),
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Trial]:  # fmt: skip
    """Try each predictor and return the trials by specification, in their order.

    :param bounds: limits of the parts, as in :class:`.trial.TrialTask`.
    :param keep: a file from which and to which trials are saved.
    :param processes: by default one a core.
    :param timeout: greatest processor time of one predictor in seconds; the baseline has no limit.
    :param progress: called with 1 for each trial that ends.
    """
    with tempfile.TemporaryDirectory(prefix="softwalltime-") as folder, TrialFile(keep) as kept:
        snapshot = take(jobs, teaching, Path(folder) / "jobs.json")
        tasks = {
            spec: TrialTask(
                snapshot.path, snapshot.digest, snapshot.jobs, spec, bounds, minimum,
                # All others are compared with the baseline, which takes the least time.
                float("inf") if spec == BASELINE else timeout,
            )
            for spec in specs
        }  # fmt: skip
        done = {spec: trial for spec, task in tasks.items() if (trial := kept.find(task)) is not None}
        progress(len(done))
        todo = [task for spec, task in tasks.items() if spec not in done]
        workers = local_workers(processes)
        with closing(workers.do(run_trial, todo) if workers.processes > 1 else _here(todo)) as trials:
            for trial in trials:
                done[trial.spec] = trial
                kept.add(tasks[trial.spec], trial)
                progress(1)
    return {spec: done[spec] for spec in specs}


def _here(tasks: Sequence[TrialTask]) -> Generator[Trial]:
    """Run the tasks in this process."""
    yield from map(run_trial, tasks)
