"""Simulations as independent tasks, for any process: one workload, several policies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from json import dumps
from pathlib import Path
from threading import Lock

from softwalltime import __version__
from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.replay.sweep.snapshot import load
from softwalltime.simulation.engine import ScheduleOutcome, simulate
from softwalltime.simulation.jobs import Jobs, jobs_of
from softwalltime.simulation.machine import Machine
from softwalltime.simulation.metrics import Metrics, classes, measure, measure_classes
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.shaking import shaken
from softwalltime.simulation.vnodes import Vnode, Vnodes
from softwalltime.states import State

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
        """The empty machine for a workload."""
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

    ``path`` holds the jobs (:mod:`softwalltime.replay.sweep.snapshot`), ``teaching`` how jobs must have ended to teach.
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
    experiment: Experiment,
    path: Path,
    teaching: Iterable[State],
    todo: Sequence[tuple[SchedulerPolicy, int]],
    processes: int,
) -> list[SimulationTask]:
    """The simulations in as few tasks as keep all processes busy: those on one workload share it and its baseline.

    :param todo: policies and seeds.
    """
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

    :raises SoftwalltimeError: if this process has another version of the package, or a predictor raises.
    :raises SourceError: if the jobs cannot be read.
    """
    if task.experiment.version != __version__:
        raise SoftwalltimeError(
            f"a worker has softwalltime {__version__}, this command {task.experiment.version}: install the same version"
        )
    jobs = _jobs(task.path, task.teaching)
    workload = shaken(jobs, task.experiment.shake, task.seed) if task.experiment.shake else jobs
    return list(results(workload, task.experiment, task.policies, task.seed))


def results(
    workload: Jobs, experiment: Experiment, policies: Sequence[SchedulerPolicy], seed: int,
    progress: Progress = lambda _: None,
    outcomes: Callable[[SchedulerPolicy, ScheduleOutcome], None] = lambda *_: None,
) -> Iterator[SimulationResult]:  # fmt: skip
    """Yield the figures of each policy on a workload, compared with the baseline, as soon as it is simulated.

    :param progress: called with the number of jobs submitted since the last call.
    :param outcomes: given each policy's schedule.
    """
    first = experiment.baseline
    baseline = run(workload, experiment.machine(workload), first, progress if first in policies else lambda _: None)
    processors = experiment.processors
    members = {by: classes(workload, by, processors, experiment.largest) for by in experiment.by}
    for policy in policies:
        own = policy == first
        outcome = baseline if own else run(workload, experiment.machine(workload), policy, progress)
        outcomes(policy, outcome)
        # The baseline's own figures have nothing to be compared with.
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
    # Another package's predictor may fail in any way at all.
    except Exception as error:
        raise SoftwalltimeError(f"policy {policy.name}: {type(error).__name__}: {error}") from error


_turn = Lock()
_last: tuple[Path, Jobs] | None = None


def _jobs(path: Path, teaching: Sequence[State]) -> Jobs:
    """The jobs in a file; the last ones are kept, because a process is given many tasks on the same ones."""
    global _last
    with _turn:
        if _last is None or _last[0] != path:
            _last = None
            try:
                _last = path, jobs_of(load(path).jobs, teaching)
            except OSError as error:
                raise SourceError(f"{path}: {error.strerror}: all workers must be able to read it") from error
        return _last[1]
