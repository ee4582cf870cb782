"""Simulate policies on one workload or several shaken ones, locally or on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from softwalltime import __version__
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.progress import ShowProgress
from softwalltime.core.states import State
from softwalltime.measure.replay.sweep.jobs_file import load_once, read, take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.shared_folder import shared_folder
from softwalltime.measure.replay.sweep.workers import MAX_JOBS_IN_PROCESS, chosen_workers, require_version
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.engine import ScheduleOutcome, simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import Metrics, classes, measure, measure_classes
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Settings that all simulations of one run share.

    ``digest`` identifies the set of jobs; ``shake`` is empty for the recorded workload; ``by`` names the classes to
    measure as well, of users and queues only the ``largest`` so many.
    """

    digest: str
    processors: int
    baseline: SchedulerPolicy
    shake: str = ""
    by: tuple[str, ...] = ()
    largest: int | None = None
    version: str = __version__

    def key(self, policy: SchedulerPolicy, seed: int) -> str:
        """Key that differs between simulations with different figures."""
        values = [asdict(self), asdict(policy), seed, self.baseline.contents | policy.contents]
        return sha256(dumps(values, sort_keys=True).encode()).hexdigest()[:20]


class SimulationTask(NamedTuple):
    """Simulations of one workload, the recorded one or shaken with ``seed``; ``path`` is the file of the jobs."""

    experiment: Experiment
    path: Path
    policies: Sequence[SchedulerPolicy]
    seed: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The figures of one simulation; ``classes`` by what makes the class, then by the class's name."""

    policy: SchedulerPolicy
    seed: int
    metrics: Metrics
    classes: dict[str, dict[str, Metrics]]


Results = dict[tuple[SchedulerPolicy, int], SimulationResult]
"""By policy and seed."""


def evaluate(task: SimulationTask) -> list[SimulationResult]:
    """Run a task.

    :raises SoftwalltimeError: if the package has another version, a predictor raises, or the jobs cannot be read.
    """
    require_version(task.experiment.version)
    vnodes = task.experiment.baseline.vnodes
    jobs = load_once(task.path, lambda path: jobs_of(*read(path), vnodes=vnodes))
    return list(results(shaken(jobs, task.experiment.shake, task.seed), task.experiment, task.policies, task.seed))


def results(
    workload: Jobs, experiment: Experiment, policies: Sequence[SchedulerPolicy], seed: int,
    progress: Progress = lambda _: None,
) -> Iterator[SimulationResult]:  # fmt: skip
    """Yield the figures of each policy on a workload, compared with the baseline, as soon as it is simulated."""
    first = experiment.baseline
    processors = experiment.processors
    baseline = run(workload, processors, first, progress if first in policies else lambda _: None)
    members = {by: classes(workload, by, processors, experiment.largest) for by in experiment.by}
    for policy in policies:
        own = policy == first
        outcome = baseline if own else run(workload, processors, policy, progress)
        # The baseline is not compared with itself.
        other = None if own else baseline
        figures = measure(workload, outcome, processors, other)
        yield SimulationResult(policy, seed, figures, measure_classes(workload, outcome, processors, members, other))


