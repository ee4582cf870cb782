"""Compute all figures of a report: replay each predictor once."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from softwalltime.formatting import DAY
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.fast_replay import drive, drive_specs
from softwalltime.replay.metrics import WARM_UP, Errors, Scores, score
from softwalltime.replay.workload import Workload
from softwalltime.reports.candidates import common_candidates
from softwalltime.reports.columns import Columns, Rename, make_columns
from softwalltime.reports.groups import Group, Shares, group_jobs, summarize_users, underestimation_limit
from softwalltime.reports.rates import WeekRate, rates_by_week
from softwalltime.reports.recommendation import Recommendation, recommend, too_early, unsimulated
from softwalltime.reports.simulation import (
    MAX_POLICIES,
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
    simulate_candidates,
)
from softwalltime.reports.walltimes import Walltimes, analyze_walltimes

MIN_COMPARED_JOBS = 2
"""Scored jobs after the warm-up without which no predictor stands for the others."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    ``target``: greatest share of promised starts that a recommended policy may break in the simulation.  ``minimum``:
    least soft walltime in seconds.  ``simulation``: ``None`` to simulate no waits.
    """

    specs: tuple[str, ...]
    target: float = 0.05
    minimum: int = MINIMUM
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
    """Return the total of the progress that :func:`make_report` reports."""
    return jobs * (len(options.specs) + 1) + _simulation_work(options, jobs)


def make_report(
    workload: Workload,
    options: ReportOptions,
    rename: Rename = lambda kind, name: name,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Compute all figures.

    :param rename: maps names to pseudonyms.
    :param progress: called with each amount of work done, in total :func:`total_work`.
    """
    table = make_columns(workload, rename)
    replayed = drive_specs(workload, options.specs, minimum=options.minimum, progress=progress)
    soft = {spec: result.soft_walltimes for spec, result in replayed.items()}
    warmed_up = {spec: score(workload, values, WARM_UP) for spec, values in soft.items() if spec != BASELINE}
    tried = {spec: scores for spec, scores in warmed_up.items() if scores.jobs >= MIN_COMPARED_JOBS}
    submitted = table.submitted[table.scored]
    days = float(submitted[-1] - submitted[0]) / DAY if len(submitted) else 0.0
    focus = min(tried, key=lambda spec: _distance(tried[spec], options.target), default="")
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
        scores={spec: (score(workload, values), score(workload, values, WARM_UP)) for spec, values in soft.items()},
        accuracy_by_cpu_hours={
            spec: float(np.average(of_spec.accuracy, weights=table.cpu_seconds[scored]))
            for spec, of_spec in judged.items()
        },
        rates={spec: rates_by_week(submitted, of_spec.under) for spec, of_spec in judged.items() if spec != BASELINE},
        shares={
            spec: summarize_users(
                group_jobs(table, of_spec, table.user), _underestimation_limit(of_spec, options.target)
            )
            for spec, of_spec in judged.items()
            if spec != BASELINE
        },
        groups=_group_figures(table, focus, judged[focus], options.target) if focus in judged else None,
        simulation=simulation,
        recommendation=advice,
    )


def _advise(
    workload: Workload, options: ReportOptions, progress: Callable[[int], None], rename: Rename
) -> tuple[Recommendation, SimulationFigures | SimulationSkipped]:
    """Simulate and recommend."""
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
    """Return the most progress that the simulation can report."""
    if options.simulation is None:
        return 0
    return min(jobs, options.simulation.jobs) * len(options.simulation.seeds) * MAX_POLICIES


def _distance(scores: Scores, target: float) -> tuple[float, float]:
    """Return the distance to the target: first in underestimation, then in accuracy."""
    return max(0.0, (scores.underestimated or 0.0) - target), -(scores.accuracy_mean or 0.0)


def _group_figures(table: Columns, spec: str, errors: Errors, target: float) -> GroupFigures:
    users, projects, queues = (group_jobs(table, errors, names) for names in (table.user, table.project, table.queue))
    return GroupFigures(spec, _underestimation_limit(errors, target), users, projects, queues)


def _underestimation_limit(errors: Errors, target: float) -> float:
    """Return the share of underestimated jobs beyond which a group does not improve with a predictor."""
    return underestimation_limit(float(errors.under.mean()), target)
