"""Figures over the older and the newer half of the jobs: what was chosen on one is tried on the other."""

from dataclasses import dataclass

import numpy as np

from softwalltime.replay.metrics import BADLY, WARM_UP, accuracies
from softwalltime.reports.columns import Columns, Integers


@dataclass(frozen=True, slots=True)
class Part:
    """Figures of one predictor over some of the jobs; see :class:`softwalltime.replay.metrics.Scores`."""

    jobs: int
    accuracy: float
    underestimated: float
    badly_underestimated: float
    mean_absolute_error: float
    accuracy_by_cpu_hours: float
    """The mean accuracy with each job weighted by processors x runtime: what few large jobs see of it."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A predictor's figures over all scored jobs but the warm-up, and over the older and the newer half of these."""

    spec: str
    whole: Part
    older: Part
    newer: Part


def has_both_halves(columns: Columns) -> bool:
    """Whether there are jobs to judge in both halves."""
    scored = int(columns.scored.sum())
    return scored - int(scored * WARM_UP) >= 2


def older_half(columns: Columns) -> slice:
    """Which of the scored jobs make the older half; before it comes the warm-up, after it the newer half."""
    scored = int(columns.scored.sum())
    warm_up = int(scored * WARM_UP)
    return slice(warm_up, warm_up + (scored - warm_up) // 2)


def evaluate_halves(columns: Columns, spec: str, soft: Integers) -> Halves:
    """Judge soft walltimes (-1 for none); there must be :func:`enough` jobs."""
    older = older_half(columns)
    chosen = np.flatnonzero(columns.scored)
    parts = (chosen[older.start :], chosen[older], chosen[older.stop :])
    return Halves(spec, *(_part(columns, soft, part) for part in parts))


def _part(columns: Columns, soft: Integers, chosen: Integers) -> Part:
    t = columns.t[chosen]
    p = np.where(soft[chosen] >= 0, soft[chosen], columns.walltime[chosen])
    accuracy = accuracies(p, t)
    miss = t - p
    return Part(
        len(chosen),
        float(accuracy.mean()),
        float((miss > 0).mean()),
        float((miss > BADLY).mean()),
        float(np.abs(miss).mean()),
        float(np.average(accuracy, weights=columns.cpu_seconds[chosen].astype(np.float64))),
    )
