"""Figures of each predictor over the scored jobs.

p is the soft walltime, or the walltime of a job without one.  t is the runtime, at most the walltime, as in
:mod:`softwalltime.replay.metrics`.  The error is p - t, negative for an underestimate.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.formatting import DAY, HOUR
from softwalltime.replay.metrics import Errors, means_by_code, weighted_mean
from softwalltime.reports.columns import Columns, Integers

Floats = NDArray[np.float64]

SHORT, MEDIUM = 2 * HOUR, DAY
"""Greatest runtimes of short and medium jobs, in seconds (Chlumský & Klusáček 2022)."""
CLASSES = ("short (up to 2 h)", "medium (up to 24 h)", "long (over 24 h)")
POINTS = 401
"""Number of points of an error curve."""
EXTENSIONS = (0, 1, 2, 3, 6, 11)
"""Least numbers of extensions of the classes in the report."""
WEEK_LEAST = 20
"""Jobs without which a week has no rate of underestimation."""
MOST_POINTS = 60
"""Most points in the plot by week; with more weeks, one point is several weeks."""
QUEUES = 6
"""Number of queues with a box."""


class Evaluation(NamedTuple):
    """One predictor's errors over the scored jobs."""

    spec: str
    errors: Errors


@dataclass(frozen=True, slots=True)
class Box:
    """Percentiles 5, 25, 50, 75 and 95 of errors in seconds; ``None`` without jobs."""

    label: str
    jobs: int
    percentiles: tuple[float, float, float, float, float] | None


class WeekRate(NamedTuple):
    """The share of underestimated jobs of those submitted in the weeks that begin at ``start`` (epoch seconds)."""

    start: int
    underestimated: float
    weeks: int = 1


@dataclass(frozen=True, slots=True)
class Predictions:
    """The figures of one predictor.

    ``outcomes``: shares of not adjusted, over, under by up to 30 min, under by more (Tang et al. 2013: NA, OE, UE, BE).
    ``errors``: the errors in ascending order, at ``POINTS`` evenly spaced jobs.  ``accuracies``: the share of jobs with
    at most an accuracy of 0, 0.01, ... 1.  ``accuracy_by_cpu_hours``: the mean weighted by processors x runtime.
    ``extensions``: share of jobs by the number of extensions by the scheduler, in the classes of ``EXTENSIONS``.
    """

    spec: str
    outcomes: tuple[float, float, float, float]
    errors: Integers
    accuracies: Floats
    accuracy_by_cpu_hours: float
    extensions: tuple[float, ...]
    by_runtime: tuple[Box, ...]
    by_queue: tuple[Box, ...]
    weeks: tuple[WeekRate, ...] = ()


def evaluate(columns: Columns, spec: str, soft_walltimes: Integers) -> Evaluation:
    """Pair a predictor's soft walltimes (one per job, -1 for none) with the runtimes of the scored jobs."""
    scored = columns.scored
    return Evaluation(spec, Errors.of(soft_walltimes[scored], columns.walltime[scored], columns.t[scored]))


def analyze_predictions(columns: Columns, judged: Evaluation) -> Predictions:
    """Return the figures of one predictor over the scored jobs, of which there must be at least one."""
    errors = judged.errors
    error, accuracy, extended = errors.error, errors.accuracy, errors.extensions
    count = len(error)
    ordered = np.sort(error)
    reached = [float((extended >= least).mean()) for least in EXTENSIONS]
    return Predictions(
        spec=judged.spec,
        outcomes=errors.outcomes,
        errors=ordered[np.linspace(0, count - 1, min(POINTS, count)).round().astype(np.int64)],
        accuracies=np.searchsorted(np.sort(accuracy), np.linspace(0, 1, 101), side="right") / count,
        accuracy_by_cpu_hours=weighted_mean(accuracy, columns.cpu_seconds[columns.scored]),
        extensions=tuple(here - after for here, after in zip(reached, [*reached[1:], 0.0], strict=True)),
        by_runtime=tuple(
            make_box(name, error[chosen]) for name, chosen in zip(CLASSES, runtime_classes(errors.t), strict=True)
        ),
        by_queue=tuple(
            make_box(columns.queue.names[queue], error[columns.queue.codes[columns.scored] == queue])
            for queue in largest_queues(columns)
        ),
        weeks=rates_by_week(columns.submitted[columns.scored], errors.under),
    )


def rates_by_week(submitted: Integers, under: NDArray[np.bool_]) -> tuple[WeekRate, ...]:
    """Return the share of underestimated jobs by week of submission (UTC, from Monday), of weeks with enough jobs.

    If there are more than ``MOST_POINTS`` weeks, as many consecutive weeks are taken together as needed.
    """
    if not len(submitted):
        return ()
    # 1970 began on a Thursday.
    week = (submitted + 3 * DAY) // (7 * DAY)
    first = int(week.min())
    together = -(-(int(week.max()) - first + 1) // MOST_POINTS)
    parts, codes = np.unique((week - first) // together, return_inverse=True)
    jobs = np.bincount(codes).tolist()
    shares = means_by_code(codes, under, len(parts))
    return tuple(
        WeekRate((first + part * together) * 7 * DAY - 3 * DAY, share, together)
        for part, share, count in zip(parts.tolist(), shares, jobs, strict=True)
        if count >= WEEK_LEAST
    )


def runtime_classes(runtime: Integers) -> tuple[NDArray[np.bool_], ...]:
    """Return masks of the short, medium and long jobs, in the order of ``CLASSES``."""
    return runtime <= SHORT, (runtime > SHORT) & (runtime <= MEDIUM), runtime > MEDIUM


def largest_queues(columns: Columns) -> list[int]:
    """Return the indexes of the queues with the most scored jobs, descending."""
    counts = np.bincount(columns.queue.codes[columns.scored], minlength=len(columns.queue.names))
    order: list[int] = np.argsort(-counts, kind="stable").tolist()
    return [queue for queue in order if counts[queue]][:QUEUES]


def make_box(label: str, error: Integers) -> Box:
    """Return the percentiles of errors."""
    if not len(error):
        return Box(label, 0, None)
    p5, p25, p50, p75, p95 = np.percentile(error, (5, 25, 50, 75, 95)).tolist()
    return Box(label, len(error), (p5, p25, p50, p75, p95))
