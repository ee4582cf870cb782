"""Simulate settings on the site's own jobs, and compare their waits over shaken workloads.

A single schedule depends on chance, so every change is a mean over pairs of schedules
of the same shaken workload, with a 95% confidence interval.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from softwalltime.core.formatting import MINUTE, plural
from softwalltime.core.progress import ShowProgress, no_progress
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.workload import Recorded
from softwalltime.measure.simulation.differences import Interval, interval, means, relative_changes
from softwalltime.measure.simulation.engine import one_pool
from softwalltime.measure.simulation.names import CLASSES
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.runs import (
    Experiment,
    SimulationPlan,
    SimulationResult,
    run_simulations,
)
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.measure.simulation.shaking import AS_SUBMITTED, suitable_shake
from softwalltime.measure.simulation.simulated_jobs import NO_PROCESSORS, Jobs, jobs_of
from softwalltime.reports.candidates import BASELINES, CHANCE, STRICT_ARRIVAL, TODAY, Baseline, Candidate, chance_policy
from softwalltime.reports.likeness import Likeness, measure_likeness
from softwalltime.reports.machine_step import MachineStep, machine_step
from softwalltime.reports.simulable_jobs import FIRST, Totals, newest_jobs, use
from softwalltime.reports.waits_by_class import (
    MAX_CLASSES,
    ClassWaits,
    JobClass,
    Rename,
    classes_today,
    compare_classes,
    members_of,
)

SEEDS = tuple(range(31, 41))
JOBS = 50_000
"""Default number of jobs to simulate, the newest ones."""
TAILS = ("wait_p99", "widest_wait_p99", "wide_wait_p99", "longest_wait_p99")
"""99th percentiles of the wait: of all jobs, the widest tenth, those on half the machine or more, the longest tenth."""
_RESERVATION = re.compile(r"[RSM]\d+")
"""Name of the queue of a reservation."""
_COMPARED = ("wait_mean", "wait_p95", "bsld10_mean", "wait_max", "weighted_wait", *TAILS)


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How to simulate: what the site runs, its processors (``None``: estimated), the seeds.

    ``jobs``: how many of the newest jobs; 0: nothing is simulated.  ``processes``: ``None`` for one a core.  ``keep``:
    the file that saves results, and from which an interrupted run continues.
    """

    baseline: Baseline = STRICT_ARRIVAL
    processors: int | None = None
    seeds: tuple[int, ...] = SEEDS
    jobs: int = JOBS
    processes: int | None = None
    keep: Path | None = None

    @property
    def workloads(self) -> tuple[int, ...]:
        """The seeds of the shaken workloads, and the workload as it is recorded."""
        return (*self.seeds, AS_SUBMITTED)


@dataclass(frozen=True, slots=True)
class SimulationSkipped:
    """Reason why nothing was simulated, without its full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The jobs to simulate and the machine.

    ``of`` jobs could be simulated, the newest are ``jobs``; ``refused`` are larger than the machine.
    ``scored_share``: share of the processor time of all jobs, refused ones included, that jobs with a walltime used.
    ``teaching``: end states of the jobs to learn.  ``step``: the last change of the machine; earlier jobs are left out.
    """

    jobs: Jobs
    of: int
    refused: int
    processors: int
    estimated: bool
    scored_share: float = 1.0
    teaching: Collection[State] = TEACHING
    step: MachineStep | None = None


