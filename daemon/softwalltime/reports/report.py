"""Compute all figures of a report: replay each predictor once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from softwalltime.formatting import DAY
from softwalltime.jobs import DecisionRecord
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.drive import drive
from softwalltime.replay.metrics import WARM_UP, Scores, score
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis import groups, periods, settings
from softwalltime.reports.analysis.groups import Group, Shares
from softwalltime.reports.analysis.halves import Halves, evaluate_halves, has_both_halves, older_half
from softwalltime.reports.analysis.periods import PeriodWaits, Span, Week
from softwalltime.reports.analysis.predictions import Evaluation, Predictions, analyze_predictions, evaluate
from softwalltime.reports.analysis.settings import PASSES, PercentileSetting
from softwalltime.reports.analysis.walltimes import Walltimes, analyze_walltimes
from softwalltime.reports.columns import Columns, Integers, Rename, make_columns
from softwalltime.reports.recommendation import Choice, Recommendation, choose, conclude, queues_to_leave_out


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    ``target``: greatest share of jobs that a recommended predictor may underestimate.  ``minimum``: least soft walltime
    in seconds.  ``split``: epoch second between before and after, ``None`` for the first soft walltime.  ``grid``:
    whether to evaluate the settings of the percentile predictor.
    """

    specs: tuple[str, ...]
    target: float = 0.05
    minimum: int = MINIMUM
    grid: bool = True
    split: int | None = None


@dataclass(frozen=True, slots=True)
class ForWhom:
    """One predictor's figures by user, project and queue."""

    spec: str
    shares: Shares
    users: list[Group]
    projects: list[Group]
    queues: list[Group]


@dataclass(frozen=True, slots=True)
class Since:
    """What happened since soft walltimes are set; ``raised`` as in :class:`.analysis.periods.Predicted`.

    ``adjusted`` jobs had a soft walltime, ``shadow`` jobs were predicted in shadow mode, where nothing is set, and were
    submitted in ``shadow_span``.
    """

    adjusted: int
    shadow: int
    shadow_span: Span | None
    raised: int
    weeks: list[Week]
    periods: tuple[PeriodWaits, PeriodWaits] | None


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
    predictions: tuple[Predictions, ...]
    shares: dict[str, Shares]
    for_whom: ForWhom | None
    settings: list[PercentileSetting]
    best: PercentileSetting | None
    happened: Since
    recommendation: Recommendation


def total_work(options: ReportOptions, jobs: int) -> int:
    """Return the total of the progress that :func:`make_report` reports."""
    return jobs * (len(options.specs) + (PASSES if options.grid else 0) + 1)


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
    soft = {spec: drive(workload, make(spec), options.minimum, progress).soft_walltimes for spec in options.specs}
    grid = settings.evaluate_settings(workload, table, options.minimum, progress) if options.grid else []

    tried = {spec: evaluate_halves(table, spec, each) for spec, each in soft.items()} if has_both_halves(table) else {}
    walltime = tried.pop(BASELINE, None)
    candidates = [*tried.values(), *(setting.halves for setting in grid)]
    submitted = table.submitted[table.scored]
    days = float(submitted[-1] - submitted[0]) / DAY if len(submitted) else 0.0
    choice = choose(walltime, candidates, options.target, len(submitted), days)
    if isinstance(choice, Choice):
        spec = choice.predictor.spec
        if spec not in soft:
            soft[spec] = drive(workload, make(spec), options.minimum).soft_walltimes
        advice, focus = _conclude(table, choice, soft[spec], options.target), spec
    else:
        focus = min(tried, key=lambda spec: _distance(tried[spec], options.target), default="")
        advice = choice
    judged = {spec: evaluate(table, spec, each) for spec, each in soft.items()} if len(submitted) else {}
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
        scores={spec: (score(workload, each), score(workload, each, WARM_UP)) for spec, each in soft.items()},
        predictions=tuple(analyze_predictions(table, one) for one in judged.values()),
        shares={
            spec: groups.summarize_users(groups.group_jobs(table, one, table.user))
            for spec, one in judged.items()
            if spec != BASELINE
        },
        for_whom=_for_whom(table, judged[focus]) if focus in judged else None,
        settings=grid,
        best=settings.best_setting(grid, options.target),
        happened=_since(workload, table, options.split, decisions),
        recommendation=advice,
    )


def _conclude(table: Columns, choice: Choice, soft: Integers, target: float) -> Recommendation:
    """Return the recommendation for the selected predictor, with queues excluded."""
    spec = choice.predictor.spec
    queues = groups.group_jobs(table, evaluate(table, spec, soft), table.queue, older_half(table))
    leave_out = queues_to_leave_out(queues, target)
    names = {queue.name for queue in leave_out}
    out = np.array([name in names for name in table.queue.names], np.bool_)[table.queue.codes]
    without = evaluate_halves(table, spec, np.where(out, -1, soft))
    return conclude(choice, without, target, leave_out, int(table.scored.sum()))


def _distance(one: Halves, target: float) -> tuple[float, float]:
    """Return the distance to the target: first in underestimation, then in accuracy."""
    return max(0.0, one.whole.underestimated - target), -one.whole.accuracy


def _for_whom(table: Columns, focus: Evaluation) -> ForWhom:
    users, projects, queues = (
        groups.group_jobs(table, focus, names) for names in (table.user, table.project, table.queue)
    )  # fmt: skip
    return ForWhom(focus.spec, groups.summarize_users(users), users, projects, queues)


def _since(workload: Workload, table: Columns, split: int | None, decisions: Iterable[DecisionRecord]) -> Since:
    predicted = periods.from_decisions(workload, decisions, periods.recorded_predictions(table))
    both = periods.split_spans(table, predicted, split)
    found = [periods.summarize_period(table, span) for span in both or ()]
    pair = (found[0], found[1]) if len(found) == 2 and found[0] is not None and found[1] is not None else None
    return Since(
        int(predicted.applied.sum()), int(predicted.shadow.sum()), periods.shadow_span(table, predicted),
        predicted.raised, periods.summarize_weeks(table, predicted), pair,
    )  # fmt: skip
