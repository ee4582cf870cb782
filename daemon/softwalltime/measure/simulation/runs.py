"""Simulate policies on one workload or several shaken ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from json import dumps
from pathlib import Path
from threading import Lock
from typing import Self

from pydantic import TypeAdapter, ValidationError

from softwalltime import __version__
from softwalltime.core.errors import SoftwalltimeError, SourceError
from softwalltime.core.progress import ShowProgress
from softwalltime.core.states import State
from softwalltime.core.written import temporary_folder
from softwalltime.measure.replay.sweep.jobs_file import load, take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.simulation.engine import ScheduleOutcome, simulate
from softwalltime.measure.simulation.machine import Machine
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import Metrics, classes, measure, measure_classes
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.measure.simulation.vnodes import Vnode, Vnodes

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Settings that all simulations of one run share.

    ``digest`` identifies the set of jobs; ``baseline`` is the policy that the others are compared with; ``shake``
    is empty for the recorded workload; ``by`` names the classes to measure as well, of users and queues only the
    ``largest`` so many.  ``vnodes``, if there are any, are the machine in place of interchangeable processors, of which
    they have ``processors``.
    """

    digest: str
    processors: int
    baseline: SchedulerPolicy
    shake: str = ""
    by: tuple[str, ...] = ()
    vnodes: tuple[Vnode, ...] = ()
    largest: int | None = None
    version: str = __version__

    def machine(self, workload: Jobs) -> int | Machine:
        return Vnodes(self.vnodes, workload) if self.vnodes else self.processors

    def key(self, policy: SchedulerPolicy, seed: int) -> str:
        """Key that differs between simulations with different figures."""
        values = [asdict(self), asdict(policy), seed]
        if files := self.baseline.contents | policy.contents:
            values.append(files)
        return sha256(dumps(values, sort_keys=True).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class SimulationTask:
    """Simulations of one workload, which is the recorded one or is shaken with ``seed``.

    ``path`` is the file of the jobs, ``teaching`` how jobs must have ended to teach.
    """

    experiment: Experiment
    path: Path
    teaching: tuple[State, ...]
    policies: tuple[SchedulerPolicy, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The figures of one simulation; ``classes`` by what makes the class, then by the class's name."""

    policy: SchedulerPolicy
    seed: int
    metrics: Metrics
    classes: dict[str, dict[str, Metrics]]


def tasks(
    experiment: Experiment, path: Path, teaching: Iterable[State], todo: Sequence[tuple[SchedulerPolicy, int]],
    processes: int,
) -> list[SimulationTask]:  # fmt: skip
    """The simulations in as few tasks as keep all processes busy: those on one workload share it and its baseline."""
    seeds = list(dict.fromkeys(seed for _, seed in todo))
    parts = max(1, -(-processes // max(len(seeds), 1)))
    batches: list[SimulationTask] = []
    for seed in seeds:
        policies = [policy for policy, its_seed in todo if its_seed == seed]
        pieces = [tuple(policies[start::parts]) for start in range(min(parts, len(policies)))]
        batches.extend(SimulationTask(experiment, path, tuple(sorted(teaching)), piece, seed) for piece in pieces)
    return batches


def evaluate(task: SimulationTask) -> list[SimulationResult]:
    """Run a task.

    :raises SoftwalltimeError: if a predictor raises.
    """
    jobs = _jobs(task.path, task.teaching)
    workload = shaken(jobs, task.experiment.shake, task.seed) if task.experiment.shake else jobs
    return list(results(workload, task.experiment, task.policies, task.seed))


def results(
    workload: Jobs, experiment: Experiment, policies: Sequence[SchedulerPolicy], seed: int,
    progress: Progress = lambda _: None,
) -> Iterator[SimulationResult]:  # fmt: skip
    """Yield the figures of each policy on a workload, compared with the baseline, as soon as it is simulated."""
    first = experiment.baseline
    baseline = run(workload, experiment.machine(workload), first, progress if first in policies else lambda _: None)
    processors = experiment.processors
    members = {by: classes(workload, by, processors, experiment.largest) for by in experiment.by}
    for policy in policies:
        own = policy == first
        outcome = baseline if own else run(workload, experiment.machine(workload), policy, progress)
        # The baseline is not compared with itself.
        other = None if own else baseline
        figures = measure(workload, outcome, processors, other)
        yield SimulationResult(policy, seed, figures, measure_classes(workload, outcome, processors, members, other))


def run(
    workload: Jobs, machine: int | Machine, policy: SchedulerPolicy, progress: Progress = lambda _: None
) -> ScheduleOutcome:
    """Simulate; an exception of a predictor becomes one line that names the policy.

    :raises SoftwalltimeError: if a predictor raises.
    """
    try:
        return simulate(workload, machine, policy, progress)
    except SoftwalltimeError:
        raise
    # Another package's predictor may raise any exception.
    except Exception as error:
        raise SoftwalltimeError(f"policy {policy.name}: {type(error).__name__}: {error}") from error


_turn = Lock()
_last: tuple[Path, Jobs] | None = None


def _jobs(path: Path, teaching: Sequence[State]) -> Jobs:
    """The jobs in a file; the last ones are kept, because a process is given many tasks on the same ones."""
    global _last
    with _turn:
        if _last is None or _last[0] != path:
            # Free the old jobs before the new ones are read.
            _last = None
            _last = path, jobs_of(load(path).jobs, teaching)
        return _last[1]


_FIGURES = TypeAdapter(tuple[Metrics, dict[str, dict[str, Metrics]]])
"""The metrics of all jobs, and those of each class."""


class ResultCache:
    """Results in one file, open and locked inside this context manager.

    A line is one simulation with its key (:meth:`Experiment.key`).  Lines of other jobs, policies or versions stay in
    the file and are ignored.
    """

    def __init__(self, path: Path, experiment: Experiment) -> None:
        """Open or create the file, and read its results.

        :raises SourceError: if the file cannot be written, another process writes it, or it holds something else.
        """
        self._path = path
        self._experiment = experiment
        self._lines = KeptLines(path, "simulations", "simulation")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._lines.close()

    def find(self, policy: SchedulerPolicy, seed: int) -> SimulationResult | None:
        """The result of this simulation, if the file has it."""
        line = self._lines.find(self._experiment.key(policy, seed))
        if line is None:
            return None
        try:
            figures = _FIGURES.validate_python((line["metrics"], line["classes"]))
        except (KeyError, ValidationError) as error:
            raise SourceError(f"{self._path}: holds a line that is no result: name another file") from error
        return SimulationResult(policy, seed, *figures)

    def add(self, result: SimulationResult) -> None:
        """Append a result; it is in the file when this returns.

        :raises SourceError: if the file cannot be written.
        """
        self._lines.add(
            {
                "key": self._experiment.key(result.policy, result.seed),
                "policy": result.policy.name,
                "shake": self._experiment.shake,
                "seed": result.seed,
            }
            | {name: value for name, value in asdict(result).items() if name in ("metrics", "classes")}
        )


MAX_JOBS_IN_PROCESS = 150_000
"""Jobs up to which no further processes are started, because starting them takes longer."""
Results = dict[tuple[SchedulerPolicy, int], SimulationResult]
"""By policy and seed."""


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

    def metrics(self, results: Results) -> dict[str, list[Metrics]]:
        return {name: [results[policy, seed].metrics for seed in self.seeds] for name, policy in self.policies.items()}


def run_simulations(
    plan: SimulationPlan, show: ShowProgress, keep: Path | None = None, processes: int | None = None
) -> Results:
    """Return all results.

    :param keep: the file that saves results, and from which an interrupted run continues.
    :param processes: ``None`` for one a core.
    :raises SourceError: if a file cannot be written.
    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    wanted = [(policy, seed) for seed in plan.seeds for policy in dict.fromkeys(plan.policies.values())]
    with ExitStack() as stack:
        workers = local_workers(processes)
        few = len(wanted) == 1 or len(wanted) * len(plan.jobs) <= MAX_JOBS_IN_PROCESS
        here = workers.processes == 1 or few
        path, experiment = Path(), plan.experiment
        if keep is not None or not here:
            folder = temporary_folder(keep.parent.absolute() if keep else None, ".simulate-")
            path = Path(stack.enter_context(folder)) / "jobs.json"
            experiment = replace(experiment, digest=take(plan.jobs.completed, plan.teaching, path).digest)
        kept = stack.enter_context(ResultCache(keep, experiment)) if keep is not None else None
        known: Results = {}
        if kept is not None:
            cached = ((key, kept.find(*key)) for key in wanted)
            known = {key: result for key, result in cached if result is not None}
        todo = [key for key in wanted if key not in known]
        progress = stack.enter_context(show("simulating", len(todo) * len(plan.jobs)))

        def add(result: SimulationResult) -> None:
            known[result.policy, result.seed] = result
            if kept is not None:
                kept.add(result)

        if here:
            for seed in dict.fromkeys(seed for _, seed in todo):
                workload = shaken(plan.jobs, experiment.shake, seed) if experiment.shake else plan.jobs
                policies = [policy for policy, its_seed in todo if its_seed == seed]
                for result in results(workload, experiment, policies, seed, progress):
                    add(result)
            return known
        work = tasks(experiment, path, plan.teaching, todo, workers.processes)
        with closing(workers.do(evaluate, work)) as done:
            for some in done:
                for result in some:
                    add(result)
                progress(len(some) * len(plan.jobs))
    return known
