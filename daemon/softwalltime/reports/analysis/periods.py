"""Compare predictions with runtimes by week, and waits before and after soft walltimes are set."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from softwalltime.formatting import DAY, MINUTE, day
from softwalltime.jobs import DecisionRecord, whole_array
from softwalltime.replay.metrics import Errors, accuracies, means_by_code
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis.predictions import CLASSES, runtime_classes
from softwalltime.reports.columns import Booleans, Columns, Integers
from softwalltime.simulation.differences import Interval, student

BOUNDS = (10, MINUTE, 10 * MINUTE)
"""Bounds of the bounded slowdown, in seconds."""
UNRECORDED = "predictor not recorded"
ALL = "all jobs"
SKEW = 60
"""Tolerated difference between the clocks of the hook and the accounting log, in seconds."""
AT_ONCE = 3
"""Greatest difference in seconds between a decision at queuejob and the time of submission."""
WEEK = 7 * DAY
LEAST_BLOCKS = 4
"""Weeks, or other blocks, without which a mean wait has no interval."""


@dataclass(frozen=True, slots=True)
class WorkloadPredictions:
    """Predictions for the jobs of the workload: soft walltime (-1 for none) and predictor.

    ``predictor`` is an index into ``names``.  ``applied``: PBS had the soft walltime; false in shadow mode. ``raised``:
    number of jobs whose last soft walltime is the walltime, as after a raise at start; their predictions are unknown.
    """

    soft_walltime: Integers
    predictor: Integers
    names: tuple[str, ...]
    applied: Booleans
    raised: int = 0

    @property
    def shadow(self) -> Booleans:
        """Mask of the jobs whose soft walltime was predicted and not set."""
        return (self.soft_walltime >= 0) & ~self.applied


@dataclass(frozen=True, slots=True)
class Week:
    """The jobs with a prediction of one predictor that ended in one week; ``start`` is its Monday, epoch seconds."""

    start: int
    predictor: str
    jobs: int
    accuracy: float
    walltime_accuracy: float
    underestimated: float


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of one class of jobs in one period, in seconds, and mean bounded slowdowns in the order of ``BOUNDS``.

    ``error``: standard error of the mean from its ``blocks``, ``None`` of fewer than ``LEAST_BLOCKS``.
    """

    name: str
    jobs: int
    mean: float
    median: float
    p95: float
    slowdowns: tuple[float, ...]
    blocks: int = 0
    error: float | None = None


@dataclass(frozen=True, slots=True)
class BlockMean:
    """A mean over jobs, and its standard error from ``blocks`` of time, ``None`` of fewer than ``LEAST_BLOCKS``."""

    mean: float
    blocks: int
    error: float | None


@dataclass(frozen=True, slots=True)
class Span:
    """A period from ``since`` to before ``until``, in epoch seconds."""

    since: int
    until: int

    def __str__(self) -> str:
        return f"{day(self.since)} to {day(self.until - 1)}"


@dataclass(frozen=True, slots=True)
class PeriodWaits:
    """Jobs submitted in one period.

    ``load``: used CPU hours per day; ``mean_r``: mean used share of the walltime, of the jobs that had one;
    ``adjusted``: share of the jobs that had a soft walltime.
    """

    span: Span
    jobs: int
    users: int
    load: float
    mean_runtime: float
    mean_r: float | None
    adjusted: float
    classes: tuple[Waits, ...]


def recorded_predictions(columns: Columns) -> WorkloadPredictions:
    """Return the predictions by the log: each job's last soft walltime."""
    soft = np.where(columns.scored, columns.soft_walltime, -1)
    raised = (soft >= 0) & (soft >= columns.walltime)
    soft = np.where(raised | (soft <= 0), -1, soft)
    return WorkloadPredictions(soft, np.zeros(len(soft), np.int64), (UNRECORDED,), soft >= 0, int(raised.sum()))


