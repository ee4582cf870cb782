"""The figures of one predictor on one log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softwalltime.accounting.tally import Tally
from softwalltime.measure.benchmark.cards import read_log
from softwalltime.measure.benchmark.chance import bursts_of, users_above_by_chance
from softwalltime.measure.benchmark.entry import LEVELS, EntryError, entered
from softwalltime.measure.benchmark.protocol import (
    START,
    SUBMISSION,
    WHEN,
    AllAnswers,
    MomentAnswers,
    ask_all,
    scored_jobs,
)
from softwalltime.measure.replay.accuracy_metrics import accuracies, weekly_interval
from softwalltime.measure.replay.sweep.workers import require_version
from softwalltime.measure.replay.workload import Flags, Integers, Workload
from softwalltime.measure.simulation.simulated_jobs import Floats

NOTHING = "no job with a walltime to score"
"""Why a log has no figures."""
MONTH_JOBS = 1000
"""Minimum number of jobs submitted in a month for its figures."""
USER_JOBS = 50
"""Minimum number of jobs of a user for the user's figures."""
HEAVY_USER_JOBS = 5000
"""Number of ended jobs of a user above which the user's jobs are a class of the ranges."""
CLASS_JOBS = 100
"""Minimum number of answers for the figures of a class of the ranges."""
_RANGES = [LEVELS.index(level) for level in (0.25, 0.75, 0.05, 0.95)]
_MEDIAN = LEVELS.index(0.5)
_ROUNDING_S = 0.5


@dataclass(frozen=True, slots=True)
class HeldRange:
    """What the middle 50% and 90% ranges of a class of answers hold."""

    kind: str
    """What makes the class: when (asked), user (his jobs that had ended), walltime, month (of submission)."""
    name: str
    """The class."""
    answers: int
    """Number of answers."""
    held50: float
    """Share of the runtimes in the middle 50% range; half a second is rounding."""
    held90: float
    """Share of the runtimes in the middle 90% range."""
    interval50: tuple[float, float]
    """95% interval of the first share; the jobs submitted in a week are one sample."""
    interval90: tuple[float, float]
    """95% interval of the second one."""

    @property
    def beyond_chance(self) -> tuple[bool, bool]:
        """Whether the shares differ from 50% and from 90% by more than their intervals."""
        promised = ((0.5, self.interval50), (0.9, self.interval90))
        first, second = (not low <= share <= high for share, (low, high) in promised)
        return first, second


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One predictor on one log; the jobs of the first 30 days, at most of half of the log, are not scored."""

    log: str
    """Name of the log."""
    predictor: str
    """Specification of the predictor."""
    trained: bool
    """Whether the weights in the package were trained on this log too."""
    jobs: int
    """Number of scored jobs."""
    failure: str = ""
    """Why there are no figures; else empty."""
    accuracy: float | None = None
    """Mean of min(p, t) / max(p, t), p being predicted at submission and t the runtime, at most the walltime."""
    accuracy95: tuple[float, float] | None = None
    """95% interval of the accuracy; a week's jobs are one sample."""
    underestimated: float | None = None
    """Share of the jobs with p < t."""
    underestimated95: tuple[float, float] | None = None
    """95% interval of that share; a week's jobs are one sample."""
    worst_month: float | None = None
    """Greatest share underestimated of a month with 1,000 jobs."""
    users_above: float | None = None
    """Share of the users with 50 jobs of whom more than twice the share of all jobs is underestimated."""
    users_above_by_chance: float | None = None
    """The same if bursts of similar size exchanged their shares at random; in a burst, all jobs of a user were
    submitted before the first of them ended."""
    accuracy_at_start: float | None = None
    """Accuracy if predicted again when the job starts."""
    underestimated_at_start: float | None = None
    """Share of the jobs with p < t if predicted again when the job starts."""
    mean_absolute_error: float | None = None
    """Mean of |p - t|, seconds."""
    median_absolute_error: float | None = None
    """Mean of |m - t| for the median m of a distribution, or the walltime without one, seconds."""
    quantile_loss: float | None = None
    """Mean pinball loss of the quantiles 0.05, 0.1 to 0.95, or of the walltime without a distribution, seconds."""
    log_quantile_loss: float | None = None
    """The same of the logarithm of the runtime, times 1,000: long jobs count like short ones."""
    microseconds: float | None = None
    """Processor time to predict, learn and observe, a job of the log."""
    reliability: tuple[float, ...] = ()
    """Share of the runtimes at most as long as the quantiles 0.05, 0.1 to 0.95 of a distribution; half a second is
    rounding."""
    ranges: tuple[HeldRange, ...] = ()
    """What the ranges of a distribution hold."""


