"""Figures over the older half of the jobs, for selection, and the newer, held-out half, for evaluation."""

from dataclasses import dataclass

import numpy as np

from softwalltime.replay.metrics import WARM_UP, Errors, share, weighted_mean
from softwalltime.reports.columns import Columns, Integers


@dataclass(frozen=True, slots=True)
class SubsetScores:
    """Figures of one predictor over a part of the jobs; see :class:`softwalltime.replay.metrics.Scores`."""

    jobs: int
    accuracy: float
    underestimated: float
    badly_underestimated: float
    mean_absolute_error: float
    accuracy_by_cpu_hours: float
    """The mean accuracy, with each job weighted by processors x runtime."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A predictor's figures over all scored jobs after the warm-up, and over their older and newer half."""

    spec: str
    whole: SubsetScores
    older: SubsetScores
    newer: SubsetScores


def has_both_halves(columns: Columns) -> bool:
    """Return whether both halves have scored jobs."""
    scored = int(columns.scored.sum())
    return scored - int(scored * WARM_UP) >= 2


def older_half(columns: Columns) -> slice:
    """Return the older half of the scored jobs; the warm-up is before it, the newer half after it."""
    scored = int(columns.scored.sum())
    warm_up = int(scored * WARM_UP)
    return slice(warm_up, warm_up + (scored - warm_up) // 2)


def evaluate_halves(columns: Columns, spec: str, soft: Integers) -> Halves:
    """Evaluate soft walltimes (-1 for none); :func:`has_both_halves` must be true."""
    older = older_half(columns)
    chosen = np.flatnonzero(columns.scored)[older.start :]
    errors = Errors.of(soft[chosen], columns.walltime[chosen], columns.t[chosen])
    accuracy, under, badly = errors.accuracy, errors.under, errors.badly
    absolute, weights = np.abs(errors.error), columns.cpu_seconds[chosen]
    half = older.stop - older.start

    def part(which: slice) -> SubsetScores:
        return SubsetScores(
            len(accuracy[which]),
            float(accuracy[which].mean()),
            share(under[which]),
            share(badly[which]),
            float(absolute[which].mean()),
            weighted_mean(accuracy[which], weights[which]),
        )

    return Halves(spec, part(slice(None)), part(slice(half)), part(slice(half, None)))
