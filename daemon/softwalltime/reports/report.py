"""All that a report says, found out in one go: the jobs are read once, each predictor is driven once."""

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
from softwalltime.reports.analysis.halves import Halves, enough, halves, older_half
from softwalltime.reports.analysis.periods import Period, Span, Week
from softwalltime.reports.analysis.predictions import Judged, Predictions, judge, predictions
from softwalltime.reports.analysis.settings import PASSES, Setting
from softwalltime.reports.analysis.walltimes import Walltimes, walltimes
from softwalltime.reports.columns import Columns, Integers, Rename, columns
from softwalltime.reports.recommendation import Choice, Recommendation, choose, conclude, queues_to_leave_out


@dataclass(frozen=True, slots=True)
class Choices:
    """What the report is to be about.

    ``target`` is the greatest share of jobs that a recommended predictor may underestimate, ``minimum`` the least soft
    walltime in seconds, ``split`` the epoch second that parts before from after, ``None`` for the first soft walltime;
    ``grid`` says whether the settings of the percentile predictor are tried.
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
    periods: tuple[Period, Period] | None


@dataclass(frozen=True, slots=True)
class Report:
    """The figures, in the order in which an administrator asks; what the jobs do not give is ``None`` or empty."""

    choices: Choices
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
    settings: list[Setting]
    best: Setting | None
    happened: Since
    recommendation: Recommendation


def work(choices: Choices, jobs: int) -> int:
    """How much :func:`report` will tell its progress in all."""
    return jobs * (len(choices.specs) + (PASSES if choices.grid else 0) + 1)


def report(
    workload: Workload,
    choices: Choices,
    rename: Rename = lambda kind, name: name,
    decisions: Iterable[DecisionRecord] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Find out everything.

    :param rename: from names to pseudonyms.
    :param decisions: what the daemon recorded, if the jobs come from its store.
    :param progress: told the amount of work done since it was last told, :func:`work` in all.
    """
    table = columns(workload, rename)
    soft = {spec: drive(workload, make(spec), choices.minimum, progress).soft_walltimes for spec in choices.specs}
    grid = settings.settings(workload, table, choices.minimum, progress) if choices.grid else []

    tried = {spec: halves(table, spec, each) for spec, each in soft.items()} if enough(table) else {}
    walltime = tried.pop(BASELINE, None)
    candidates = [*tried.values(), *(setting.halves for setting in grid)]
    submitted = table.submitted[table.scored]
    days = float(submitted[-1] - submitted[0]) / DAY if len(submitted) else 0.0
    choice = choose(walltime, candidates, choices.target, len(submitted), days)
    if isinstance(choice, Choice):
        spec = choice.predictor.spec
        if spec not in soft:
            soft[spec] = drive(workload, make(spec), choices.minimum).soft_walltimes
        advice, focus = _conclude(table, choice, soft[spec], choices.target), spec
    else:
        focus = min(tried, key=lambda spec: _distance(tried[spec], choices.target), default="")
        advice = choice
    judged = {spec: judge(table, spec, each) for spec, each in soft.items()} if len(submitted) else {}
    progress(len(workload.jobs))
    return Report(
        choices=choices,
        jobs=len(workload.jobs),
        scored=int(table.scored.sum()),
        skipped=workload.skipped(),
        users=len(table.user.names),
        since=int(table.submitted.min()),
        until=int(table.submitted.max()),
        project_field=table.project_field,
        walltimes=walltimes(table),
        scores={spec: (score(workload, each), score(workload, each, WARM_UP)) for spec, each in soft.items()},
        predictions=tuple(predictions(table, one) for one in judged.values()),
        shares={
            spec: groups.shares(groups.groups(table, one, table.user))
            for spec, one in judged.items()
            if spec != BASELINE
        },
        for_whom=_for_whom(table, judged[focus]) if focus in judged else None,
        settings=grid,
        best=settings.best(grid, choices.target),
        happened=_since(workload, table, choices.split, decisions),
        recommendation=advice,
    )


def _conclude(table: Columns, choice: Choice, soft: Integers, target: float) -> Recommendation:
    """The recommendation of the predictor that was chosen, with queues left out."""
    spec = choice.predictor.spec
    queues = groups.groups(table, judge(table, spec, soft), table.queue, older_half(table))
    leave_out = queues_to_leave_out(queues, target)
    names = {queue.name for queue in leave_out}
    out = np.array([name in names for name in table.queue.names], np.bool_)[table.queue.codes]
    without = halves(table, spec, np.where(out, -1, soft))
    return conclude(choice, without, target, leave_out, int(table.scored.sum()))


def _distance(one: Halves, target: float) -> tuple[float, float]:
    """How far from what is wanted: first beyond the target, then in accuracy."""
    return max(0.0, one.whole.underestimated - target), -one.whole.accuracy


def _for_whom(table: Columns, focus: Judged) -> ForWhom:
    users, projects, queues = (
        groups.groups(table, focus, names) for names in (table.user, table.project, table.queue)
    )  # fmt: skip
    return ForWhom(focus.spec, groups.shares(users), users, projects, queues)


def _since(workload: Workload, table: Columns, split: int | None, decisions: Iterable[DecisionRecord]) -> Since:
    predicted = periods.from_decisions(workload, decisions, periods.recorded(table))
    both = periods.spans(table, predicted, split)
    found = [periods.period(table, span) for span in both or ()]
    pair = (found[0], found[1]) if len(found) == 2 and found[0] is not None and found[1] is not None else None
    return Since(
        int(predicted.applied.sum()), int(predicted.shadow.sum()), periods.shadow_span(table, predicted),
        predicted.raised, periods.weeks(table, predicted), pair,
    )  # fmt: skip