def distributions(rows: Iterable[BenchmarkRow]) -> list[BenchmarkRow]:
    """Return the rows of predictors with distributions; of several with the same distribution on a log the first."""
    first: dict[tuple[Any, ...], BenchmarkRow] = {}
    for row in rows:
        if row.ranges:
            first.setdefault((row.log, row.reliability, row.ranges), row)
    return list(first.values())


class BenchmarkTask(NamedTuple):
    """One predictor on one log; ``trained``: as in :class:`BenchmarkRow`; ``limit``: only the first so many jobs."""

    log: str
    path: Path
    spec: str
    trained: bool
    limit: int | None
    version: str


def run_task(task: BenchmarkTask) -> tuple[BenchmarkTask, tuple[BenchmarkRow, Tally]]:
    """Measure; a predictor that fails has a row with the reason.  The tally is the log's.

    :raises SoftwalltimeError: if this process has another version of the package, or cannot read the log.
    """
    require_version(task.version)
    workload, tally = read_log(task.path, task.limit)
    jobs = int(scored_jobs(workload).sum())
    head = (task.log, task.spec, task.trained, jobs)
    if not jobs:
        return task, (BenchmarkRow(*head, failure=NOTHING), tally)
    try:
        with entered(task.spec) as entry:
            judged = ask_all(workload, entry)
    except EntryError as error:
        return task, (BenchmarkRow(*head, failure=str(error)), tally)
    return task, (_row(head, workload, judged), tally)


def _row(head: tuple[str, str, bool, int], workload: Workload, judged: AllAnswers) -> BenchmarkRow:
    first, start = judged.answers[SUBMISSION], judged.answers[START]
    p, t = _predicted(workload, first), _runtimes(workload, first)
    accuracy, short = accuracies(p, t), p < t
    submitted = workload.submitted[first.jobs]
    month: Integers = submitted.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    user: Integers = np.unique(list(workload.jobs.values("user")), return_inverse=True)[1][first.jobs]
    share, shares_of_users = float(short.mean()), _shares(short, user, USER_JOBS)
    later = later_short = None
    if len(start.jobs):
        again, runtimes = _predicted(workload, start), _runtimes(workload, start)
        later, later_short = float(accuracies(again, runtimes).mean()), float((again < runtimes).mean())
    foreseen = np.logical_not(np.isnan(first.quantiles).any(axis=1))
    median = loss = log_loss = None
    reliability: tuple[float, ...] = ()
    if foreseen.any():
        reliability = tuple((t[foreseen, None] <= first.quantiles[foreseen] + _ROUNDING_S).mean(axis=0).tolist())
        # All predictors are compared on the same jobs.
        quantiles = np.where(foreseen[:, None], first.quantiles, workload.walltime[first.jobs, None])
        median = float(np.abs(quantiles[:, _MEDIAN] - t).mean())
        loss = float(pinball(quantiles, t).mean())
        log_loss = 1000 * float(pinball(np.log(np.maximum(quantiles, 1.0)), np.log(t)).mean())
    return BenchmarkRow(
        *head, "", float(accuracy.mean()), weekly_interval(accuracy, submitted),
        share, weekly_interval(short.astype(np.float64), submitted),
        float(shares.max()) if len(shares := _shares(short, month, MONTH_JOBS)) else None,
        float((shares_of_users > 2 * share).mean()) if len(shares_of_users) else None,
        users_above_by_chance(short, user, bursts_of(user, submitted, workload.ended[first.jobs]), USER_JOBS),
        later, later_short, float(np.abs(p - t).mean()), median, loss, log_loss,
        1e6 * judged.seconds / len(workload.jobs), reliability,
        tuple(_ranges(workload, judged, month)) if foreseen.any() else (),
    )  # fmt: skip