def summarize_weeks(columns: Columns, predicted: WorkloadPredictions) -> list[Week]:
    """Compare predictions with runtimes by week and predictor, ordered by time."""
    chosen = np.flatnonzero(columns.scored & (predicted.soft_walltime >= 0))
    if not len(chosen):
        return []
    walltime = columns.walltime[chosen]
    errors = Errors.of(predicted.soft_walltime[chosen], walltime, columns.t[chosen])
    # 1970 began on a Thursday.
    week = (columns.end[chosen] + 3 * DAY) // (7 * DAY)
    count = len(predicted.names)
    keys, codes = np.unique(week * count + predicted.predictor[chosen], return_inverse=True)
    jobs = np.bincount(codes)
    figures = (errors.accuracy, accuracies(walltime, errors.t), errors.under)
    sums = [means_by_code(codes, values, len(keys)) for values in figures]
    return [
        Week(key // count * 7 * DAY - 3 * DAY, predicted.names[key % count], *row)
        for key, *row in zip(keys.tolist(), jobs.tolist(), *sums, strict=True)
    ]


def split_spans(columns: Columns, predicted: WorkloadPredictions, split: int | None) -> tuple[Span, Span] | None:
    """Return what was submitted before ``split`` (epoch seconds) and what from then on.

    Without ``split`` they are parted by the first job whose soft walltime was set: in shadow mode jobs are scheduled by
    their walltimes.  ``None`` where no job has one, or none was submitted before the first that has.
    """
    if split is None:
        soft = np.flatnonzero(predicted.applied | (columns.soft_walltime > 0))
        if not len(soft):
            return None
        split = int(columns.submitted[soft[0]])
    first, last = int(columns.submitted.min()), int(columns.submitted.max()) + 1
    return (Span(first, split), Span(split, last)) if first < split < last else None


def shadow_span(columns: Columns, predicted: WorkloadPredictions) -> Span | None:
    """Return when the jobs that were predicted in shadow mode were submitted, ``None`` where there are none."""
    submitted = columns.submitted[predicted.shadow]
    return Span(int(submitted.min()), int(submitted.max()) + 1) if len(submitted) else None


def jobs_in(columns: Columns, span: Span) -> Booleans:
    """Return which jobs were submitted in a span and ran with a known start."""
    submitted = (columns.submitted >= span.since) & (columns.submitted < span.until)
    found: Booleans = submitted & (columns.wait >= 0) & (columns.runtime > 0)
    return found


def summarize_period(
    columns: Columns, span: Span, predicted: WorkloadPredictions, among: Booleans | None = None
) -> PeriodWaits | None:
    """Return the waits of the jobs submitted in a span; ``None`` if none ran with a known start.

    :param among: the jobs to choose from; default: all.
    """
    which = jobs_in(columns, span)
    chosen = np.flatnonzero(which if among is None else which & among)
    if not len(chosen):
        return None
    wait, runtime = columns.wait[chosen], columns.runtime[chosen]
    week = (columns.submitted[chosen] - span.since) // WEEK
    classes = [_waits(ALL, wait, runtime, week)]
    for name, of_class in zip(CLASSES, runtime_classes(runtime), strict=True):
        if of_class.any():
            classes.append(_waits(name, wait[of_class], runtime[of_class], week[of_class]))
    days = max((span.until - span.since) / DAY, 1 / 24)
    limited = chosen[columns.scored[chosen]]
    return PeriodWaits(
        span,
        len(chosen),
        len(np.unique(columns.user.codes[chosen])),
        float(columns.cpu_seconds[chosen].sum() / 3600 / days),
        float(runtime.mean()),
        float((columns.t[limited] / columns.walltime[limited]).mean()) if len(limited) else None,
        float(predicted.applied[chosen].mean()),
        tuple(classes),
    )


def bounded_slowdown(wait: Integers, runtime: Integers, bound: int) -> NDArray[np.float64]:
    """Return max(1, (wait + runtime) / max(runtime, bound)) of each job (Feitelson et al. 1997)."""
    slowdown: NDArray[np.float64] = np.maximum(1.0, (wait + runtime) / np.maximum(runtime, bound))
    return slowdown


def change_of_mean(before: Waits | BlockMean, after: Waits | BlockMean) -> Interval:
    """Return the change of the mean in seconds with its 95% interval over blocks, where there are enough blocks."""
    change = after.mean - before.mean
    if before.error is None or after.error is None:
        return Interval(change, None, None)
    half = student(min(before.blocks, after.blocks) - 1) * math.hypot(before.error, after.error)
    return Interval(change, change - half, change + half)


def mean_over_blocks(values: Integers, block: Integers) -> BlockMean:
    """Return the mean of the jobs' values, with its standard error by how much each block of time shifts the mean.

    Jobs of one block wait for each other, so they are no independent sample.

    :param block: the number of each job's block.
    """
    mean = float(values.mean())
    _, codes = np.unique(block, return_inverse=True)
    shift = np.bincount(codes, values - mean) / len(values)
    blocks = len(shift)
    if blocks < LEAST_BLOCKS:
        return BlockMean(mean, blocks, None)
    return BlockMean(mean, blocks, math.sqrt(blocks / (blocks - 1) * float((shift**2).sum())))


def _waits(name: str, wait: Integers, runtime: Integers, week: Integers) -> Waits:
    over = mean_over_blocks(wait, week)
    return Waits(
        name,
        len(wait),
        over.mean,
        float(np.median(wait)),
        float(np.percentile(wait, 95)),
        tuple(float(bounded_slowdown(wait, runtime, bound).mean()) for bound in BOUNDS),
        over.blocks,
        over.error,
    )


def pair_classes(periods: Sequence[PeriodWaits]) -> list[tuple[str, list[Waits | None]]]:
    """Return each class name with its waits in every period, ``None`` without jobs."""
    names = [ALL, *CLASSES]
    by_name = [{waits.name: waits for waits in period.classes} for period in periods]
    return [(name, [classes.get(name) for classes in by_name]) for name in names if any(name in one for one in by_name)]


def from_decisions(
    workload: Workload, decisions: Iterable[DecisionRecord], known: WorkloadPredictions
) -> WorkloadPredictions:
    """Return the daemon's last decision for each job while it waited; else what is ``known``.

    A decision at queuejob, where jobs have no id yet, belongs to the job with that user, walltime and time of
    submission.  Of several such decisions the closest is used, of its project first, as in the store's views.  If
    PBS was told to set a soft walltime, the one that the job had at its first start is used: PBS planned with that.

    :param decisions: ordered by time; those without a soft walltime are ignored.
    """
    made = iter(decisions)
    first = next(made, None)
    if first is None:
        # No store: skip the index of jobs.
        return known
    submitted, end = workload.submitted.tolist(), workload.numbers("end").tolist()
    # A reinstalled server reuses job ids, so a decision belongs to the run at that time.  A decision about an array
    # (5[].srv) applies to all its subjobs (5[3].srv).
    runs: dict[str, list[int]] = {}
    for index, own in enumerate(workload.values("job_id")):
        for job_id in {own, whole_array(own)}:
            runs.setdefault(job_id, []).append(index)
    nameless = _Nameless(workload)
    soft, predictor, applied = known.soft_walltime.copy(), known.predictor.copy(), known.applied.copy()
    names = list(known.names)
    told: set[int] = set()
    for decision in chain((first,), made):
        if decision.event == "runjob":
            for index in runs.get(decision.submission.job_id, ()):
                if index in told and submitted[index] - SKEW <= decision.at <= end[index] + SKEW:
                    told.remove(index)
                    had = decision.had or 0
                    soft[index] = had if 0 < had < workload.walltime[index] else -1
                    applied[index] = soft[index] >= 0
            continue
        if decision.soft_walltime is None:
            continue
        # A soft walltime equal to the walltime removes the soft walltime.
        kept = decision.soft_walltime if decision.soft_walltime != decision.submission.walltime else -1
        if decision.action == "late":
            kept = -1
        name = f"{decision.predictor} (shadow)" if decision.action == "shadow" else decision.predictor
        named = decision.submission.job_id != ""
        for index in runs.get(decision.submission.job_id, ()) if named else nameless.become(decision):
            if submitted[index] - SKEW <= decision.at <= end[index] + SKEW and workload.scored[index]:
                if named:
                    nameless.known(index)
                if name not in names:
                    names.append(name)
                soft[index], predictor[index] = kept, names.index(name)
                applied[index] = kept >= 0 and decision.action == "set"
                if decision.action != "shadow":
                    told.add(index)
    return WorkloadPredictions(soft, predictor, tuple(names), applied, known.raised)


class _Nameless:
    """Matches decisions about jobs without id to jobs."""

    def __init__(self, workload: Workload) -> None:
        self._projects = list(workload.values("project"))
        self._alike: dict[tuple[str, int | None, int], list[int]] = {}
        for index, alike in enumerate(workload.rows("user", "walltime", "submitted")):
            self._alike.setdefault(alike, []).append(index)
        self._nearest: dict[int, tuple[bool, int]] = {}

    def known(self, index: int) -> None:
        """Record a decision with the job's id, which takes precedence."""
        self._nearest[index] = (False, -1)

    def become(self, decision: DecisionRecord) -> Iterator[int]:
        """Return the jobs that match this decision better than earlier ones."""
        of = decision.submission
        for distance in range(-AT_ONCE, AT_ONCE + 1):
            for index in self._alike.get((of.user, of.walltime, decision.at + distance), ()):
                near = (self._projects[index] != of.project, abs(distance))
                if index not in self._nearest or near < self._nearest[index]:
                    self._nearest[index] = near
                    yield index
