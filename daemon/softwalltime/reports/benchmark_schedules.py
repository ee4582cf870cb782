"""Schedules in a benchmark: policies on shaken workloads of a log, and the class of jobs that each one costs most."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from softwalltime.core.progress import ShowProgress
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs
from softwalltime.reports.candidates import BASELINES, Candidate, preset_policy
from softwalltime.reports.recommendation import watched
from softwalltime.reports.simulation import (
    SettingWaits,
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    simulate_candidates,
)
from softwalltime.reports.waits_by_class import NOTABLE_WAIT_S

_NO_CHANGE = Interval()


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One policy on one log: means over shaken workloads, and changes against today's policy, workload by workload."""

    log: str
    """Name of the log."""
    policy: str
    """Name of the policy; today: first come, first served, PBS's cycle and walltimes; chance: a placebo."""
    processors: int
    """Size of the machine."""
    jobs: int
    """Number of simulated jobs."""
    workloads: int
    """Number of shaken workloads."""
    shake: str
    """How they were shaken: week; jitter where there are few users, and then the intervals are too narrow."""
    wait_mean: float | None
    """Mean wait in seconds."""
    bsld10_mean: float | None
    """Mean bounded slowdown: max(1, (wait + run) / max(run, 10 s))."""
    broken: float | None
    """Share of the starts promised to top jobs that were late."""
    change_wait_mean: Interval = _NO_CHANGE
    """Relative change of the mean wait."""
    change_bsld10_mean: Interval = _NO_CHANGE
    """Relative change of the mean bounded slowdown."""
    worst_class: str = ""
    """The class by runtime, size, queue or user, of 50 jobs or more, whose mean wait changes by at least a minute and,
    relatively, grows most; users have numbers, those with most jobs first."""
    worst_wait_mean: float | None = None
    """Mean wait of that class in seconds."""
    change_worst_class: Interval = _NO_CHANGE
    """Relative change of that wait."""
    worst_slowdown_class: str = ""
    """That of these classes whose mean bounded slowdown grows most."""
    worst_bsld10_mean: float | None = None
    """Mean bounded slowdown of that class."""
    change_worst_slowdown: Interval = _NO_CHANGE
    """Relative change of that slowdown."""


def published_policies() -> dict[str, SchedulerPolicy]:
    """Return WFP, F1 to F4, and the presets that change the order of the queue."""
    learned = {order.upper(): replace(BASELINES["WFP"], order=order) for order in ("f1", "f2", "f3", "f4")}
    presets = {name: preset_policy(name) for name in ("balanced", "order")}
    return {"WFP": BASELINES["WFP"], **learned, **presets}


def schedule_rows(
    log: str, jobs: Jobs, policies: Mapping[str, SchedulerPolicy], options: SimulationOptions, show: ShowProgress
) -> Iterator[ScheduleRow]:
    """Simulate today's policy, the others and a placebo.

    :raises SoftwalltimeError: if a predictor raises, or a process is killed.
    """
    candidates = [Candidate(name, policy) for name, policy in policies.items() if policy != options.baseline.policy]
    # The page is made to be published, so users have numbers instead of names.
    users: dict[str, int] = {}
    recorded = SimulationInput(jobs, len(jobs), 0, options.processors or jobs.peak(), estimated=False)
    figures = simulate_candidates(
        recorded, candidates, options, show,
        lambda kind, name: name if kind == "queue" else f"no. {users.setdefault(name, len(users) + 1)}",
    )  # fmt: skip
    head, today = (figures.processors, figures.jobs, len(figures.seeds), figures.shake), figures.baseline
    yield ScheduleRow(log, figures.order, *head, today.wait_mean, today.bsld10_mean, today.broken)
    for waits in (*figures.settings, figures.chance):
        metrics, changes = waits.metrics, waits.changes
        yield ScheduleRow(
            log, waits.setting.name, *head, metrics.wait_mean, metrics.bsld10_mean, metrics.broken,
            changes["wait_mean"], changes["bsld10_mean"],
            *_worst(figures, waits, "wait_mean"), *_worst(figures, waits, "bsld10_mean"),
        )  # fmt: skip


def _worst(figures: SimulationFigures, waits: SettingWaits, metric: str) -> tuple[str, float | None, Interval]:
    """Return the class whose metric grows most, the metric, and its relative change."""
    notable = (
        (name, getattr(then.metrics, metric), then.changes[metric])
        for name, then in watched(figures, waits).items()
        if abs(then.differences["wait_mean"].mean or 0.0) >= NOTABLE_WAIT_S
    )
    return max(notable, key=lambda growth: growth[2].mean or 0.0, default=("", None, _NO_CHANGE))