def _predicted(workload: Workload, answers: MomentAnswers) -> Integers:
    """Return whole seconds, at least 1 and at most the walltime, which stands for no prediction."""
    walltime = workload.walltime[answers.jobs]
    seconds = np.where(np.isnan(answers.seconds), walltime, np.ceil(answers.seconds))
    return np.clip(seconds.astype(np.int64), 1, walltime)


def _runtimes(workload: Workload, answers: MomentAnswers) -> Integers:
    return np.minimum(workload.runtime, workload.walltime)[answers.jobs]


def _shares(marked: Flags, group: Integers, least: int) -> Floats:
    """Return the share that is marked, of each group with at least so many members."""
    _, place = np.unique(group, return_inverse=True)
    counts = np.bincount(place)
    return (np.bincount(place, marked) / counts)[counts >= least]


def pinball(quantiles: Floats, runtime: Integers | Floats) -> Floats:
    """Return the mean pinball loss of the quantiles :data:`.LEVELS`, one row of them for each runtime."""
    over, level = runtime[:, None] - quantiles, np.array(LEVELS)
    losses: Floats = np.maximum(level * over, (level - 1) * over).mean(axis=1)
    return losses


def _ranges(workload: Workload, judged: AllAnswers, month: Integers) -> Iterator[HeldRange]:
    first = judged.answers[SUBMISSION]
    for when in WHEN:
        yield from _held("when", when, workload, judged.answers[when])
    earlier, walltime = judged.of_user[first.jobs], workload.walltime[first.jobs]
    classes: dict[tuple[str, str], Flags] = {
        ("user", "1st job"): earlier == 0,
        ("user", "2nd to 20th"): (earlier > 0) & (earlier < 20),
        ("user", f"above {HEAVY_USER_JOBS:,}"): earlier > HEAVY_USER_JOBS,
        ("walltime", "to 1 h"): walltime <= 3600,
        ("walltime", "1 to 4 h"): (walltime > 3600) & (walltime <= 4 * 3600),
        ("walltime", "4 to 24 h"): (walltime > 4 * 3600) & (walltime <= 86400),
        ("walltime", "above 24 h"): walltime > 86400,
    }
    numbers, counts = np.unique(month, return_counts=True)
    for number in numbers[counts >= MONTH_JOBS].tolist():
        classes["month", str(np.datetime64(number, "M"))] = month == number
    for (kind, name), members in classes.items():
        yield from _held(kind, name, workload, first, members)


def _held(
    kind: str, name: str, workload: Workload, answers: MomentAnswers, members: Flags | None = None
) -> Iterator[HeldRange]:  # fmt: skip
    chosen = ~np.isnan(answers.quantiles).any(axis=1) & (True if members is None else members)
    if chosen.sum() < CLASS_JOBS:
        return
    quantiles, runtime = answers.quantiles[chosen], _runtimes(workload, answers)[chosen]
    low50, high50, low90, high90 = quantiles[:, _RANGES].T
    held50, held90 = (
        ((low - _ROUNDING_S <= runtime) & (runtime <= high + _ROUNDING_S)).astype(np.float64)
        for low, high in ((low50, high50), (low90, high90))
    )
    submitted = workload.submitted[answers.jobs[chosen]]
    intervals = weekly_interval(held50, submitted), weekly_interval(held90, submitted)
    yield HeldRange(kind, name, int(chosen.sum()), float(held50.mean()), float(held90.mean()), *intervals)
