"""What settings would have done to waits: simulated on the site's own jobs, compared over shaken workloads.

A single schedule is chaotic (:mod:`softwalltime.simulation.shaking`), so every change is a mean over pairs of schedules
of the same shaken workload, with a 95% confidence interval.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from softwalltime.policy.clamp import MINIMUM
from softwalltime.replay.sweep.snapshot import take
from softwalltime.replay.sweep.workers import local_workers
from softwalltime.replay.workload import Workload
from softwalltime.reports.columns import Rename
from softwalltime.reports.leave_out import EvaluatedSetting
from softwalltime.reports.waits_by_class import (
    KINDS,
    LARGEST,
    ClassWaits,
    JobClass,
    classes_today,
    compare_classes,
    members_of,
)
from softwalltime.simulation.differences import Interval, interval, means, relative_changes
from softwalltime.simulation.jobs import NO_PROCESSORS, Jobs, jobs_of
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.shaking import shaken, suitable_shake
from softwalltime.simulation.tasks import Experiment, SimulationResult, evaluate, results, tasks
from softwalltime.states import TEACHING

HALF = "factor:0.5"
"""The predictor that needs no learning: half the walltime."""
GUARD = 3600
"""Seconds past its promise from which the guard protects the top job."""
SEEDS = tuple(range(31, 41))
JOBS = 50_000
"""The newest jobs that are simulated, unless the user asks for another number."""
MOST_SETTINGS = 9
"""Maximum number of settings to compare, with today's."""
USUAL = 0.99
"""Share of the time in which use is usual: records that overlap by mistake exceed it for a short time."""
WITH_GUARD = ", with guard"
_GUARDS = ((None, ""), (GUARD, WITH_GUARD))
_COMPARED = ("wait_mean", "wait_p95", "bsld10_mean", "wait_max", "wide_wait_p99", "weighted_wait")
_FEW = 100_000
"""Simulated jobs up to which this process does everything: starting others takes longer."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How to simulate: the site's order, its processors (``None``: estimated), seeds of shaken workloads.

    ``jobs``: how many of the newest jobs.  ``processes``: ``None`` for one a core.
    """

    order: str = "fcfs"
    processors: int | None = None
    seeds: tuple[int, ...] = SEEDS
    jobs: int = JOBS
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class SimulationSkipped:
    """The reason why nothing was simulated, as a sentence without its full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The jobs to simulate and the machine.

    ``wait`` is the mean wait as recorded in seconds, ``None`` where starts are unknown.  ``of`` jobs could be
    simulated, the newest are ``jobs``; ``refused`` are larger than the machine.  ``usual``: the most processors in use
    during ``USUAL`` of the time, where the size is estimated.
    """

    jobs: Jobs
    of: int
    refused: int
    processors: int
    estimated: bool
    wait: float | None
    usual: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateSetting:
    """A way to switch soft walltimes on: ``name`` says it in words."""

    name: str
    policy: Policy
    evaluated: EvaluatedSetting

    @property
    def base(self) -> str:
        """The name without the guard."""
        return self.name.removesuffix(WITH_GUARD)

    @property
    def keeps_order(self) -> bool:
        """Whether the order of the queue stays as it is."""
        return self.policy.ordering == "walltime"