def run(
    workload: Jobs, processors: int, policy: SchedulerPolicy, progress: Progress = lambda _: None
) -> ScheduleOutcome:
    """Simulate; :class:`SoftwalltimeError` if a predictor raises: one line that names the policy."""
    try:
        return simulate(workload, processors, policy, progress)
    except SoftwalltimeError:
        raise
    # Another package's predictor may raise any exception.
    except Exception as error:
        raise SoftwalltimeError(f"policy {policy.name}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Saved:
    metrics: Metrics
    classes: dict[str, dict[str, Metrics]]


_SAVED = TypeAdapter(_Saved)


def saved_result(
    kept: KeptLines, experiment: Experiment, policy: SchedulerPolicy, seed: int
) -> SimulationResult | None:  # fmt: skip
    """Return the result of this simulation, if it is saved; :class:`SourceError` if its line is no result."""
    saved = kept.find(experiment.key(policy, seed), _SAVED)
    return SimulationResult(policy, seed, saved.metrics, saved.classes) if saved else None


def save_result(kept: KeptLines, experiment: Experiment, result: SimulationResult) -> None:
    """Save a result; :class:`SourceError` if the file cannot be written."""
    saved = asdict(result) | {"policy": result.policy.name, "shake": experiment.shake}
    kept.add(experiment.key(result.policy, result.seed), saved)


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """Policies by name, the first one as baseline; ``teaching``: how jobs must have ended to teach predictors."""

    experiment: Experiment
    policies: dict[str, SchedulerPolicy]
    seeds: tuple[int, ...]
    jobs: Jobs
    teaching: tuple[State, ...]

    def metrics(self, results: Results) -> dict[str, list[Metrics]]:
        return {name: [results[policy, seed].metrics for seed in self.seeds] for name, policy in self.policies.items()}


def run_simulations(
    plan: SimulationPlan, show: ShowProgress, keep: Path | None = None, processes: int | None = None,
    scheduler: str | None = None, jobs_folder: str | None = None,
) -> Results:  # fmt: skip
    """Return all results.

    :param keep: the file that saves results, and from which an interrupted run continues.
    :param processes: ``None`` for one a core.
    :param scheduler: address of a Dask scheduler; ``jobs_folder``: of a folder that its workers can read.
    :raises SourceError: if a file cannot be written.
    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    wanted = [(policy, seed) for seed in plan.seeds for policy in dict.fromkeys(plan.policies.values())]
    with ExitStack() as stack:
        workers = stack.enter_context(chosen_workers(processes, scheduler))
        few = len(wanted) == 1 or len(wanted) * len(plan.jobs) <= MAX_JOBS_IN_PROCESS
        here = not scheduler and (workers.processes == 1 or few)
        path, experiment = Path(), plan.experiment
        if keep is not None or not here:
            # On a cluster the folder is beside the results, where all workers can read.
            parent = keep.parent.absolute() if keep else Path.cwd() if scheduler else None
            path = stack.enter_context(shared_folder(parent, ".simulate-", jobs_folder)) / "jobs.parquet"
            snapshot = take(Workload(plan.jobs.completed, teaching=plan.teaching), path)
            experiment = replace(experiment, digest=snapshot.digest)
        kept = stack.enter_context(closing(KeptLines(keep)))
        known: Results = {}
        todo: dict[int, list[SchedulerPolicy]] = {}
        for policy, seed in wanted:
            saved = saved_result(kept, experiment, policy, seed)
            if saved is None:
                todo.setdefault(seed, []).append(policy)
            else:
                known[policy, seed] = saved
        progress = stack.enter_context(show("simulating", sum(map(len, todo.values())) * len(plan.jobs)))
        done: Iterable[Iterable[SimulationResult]]
        if here:
            done = (
                results(shaken(plan.jobs, experiment.shake, seed), experiment, policies, seed, progress)
                for seed, policies in todo.items()
            )
        else:
            tasks = _tasks(experiment, path, todo, workers.processes)
            done = stack.enter_context(closing(workers.do(evaluate, tasks)))
        for some in done:
            for result in some:
                known[result.policy, result.seed] = result
                save_result(kept, experiment, result)
                if not here:
                    progress(len(plan.jobs))
    return known


def _tasks(
    experiment: Experiment, path: Path, todo: Mapping[int, Sequence[SchedulerPolicy]], processes: int
) -> list[SimulationTask]:
    """The simulations in as few tasks as keep all processes busy: those on one workload share it and its baseline."""
    parts = max(1, -(-processes // max(len(todo), 1)))
    return [
        SimulationTask(experiment, path, policies[start::parts], seed)
        for seed, policies in todo.items()
        for start in range(min(parts, len(policies)))
    ]
