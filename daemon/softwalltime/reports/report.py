"""Compute all figures of a report: replay each predictor once."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from softwalltime.formatting import DAY
from softwalltime.jobs import DecisionRecord
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.drive import drive, drive_specs
from softwalltime.replay.lower_bound import LowerBound, find_lower_bound
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis import groups, periods
from softwalltime.reports.analysis.groups import Group, Shares
from softwalltime.reports.analysis.periods import PeriodWaits, Span, Week
from softwalltime.reports.analysis.predictions import Evaluation, Predictions, analyze_predictions, evaluate
from softwalltime.reports.analysis.walltimes import Walltimes, analyze_walltimes
from softwalltime.reports.candidates import common_candidates
from softwalltime.reports.columns import Columns, Integers, Rename, make_columns
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

MIN_COMPARED_JOBS = 2
"""Scored jobs after the warm-up without which no predictor stands for the others."""
MEMORIZER = "memorizer"
"""The predictor whose error stands beside the least possible one."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    ``target``: greatest share of promised starts that a recommended policy may break in the simulation.  ``minimum``:
    least soft walltime in seconds.  ``split``: epoch second between before and after, ``None`` for the first soft
    walltime.  ``simulation``: ``None`` to simulate no waits.  ``compare``: two periods to compare instead, each from
    its first epoch second to before its last.
    """

    specs: tuple[str, ...]
    target: float = 0.05
    minimum: int = MINIMUM
    split: int | None = None
    simulation: SimulationOptions | None = None
    compare: tuple[tuple[int, int], tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One predictor's figures by user, project and queue, over all scored jobs.

    A group does not benefit if more than the share ``most_underestimated`` of its jobs is underestimated.
    """

    spec: str
    shares: Shares
    most_underestimated: float
    users: list[Group]
    projects: list[Group]
    queues: list[Group]


@dataclass(frozen=True, slots=True)
class ProductionFigures:
    """Figures since soft walltimes are set; ``raised`` as in :class:`.analysis.periods.WorkloadPredictions`.

    ``adjusted`` jobs had a soft walltime, ``shadow`` jobs were predicted in shadow mode, where nothing is set, and were
    submitted in ``shadow_span``.  ``without_waits``: the periods to compare that have no job with a known wait.
    """

    adjusted: int
    shadow: int
    shadow_span: Span | None
    raised: int
    weeks: list[Week]
    periods: tuple[PeriodWaits, PeriodWaits] | None
    without_waits: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a report, in the order of its sections; missing figures are ``None`` or empty."""

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
    floor: LowerBound | None
    memorizer: Scores | None
    predictions: tuple[Predictions, ...]
    shares: dict[str, Shares]
    for_whom: GroupFigures | None
    happened: ProductionFigures
    simulation: SimulationFigures | SimulationSkipped
    recommendation: Recommendation


def total_work(options: ReportOptions, jobs: int) -> int:
    """Return the total of the progress that :func:`make_report` reports."""
    return jobs * (len(options.specs) + 1) + _simulation_work(options, jobs)


def make_report(
    workload: Workload,
    options: ReportOptions,
    rename: Rename = lambda kind, name: name,
    decisions: Iterable[DecisionRecord] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Compute all figures.

    :param rename: maps names to pseudonyms.
    :param decisions: recorded decisions, if the jobs come from the store.
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
    judged = {spec: evaluate(table, spec, values) for spec, values in soft.items()} if len(submitted) else {}
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
        floor=find_lower_bound(workload),
        memorizer=_memorizer(workload, soft, options.minimum),
        predictions=tuple(analyze_predictions(table, evaluation) for evaluation in judged.values()),
        shares={
            spec: _summarize_users(table, evaluation, options.target)
            for spec, evaluation in judged.items()
            if spec != BASELINE
        },
        for_whom=_group_figures(table, judged[focus], options.target) if focus in judged else None,
        happened=_since(workload, table, options, decisions),
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


def _memorizer(workload: Workload, soft: Mapping[str, Integers], minimum: int) -> Scores | None:
    """Return the scores of the median runtime of the jobs with the same signature; ``None`` without scored jobs."""
    if not workload.scored.any():
        return None
    known = soft.get(MEMORIZER)
    return score(workload, drive(workload, make(MEMORIZER), minimum).soft_walltimes if known is None else known)


def _distance(scores: Scores, target: float) -> tuple[float, float]:
    """Return the distance to the target: first in underestimation, then in accuracy."""
    return max(0.0, (scores.underestimated or 0.0) - target), -(scores.accuracy_mean or 0.0)


def _group_figures(table: Columns, focus: Evaluation, target: float) -> GroupFigures:
    users, projects, queues = (
        groups.group_jobs(table, focus, names) for names in (table.user, table.project, table.queue)
    )  # fmt: skip
    most = _most_underestimated(focus, target)
    return GroupFigures(focus.spec, groups.summarize_users(users, most), most, users, projects, queues)


def _summarize_users(table: Columns, judged: Evaluation, target: float) -> Shares:
    return groups.summarize_users(groups.group_jobs(table, judged, table.user), _most_underestimated(judged, target))


def _most_underestimated(judged: Evaluation, target: float) -> float:
    """Return the share of underestimated jobs beyond which a group does not improve with a predictor."""
    return groups.underestimation_limit(float((judged.errors.error < 0).mean()), target)


def _since(
    workload: Workload, table: Columns, options: ReportOptions, decisions: Iterable[DecisionRecord]
) -> ProductionFigures:
    predicted = periods.from_decisions(workload, decisions, periods.recorded_predictions(table))
    both = periods.split_spans(table, predicted, options.split)
    if options.compare is not None:
        both = Span(*options.compare[0]), Span(*options.compare[1])
    waits = [periods.summarize_period(table, span, predicted) for span in both or ()]
    pair = (waits[0], waits[1]) if len(waits) == 2 and waits[0] is not None and waits[1] is not None else None
    return ProductionFigures(
        int(predicted.applied.sum()), int(predicted.shadow.sum()), periods.shadow_span(table, predicted),
        predicted.raised, periods.summarize_weeks(table, predicted), pair,
        tuple(span for span, of_span in zip(both or (), waits, strict=True) if of_span is None),
    )  # fmt: skip