@dataclass(frozen=True, slots=True)
class SettingWaits:
    """What a setting did to waits.

    ``metrics`` are means over the workloads; ``changes`` are relative to today's setting, by metric; ``broken``,
    ``worse`` and ``better`` are shares: of promises that were broken, of jobs that waited at least 1 h more or less.
    ``waits`` is the mean wait in each workload.  ``classes``: by what makes the class, as for today.
    """

    setting: CandidateSetting
    metrics: Metrics
    changes: dict[str, Interval]
    broken: Interval
    worse: Interval
    better: Interval
    waits: tuple[float, ...]
    classes: dict[str, tuple[ClassWaits, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulationFigures:
    """The settings compared with ``baseline``: the site's order, EASY backfilling, walltimes.

    ``since`` and ``until`` are the first and last submission simulated, in epoch seconds.  ``classes``: the classes of
    jobs and their waits today, by what makes the class.  ``shake``: how the workloads differ
    (:func:`softwalltime.simulation.shaking.shaken`).  ``usual``: as in :class:`SimulationInput`.  ``unscored`` jobs
    have no walltime and only hold processors; the others used ``scored_share`` of the processor time.
    """

    order: str
    processors: int
    estimated: bool
    jobs: int
    of: int
    refused: int
    since: int
    until: int
    seeds: tuple[int, ...]
    recorded_wait: float | None
    baseline: Metrics
    settings: tuple[SettingWaits, ...]
    classes: dict[str, tuple[JobClass, ...]] = field(default_factory=dict)
    shake: str = "week"
    usual: int | None = None
    unscored: int = 0
    scored_share: float = 1.0


def prepare(workload: Workload, options: SimulationOptions) -> SimulationInput | SimulationSkipped:
    """Select the jobs to simulate, and the machine's size."""
    jobs = jobs_of(workload.jobs)
    lacking = jobs.left_out.get(NO_PROCESSORS, 0)
    if lacking > len(jobs):
        return SimulationSkipped(
            f"the records of {'all ' if not len(jobs) else f'{lacking:,} of the '}{lacking + len(jobs):,} jobs that "
            "ran hold no number of processors"
        )
    if not jobs.scored.any():
        return SimulationSkipped("no job has a runtime, a walltime and processors")
    known = int((jobs.completed.numbers("start") != -1).sum())
    if options.processors is None and 2 * known < len(jobs):
        return SimulationSkipped(
            f"{len(jobs) - known:,} of {len(jobs):,} records hold no start, so waits are unknown and the machine's "
            "size cannot be estimated; --processors gives it"
        )
    size = options.processors or jobs.peak()
    fitting, refused = jobs.that_fit(size)
    if not len(fitting):
        return SimulationSkipped(f"every job is larger than the {size:,} processors of --processors")
    newest = fitting.chosen(range(max(0, len(fitting) - options.jobs), len(fitting)))
    waits = [
        max(0, start - submitted)
        for start, submitted in zip(newest.completed.values("start"), newest.submitted, strict=True)
        if start is not None
    ]
    mean = float(np.mean(waits)) if 2 * len(waits) >= len(newest) else None
    estimated = options.processors is None
    usual = jobs.peak_during(USUAL) if estimated else None
    return SimulationInput(newest, len(fitting), refused, size, estimated, mean, usual)


def settings_to_simulate(
    half: EvaluatedSetting,
    cautious: EvaluatedSetting | None,
    bold: EvaluatedSetting | None,
    order: str,
    minimum: int = MINIMUM,
) -> list[CandidateSetting]:
    """The settings that a site can switch on, without and with the guard, then the queue ordered by prediction.

    :param half: of half the walltime.
    :param cautious: the most accurate predictor within the target, if any.
    :param bold: the most accurate predictor, if it is another one.
    """
    found = []
    for evaluated in (half, cautious, bold):
        if evaluated is not None:
            name = "half the walltime" if evaluated is half else evaluated.spec
            for guard, suffix in _GUARDS:
                policy = Policy(
                    order=order, waiting=evaluated.spec, guard=guard, minimum=minimum,
                    off_users=evaluated.users, off_queues=evaluated.queues,
                )  # fmt: skip
                found.append(CandidateSetting(name + suffix, policy, evaluated))
    predicted = cautious or bold
    if predicted is not None:
        for guard, suffix in _GUARDS:
            policy = Policy(
                order="xf", waiting=predicted.spec, ordering=predicted.spec, guard=guard, minimum=minimum,
                off_users=predicted.users, off_queues=predicted.queues,
            )  # fmt: skip
            found.append(CandidateSetting(f"queue ordered by {predicted.spec}{suffix}", policy, predicted))
    return found


def simulate_settings(
    recorded: SimulationInput,
    settings: Sequence[CandidateSetting],
    options: SimulationOptions,
    progress: Callable[[int], None] = lambda _: None,
    rename: Rename = lambda kind, name: name,
) -> SimulationFigures:
    """Simulate today's setting and the others on the same shaken workloads.

    :param progress: told the number of simulated jobs since it was last told, at most
        ``MOST_SETTINGS`` times jobs times seeds in all.
    :param rename: maps the names of users and queues to pseudonyms.
    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    minimum = settings[0].policy.minimum if settings else MINIMUM
    baseline = Policy(order=options.order, minimum=minimum)
    policies = list(dict.fromkeys([baseline, *(setting.policy for setting in settings)]))
    found: dict[tuple[Policy, int], SimulationResult] = {}
    for result in _results(recorded, baseline, policies, options, progress):
        found[result.policy, result.seed] = result
    today = [found[baseline, seed] for seed in options.seeds]
    jobs, processors = recorded.jobs, recorded.processors
    members = members_of(jobs, processors)
    classes_of_today = [one.classes for one in today]

    def compared(setting: CandidateSetting) -> SettingWaits:
        results = [found[setting.policy, seed] for seed in options.seeds]
        waits = compare(setting, [one.metrics for one in results], [one.metrics for one in today])
        classes = compare_classes(members, [one.classes for one in results], classes_of_today, rename)
        return replace(waits, classes=classes)

    return SimulationFigures(
        options.order, processors, recorded.estimated, len(jobs), recorded.of, recorded.refused, jobs.submitted[0],
        jobs.submitted[-1], options.seeds, recorded.wait, _means([one.metrics for one in today]),
        tuple(map(compared, settings)), classes_today(members, classes_of_today, rename), suitable_shake(jobs),
        recorded.usual, len(jobs) - int(jobs.scored.sum()), jobs.scored_share(),
    )  # fmt: skip


def compare(setting: CandidateSetting, metrics: Sequence[Metrics], baseline: Sequence[Metrics]) -> SettingWaits:
    """Compare a setting with today's, workload by workload."""
    changes = relative_changes(metrics, baseline)
    return SettingWaits(
        setting,
        _means(metrics),
        {name: changes[name] for name in _COMPARED},
        interval([one.broken or 0.0 for one in metrics]),
        interval([one.worse_1h or 0.0 for one in metrics]),
        interval([one.better_1h or 0.0 for one in metrics]),
        tuple(one.wait_mean or 0.0 for one in metrics),
    )


def _means(metrics: Sequence[Metrics]) -> Metrics:
    # A speed differs from run to run, and the same jobs must give the same report.
    return replace(means(metrics), jobs_per_second=None)


def _results(
    recorded: SimulationInput,
    baseline: Policy,
    policies: Sequence[Policy],
    options: SimulationOptions,
    progress: Callable[[int], None],
) -> Iterable[SimulationResult]:
    """The figures of all policies on all workloads, as they come."""
    jobs, seeds = recorded.jobs, options.seeds
    shake = suitable_shake(jobs)
    experiment = Experiment("", recorded.processors, baseline, shake, KINDS, largest=LARGEST)
    workers = local_workers(options.processes)
    if workers.processes == 1 or len(jobs) * len(policies) * len(seeds) <= _FEW:
        for seed in seeds:
            yield from results(shaken(jobs, shake, seed), experiment, policies, seed, progress)
        return
    with tempfile.TemporaryDirectory(prefix="softwalltime-report-") as folder:
        path = Path(folder) / "jobs.json"
        take(jobs.completed, TEACHING, path)
        todo = [(policy, seed) for seed in seeds for policy in policies]
        # Two tasks a workload, so that all processes have work until the end.
        work = tasks(experiment, path, TEACHING, todo, 2 * len(seeds))
        with closing(workers.do(evaluate, work)) as done:
            for some in done:
                yield from some
                progress(len(some) * len(jobs))
