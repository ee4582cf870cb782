"""Compute all figures of a report: replay each predictor once."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from softwalltime.core.formatting import DAY
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, Errors, Scores, score
from softwalltime.measure.replay.fast_replay import drive, drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.predict.policy.clamp import MIN_SOFT_WALLTIME_S
from softwalltime.predict.predictors.registry import BASELINE, make
from softwalltime.reports.candidates import common_candidates
from softwalltime.reports.columns import Rename, make_columns
from softwalltime.reports.groups import (
    Group,
    Shares,
    Walltimes,
    WeekRate,
    analyze_walltimes,
    group_jobs,
    rates_by_week,
    summarize_users,
    underestimation_limit,
)
from softwalltime.reports.likeness import Likeness
from softwalltime.reports.recommendation import Recommendation, recommend, too_early, unsimulated
from softwalltime.reports.simulation import (
    MAX_POLICIES,
    SettingWaits,
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    simulate_candidates,
)
from softwalltime.reports.simulation_document import Advice

MIN_COMPARED_JOBS = 2
"""Minimum scored jobs after the warm-up for a predictor to represent the others."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    ``target``: greatest share of promised starts that a recommended policy may break in the simulation.  ``minimum``:
    least soft walltime in seconds.  ``simulation``: ``None`` to simulate no waits.
    """

    specs: tuple[str, ...]
    target: float = 0.05
    minimum: int = MIN_SOFT_WALLTIME_S
    simulation: SimulationOptions | None = None


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One predictor's figures by user, project and queue, over all scored jobs.

    A group does not benefit if more than the share ``most_underestimated`` of its jobs is underestimated.
    """

    spec: str
    most_underestimated: float
    users: list[Group]
    projects: list[Group]
    queues: list[Group]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a report, in the order of its sections; missing figures are ``None`` or empty.

    By predictor: ``scores`` of all jobs and after the warm-up, ``accuracy_by_cpu_hours``: the mean weighted by
    processors x runtime, ``rates``: of underestimation by week, ``shares`` of the users that improve.
    """

    options: ReportOptions
    jobs: int
    scored: int
    skipped: dict[str, int]
    users: int
    since: int
    until: int
    project_field: str
    walltimes: Walltimes | None
    scores: dict[str, tuple[Scores, Scores]]
    accuracy_by_cpu_hours: dict[str, float]
    rates: dict[str, tuple[WeekRate, ...]]
    shares: dict[str, Shares]
    groups: GroupFigures | None
    simulation: SimulationFigures | SimulationSkipped
    recommendation: Recommendation


def total_work(options: ReportOptions, jobs: int) -> int:
    return jobs * (len(options.specs) + 1) + _simulation_work(options, jobs)


def make_report(
    workload: Workload, options: ReportOptions, rename: Rename = lambda kind, name: name,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:  # fmt: skip
    """Compute all figures.

    :param progress: called with each amount of work done, in total :func:`total_work`.
    """
    table = make_columns(workload, rename)
    replayed = drive_specs(workload, options.specs, minimum=options.minimum, progress=progress)
    soft = {spec: result.soft_walltimes for spec, result in replayed.items()}
    warmed_up = {spec: score(workload, values, WARM_UP_SHARE) for spec, values in soft.items() if spec != BASELINE}
    tried = {spec: scores for spec, scores in warmed_up.items() if scores.jobs >= MIN_COMPARED_JOBS}
    submitted = table.submitted[table.scored]
    days = float(submitted[-1] - submitted[0]) / DAY if len(submitted) else 0.0

    def distance(spec: str) -> tuple[float, float]:
        """Return the distance to the target: first in underestimation, then in accuracy."""
        scores = tried[spec]
        return max(0.0, (scores.underestimated or 0.0) - options.target), -(scores.accuracy_mean or 0.0)

    def most_underestimated(errors: Errors) -> float:
        return underestimation_limit(float(errors.under.mean()), options.target)

    focus = min(tried, key=distance, default="")
    advice = too_early(len(submitted), days)
    simulation: SimulationFigures | SimulationSkipped = SimulationSkipped("there are too few jobs")
    if advice is None:
        advice, simulation = _advise(workload, options, progress, rename)
        focus = advice.predictor or focus
    else:
        progress(_simulation_work(options, len(workload.jobs)))
    if focus and focus not in soft:
        soft[focus] = drive(workload, make(focus), options.minimum).soft_walltimes
    scored = table.scored
    errors = {spec: Errors.of(values[scored], table.walltime[scored], table.t[scored]) for spec, values in soft.items()}
    judged = {spec: of_spec for spec, of_spec in errors.items() if len(of_spec)}
    progress(len(workload.jobs))
    return Report(
        options=options,
        jobs=len(workload.jobs),
        scored=int(table.scored.sum()),
        skipped=workload.skipped(),
        users=len(table.user.names),
        since=int(table.submitted.min()),
        until=int(table.submitted.max()),
        project_field=table.project_field,
        walltimes=analyze_walltimes(table),
        scores={
            spec: (score(workload, values), score(workload, values, WARM_UP_SHARE)) for spec, values in soft.items()
        },
        accuracy_by_cpu_hours={
            spec: float(np.average(of_spec.accuracy, weights=table.cpu_seconds[scored]))
            for spec, of_spec in judged.items()
        },
        rates={spec: rates_by_week(submitted, of_spec.under) for spec, of_spec in judged.items() if spec != BASELINE},
        shares={
            spec: summarize_users(group_jobs(table, of_spec, table.user), most_underestimated(of_spec))
            for spec, of_spec in judged.items()
            if spec != BASELINE
        },
        groups=GroupFigures(
            focus,
            most_underestimated(judged[focus]),
            *(group_jobs(table, judged[focus], names) for names in (table.user, table.project, table.queue)),
        )
        if focus in judged
        else None,
        simulation=simulation,
        recommendation=advice,
    )


def _advise(
    workload: Workload, options: ReportOptions, progress: Callable[[int], None], rename: Rename
) -> tuple[Recommendation, SimulationFigures | SimulationSkipped]:
    work = _simulation_work(options, len(workload.jobs))
    simulation = options.simulation or SimulationOptions()
    prepared: SimulationInput | SimulationSkipped = SimulationSkipped("--no-simulation was given")
    if options.simulation is not None:
        prepared = prepare(workload, simulation)
    if isinstance(prepared, SimulationSkipped):
        progress(work)
        return unsimulated(prepared), prepared
    candidates = common_candidates(simulation.baseline)
    done = 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        progress(amount)

    _, simulated = simulate_candidates(prepared, candidates, simulation, lambda *_: nullcontext(advance), rename)
    progress(work - done)
    return recommend(simulated, options.target), simulated


def _simulation_work(options: ReportOptions, jobs: int) -> int:
    if options.simulation is None:
        return 0
    return min(jobs, options.simulation.jobs) * len(options.simulation.seeds) * MAX_POLICIES


_SHARES = ("broken_promises", "wait_longer", "wait_shorter")


@dataclass(frozen=True, slots=True)
class SettingDocument:
    """Simulated effect of a setting on waits."""

    keeps_order: bool
    """Whether the order of the queue is unchanged."""
    metrics: Metrics
    """Means over the shaken workloads."""
    relative_changes: dict[str, Interval]
    """Difference to today's schedule, divided by today's metric, by metric."""
    broken_promises: Interval
    """Share of the promised starts that were late."""
    wait_longer: Interval
    """Share of the jobs that waited at least an hour longer than today."""
    wait_shorter: Interval
    """Share of the jobs that waited at least an hour shorter than today."""


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """The verdict of a report, and the figures behind it."""

    COLUMNS: ClassVar = (
        "setting",
        "recommended",
        "keeps_order",
        *(field.name for field in fields(Metrics)),
        *(f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")),
        *(f"change_{name}{end}" for name in ("wait_mean", "wait_p95", "bsld10_mean") for end in ("", "_low", "_high")),
    )

    page: str
    """The file of the HTML page."""
    advice: Advice
    """What is recommended."""
    policy: str
    """Recommended settings of the daemon as TOML, with shadow mode first; empty: none."""
    target: float
    """Greatest share of promised starts that a recommended setting may break."""
    jobs: int
    """Number of jobs."""
    scored: int
    """Number of jobs that ran and had a walltime."""
    users: int
    """Number of users."""
    since: int
    """The first submission, epoch seconds."""
    until: int
    """The last submission, epoch seconds."""
    selection: str | None
    """Which jobs were selected; null: all."""
    predictors: dict[str, Scores]
    """Figures of each predictor over all scored jobs."""
    after_warm_up: dict[str, Scores]
    """The same without the first 1% of the jobs."""
    not_simulated: str | None
    """Why waits were not simulated; null: they were."""
    processors: int | None
    """Size of the simulated machine."""
    processors_estimated: bool
    """Whether the size is estimated as the maximum in use at one time."""
    simulated_jobs: int
    """Number of simulated jobs."""
    seeds: tuple[int, ...]
    """Seeds of the shaken workloads."""
    likeness: Likeness | None
    """Recorded waits beside simulated ones; null: not simulated, or starts are not recorded."""
    today: Metrics | None
    """Means over the workloads with the site's current policy."""
    settings: dict[str, SettingDocument]
    """Each simulated setting, by name."""

    @classmethod
    def of(cls, found: Report, page: str, selection: str) -> "ReportDocument":
        """Return the document about a report.

        :param selection: which jobs were selected; empty: all.
        """
        simulated = found.simulation if isinstance(found.simulation, SimulationFigures) else None
        return cls(
            page=page,
            advice=Advice.of(found.recommendation),
            policy=found.recommendation.policy,
            target=found.options.target,
            jobs=found.jobs,
            scored=found.scored,
            users=found.users,
            since=found.since,
            until=found.until,
            selection=selection or None,
            predictors={spec: scores for spec, (scores, _) in found.scores.items()},
            after_warm_up={spec: scores for spec, (_, scores) in found.scores.items()},
            not_simulated=found.simulation.reason if isinstance(found.simulation, SimulationSkipped) else None,
            processors=simulated.processors if simulated else None,
            processors_estimated=simulated.estimated if simulated else False,
            simulated_jobs=simulated.jobs if simulated else 0,
            seeds=simulated.seeds if simulated else (),
            likeness=simulated.likeness if simulated else None,
            today=simulated.baseline if simulated else None,
            settings={one.setting.name: _setting(one) for one in (simulated.settings if simulated else ())},
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        if self.today is not None:
            yield {"setting": "today", "recommended": False, "keeps_order": True, **asdict(self.today)}
        for name, setting in self.settings.items():
            row: dict[str, Any] = {
                "setting": name,
                "recommended": name == self.advice.name,
                "keeps_order": setting.keeps_order,
            }
            row |= asdict(setting.metrics)
            for key in _SHARES:
                row |= getattr(setting, key).columns(key)
            for metric, change in setting.relative_changes.items():
                row |= change.columns(f"change_{metric}")
            yield row


def _setting(waits: SettingWaits) -> SettingDocument:
    return SettingDocument(
        waits.setting.keeps_order, waits.metrics, waits.changes, waits.broken, waits.worse, waits.better
    )
