"""Simulate several policies on one workload or several shaken ones: in this process, on this machine or a cluster."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from softwalltime.errors import SourceError
from softwalltime.progress import ShowProgress
from softwalltime.replay.sweep.snapshot import take
from softwalltime.replay.sweep.workers import dask_workers, local_workers
from softwalltime.simulation.engine import ScheduleOutcome
from softwalltime.simulation.jobs import Jobs
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.result_cache import ResultCache
from softwalltime.simulation.shaking import shaken
from softwalltime.simulation.tasks import Experiment, SimulationResult, evaluate, results, tasks
from softwalltime.states import State

MAX_JOBS_IN_PROCESS = 150_000
"""Jobs up to which simulations are done in this process: starting others takes longer."""
Results = dict[tuple[SchedulerPolicy, int], SimulationResult]
"""By policy and seed."""
Outcomes = Callable[[SchedulerPolicy, ScheduleOutcome], None]
"""Is given each policy's schedule."""


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """The simulations: policies by name, the first one as baseline, on one workload or several shaken ones.

    ``teaching``: how jobs must have ended to teach predictors.
    """

    experiment: Experiment
    policies: dict[str, SchedulerPolicy]
    seeds: tuple[int, ...]
    jobs: Jobs
    teaching: tuple[State, ...]

    def metrics(self, found: Results) -> dict[str, list[Metrics]]:
        return {name: [found[policy, seed].metrics for seed in self.seeds] for name, policy in self.policies.items()}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where simulations run.

    ``keep``: the file that saves results, and from which an interrupted run continues.  ``processes``: ``None`` for one
    a core.  ``scheduler``: address of a Dask scheduler.
    """

    keep: Path | None = None
    processes: int | None = None
    scheduler: str | None = None


def run_simulations(
    plan: SimulationPlan, options: RunOptions, show: ShowProgress, outcomes: Outcomes | None = None
) -> Results:
    """Return all results.

    :param outcomes: wants all schedules, which are then simulated in this process.
    :raises SourceError: if a file cannot be written.
    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    wanted = [(policy, seed) for seed in plan.seeds for policy in dict.fromkeys(plan.policies.values())]
    with ExitStack() as stack:
        scheduler = options.scheduler
        workers = stack.enter_context(dask_workers(scheduler)) if scheduler else local_workers(options.processes)
        few = len(wanted) == 1 or len(wanted) * len(plan.jobs) <= MAX_JOBS_IN_PROCESS
        here = not scheduler and (outcomes is not None or workers.processes == 1 or few)
        path, experiment = Path(), plan.experiment
        if options.keep is not None or not here:
            path = Path(stack.enter_context(_folder(options))) / "jobs.json"
            experiment = replace(experiment, digest=take(plan.jobs.completed, plan.teaching, path).digest)
        kept = stack.enter_context(ResultCache(options.keep, experiment)) if options.keep is not None else None
        found: Results = {}
        if kept is not None and outcomes is None:
            cached = ((key, kept.find(*key)) for key in wanted)
            found = {key: result for key, result in cached if result is not None}
        todo = [key for key in wanted if key not in found]
        progress = stack.enter_context(show("simulating", len(todo) * len(plan.jobs)))

        def add(result: SimulationResult) -> None:
            found[result.policy, result.seed] = result
            if kept is not None:
                kept.add(result)

        if here:
            for seed in dict.fromkeys(seed for _, seed in todo):
                workload = shaken(plan.jobs, experiment.shake, seed) if experiment.shake else plan.jobs
                policies = [policy for policy, its_seed in todo if its_seed == seed]
                for result in results(workload, experiment, policies, seed, progress, outcomes or (lambda *_: None)):
                    add(result)
            return found
        work = tasks(experiment, path, plan.teaching, todo, workers.processes)
        with closing(workers.do(evaluate, work)) as done:
            for some in done:
                for result in some:
                    add(result)
                progress(len(some) * len(plan.jobs))
    return found


def _folder(options: RunOptions) -> tempfile.TemporaryDirectory[str]:
    """Return a folder for the jobs; a cluster's workers read them beside the results, which is where all can read."""
    parent = options.keep.parent.absolute() if options.keep else Path.cwd() if options.scheduler else None
    try:
        return tempfile.TemporaryDirectory(prefix=".simulate-", dir=parent)
    except OSError as error:
        raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error