@dataclass(frozen=True, slots=True)
class SettingWaits:
    """Effect of a setting on waits.

    ``metrics`` are means over the workloads; ``changes`` are relative to the baseline, by metric; ``broken``,
    ``worse`` and ``better`` are shares: of promised starts that came later, of jobs that waited at least 1 h more or
    less.  ``added`` is ``broken`` less what the baseline breaks on the same workload.  ``waits`` is the mean wait in
    each workload.  ``as_submitted`` is the relative change of the mean wait in the workload as it is recorded,
    without an interval.  ``classes``: by what makes the class, as for the baseline.
    """

    setting: Candidate
    metrics: Metrics
    changes: dict[str, Interval]
    broken: Interval
    added: Interval
    worse: Interval
    better: Interval
    waits: tuple[float, ...]
    as_submitted: Interval = field(default_factory=Interval)
    classes: dict[str, tuple[ClassWaits, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulationFigures:
    """The candidates compared with what the site runs, ``order``: the name of the baseline, with PBS's cycle.

    ``since`` and ``until`` are the first and last submission simulated, in epoch seconds.  ``classes``: the classes of
    jobs and their waits in the baseline, by what makes the class.  ``shake``: how the workloads differ
    (:mod:`softwalltime.measure.simulation.shaking`).  ``scored_share``: as in :class:`SimulationInput`.
    ``unscored`` jobs have no walltime and only hold processors.  ``chance``: result of the placebo policy.
    ``scheduler``: the site's current policy; ``remarks``: its features that are not simulated.
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
    likeness: Likeness | None
    baseline: Metrics
    settings: tuple[SettingWaits, ...]
    chance: SettingWaits
    classes: dict[str, tuple[JobClass, ...]] = field(default_factory=dict)
    shake: str = "week"
    unscored: int = 0
    scored_share: float = 1.0
    remarks: tuple[str, ...] = ()
    scheduler: SchedulerPolicy = BASELINES[TODAY]
    step: MachineStep | None = None

    @property
    def by_name(self) -> dict[str, Metrics]:
        """The metrics of all that was simulated, by name: the baseline first, chance last."""
        return {self.order: self.baseline} | {
            waits.setting.name: waits.metrics for waits in (*self.settings, self.chance)
        }


def prepare(workload: Recorded, options: SimulationOptions) -> SimulationInput | SimulationSkipped:
    if not options.jobs:
        return SimulationSkipped("--no-simulation or --simulated-jobs 0 was given")
    totals = Totals.of(workload)
    count, lacking = totals.jobs, totals.left_out[NO_PROCESSORS]
    if lacking > count:
        return SimulationSkipped(
            f"the records of {f'{lacking:,} of the ' if count else 'all '}{lacking + count:,} jobs that "
            "ran hold no number of processors"
        )
    if not totals.limited:
        return SimulationSkipped("no job has a runtime, a walltime and processors")
    # Without most starts the use of the machine is not known.
    known = 2 * totals.known >= count
    if options.processors is None and not known:
        return SimulationSkipped(
            f"{count - totals.known:,} of {count:,} records hold no start, so waits are unknown and the machine's "
            "size cannot be estimated; --processors gives it"
        )
    begin = totals.first_start
    vnodes = options.baseline.policy.vnodes
    step = machine_step(begin, use(workload, begin, vnodes=vnodes)) if known else None
    since = FIRST if step is None else step.since
    size = options.processors or max(int(used.max()) for _, used in use(workload, begin, since, vnodes))
    newest = newest_jobs(workload, options.jobs, size, since, vnodes)
    if not newest.of:
        return SimulationSkipped(f"every job is larger than the {size:,} processors of --processors")
    jobs = jobs_of(workload.chosen(newest.numbers), workload.teaching, vnodes=vnodes)
    jobs = replace(jobs, left_out=dict(+totals.left_out))
    return SimulationInput(
        jobs, newest.of, newest.refused, size, options.processors is None, newest.scored_share, workload.teaching, step
    )


def simulate_candidates(
    recorded: SimulationInput, candidates: Sequence[Candidate], options: SimulationOptions,
    show: ShowProgress = no_progress, rename: Rename = lambda kind, name: name,
) -> SimulationFigures:  # fmt: skip
    """Simulate candidates and the baseline, and compare them.

    :param show: shows the number of simulated jobs.
    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    site = options.baseline.policy
    policies = [site, chance_policy(site), *(candidate.policy for candidate in candidates)]
    plan = SimulationPlan(
        experiment_of(recorded, site), {policy.name: policy for policy in policies}, options.workloads,
        recorded.jobs, tuple(sorted(recorded.teaching)),
    )  # fmt: skip
    found = run_simulations(plan, show, options.keep, options.processes)
    return compare_candidates(recorded, candidates, options, found, rename)


def experiment_of(recorded: SimulationInput, baseline: SchedulerPolicy) -> Experiment:
    """Return the settings of the simulations that :func:`compare_candidates` needs."""
    shake = suitable_shake(recorded.jobs)
    return Experiment("", recorded.processors, baseline, shake, CLASSES, largest=MAX_CLASSES)


def compare_candidates(
    recorded: SimulationInput, candidates: Sequence[Candidate], options: SimulationOptions,
    found: Mapping[tuple[SchedulerPolicy, int], SimulationResult], rename: Rename = lambda kind, name: name,
) -> SimulationFigures:  # fmt: skip
    """Compare simulated candidates with the baseline, and the baseline with the log.

    :param found: the results of the baseline, of chance and of the candidates by policy and seed, with all classes;
        also of the workload as it is recorded, if the change there is wanted.
    """
    jobs, processors = recorded.jobs, recorded.processors
    site = options.baseline.policy
    today = [found[site, seed] for seed in options.seeds]
    members = members_of(jobs, processors)
    classes_of_today = [run.classes for run in today]

    def compared(candidate: Candidate) -> SettingWaits:
        results = [found[candidate.policy, seed] for seed in options.seeds]
        waits = compare(candidate, [run.metrics for run in results], [run.metrics for run in today])
        classes = compare_classes(members, [run.classes for run in results], classes_of_today, rename)
        runs = (found.get((policy, AS_SUBMITTED)) for policy in (candidate.policy, site))
        both = [run.metrics for run in runs if run is not None]
        as_submitted = relative_changes(both[:1], both[1:])["wait_mean"]
        return replace(waits, as_submitted=as_submitted, classes=classes)

    remarks = (*options.baseline.remarks, *_remarks(jobs, site, processors))
    return SimulationFigures(
        options.baseline.name, processors, recorded.estimated, len(jobs), recorded.of, recorded.refused,
        jobs.submitted[0], jobs.submitted[-1], options.seeds, measure_likeness(jobs, processors, site),
        _means([run.metrics for run in today]), tuple(map(compared, candidates)),
        compared(Candidate(CHANCE, chance_policy(site))), classes_today(jobs, members, classes_of_today, rename),
        suitable_shake(jobs), len(jobs) - int(jobs.scored.sum()), recorded.scored_share,
        remarks, site, recorded.step,
    )  # fmt: skip


def _remarks(jobs: Jobs, site: SchedulerPolicy, processors: int) -> Iterator[str]:
    """Yield remarks on jobs of the log that PBS treats otherwise than the simulation does."""
    if (servers := len(set(jobs.completed.values("server")))) > 1:
        yield f"the jobs of {servers} servers share one queue and machine; give the logs of one server"
    if reserved := sum(_RESERVATION.fullmatch(queue or "") is not None for queue in jobs.completed.values("queue")):
        yield f"{plural(reserved, 'job')} in reservations (queues such as R12) wait for processors as all others do"
    if caution := one_pool(jobs, processors, site):
        yield caution
    if not site.vnodes and (whole := sum("excl" in (place or "") for place in jobs.completed.values("place"))):
        yield f"{plural(whole, 'job')} with whole vnodes (place=excl) count with the processors that they request"
    queued = np.maximum(jobs.completed.numbers("submitted"), jobs.completed.numbers("qtime"))
    late = int((np.array(jobs.submitted) > queued + MINUTE).sum())
    if late and site.order == "fcfs":
        yield (
            f"{plural(late, 'held or dependent job')} joined the queue at the release; PBS gives the place of the "
            "submission in order of arrival"
        )


def compare(setting: Candidate, metrics: Sequence[Metrics], baseline: Sequence[Metrics]) -> SettingWaits:
    """Compare a candidate with the baseline, workload by workload."""
    changes = relative_changes(metrics, baseline)
    return SettingWaits(
        setting,
        _means(metrics),
        {name: changes[name] for name in _COMPARED},
        interval([run.broken or 0.0 for run in metrics]),
        interval([(one.broken or 0.0) - (other.broken or 0.0) for one, other in zip(metrics, baseline, strict=True)]),
        interval([run.worse_1h or 0.0 for run in metrics]),
        interval([run.better_1h or 0.0 for run in metrics]),
        tuple(run.wait_mean or 0.0 for run in metrics),
    )


def _means(metrics: Sequence[Metrics]) -> Metrics:
    # Omit the speed: equal jobs must give equal reports.
    return replace(means(metrics), jobs_per_second=None)
