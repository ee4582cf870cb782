"""Choose predictors by their figures on the earlier part of a log."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.workload import Workload
from softwalltime.tuning.trial import PartFigures, Trial

TOLERANCE = 1.1
"""A rate of underestimation up to so many times the target meets it: a predictor that holds a target scatters."""
WARM_UP = 0.1
"""Share of the earlier part's jobs, the first ones, from which predictors learn and by which none is chosen."""


@dataclass(frozen=True, slots=True)
class Split:
    """Where the log is split, in epoch seconds: predictors are chosen by jobs submitted from ``since`` to before
    ``cut``, and judged by those submitted later.
    """

    since: int
    """Predictors are chosen by jobs submitted from this time on."""
    cut: int
    """The later part begins at this time."""

    @property
    def bounds(self) -> tuple[int | None, ...]:
        """The limits of the two parts, for :func:`.trials.run_trials`."""
        return self.since, self.cut, None


def split_at(workload: Workload, share: float, warm_up: float = WARM_UP) -> Split | None:
    """Split a log where this share of its scored jobs has been submitted; ``None`` if a part would be empty.

    :param warm_up: share of the earlier part's jobs, the first ones, by which no predictor is chosen.
    """
    submitted = workload.submitted[np.flatnonzero(workload.scored)]
    cut = int(len(submitted) * share)
    if not 0 < cut < len(submitted) or submitted[0] == submitted[cut]:
        return None
    return Split(int(submitted[int(cut * warm_up)]), int(submitted[cut]))


def accuracy(part: PartFigures) -> float:
    """Return the accuracy; below all others without jobs."""
    return -1.0 if part.accuracy is None else part.accuracy


def underestimated(part: PartFigures) -> float:
    """Return the rate of underestimation; above all others without jobs."""
    return 2.0 if part.underestimated is None else part.underestimated


def error(part: PartFigures) -> float:
    """Return the mean absolute error; above all others without jobs."""
    return float("inf") if part.error is None else part.error


def front(trials: Mapping[str, Trial], part: int = 0) -> list[str]:
    """Return the predictors that no other one beats in both accuracy and underestimation, by underestimation."""
    usable = {spec: trial.parts[part] for spec, trial in trials.items() if not trial.failure and trial.parts[part].jobs}
    undominated: list[str] = []
    best = -1.0
    for spec in sorted(usable, key=lambda spec: (underestimated(usable[spec]), -accuracy(usable[spec]))):
        if accuracy(usable[spec]) > best:
            best = accuracy(usable[spec])
            undominated.append(spec)
    return undominated


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best predictors of the earlier part: at the target of underestimation, and without one."""

    accurate: str | None
    """Highest accuracy at the target; null: no predictor is better than the walltime."""
    least_error: str | None
    """Least mean absolute error at the target."""
    middle: str | None
    """Least mean absolute error at any share of underestimated jobs."""

    def specs(self) -> list[str]:
        """Return the chosen predictors, each once."""
        return list(dict.fromkeys(spec for spec in (self.accurate, self.least_error, self.middle) if spec is not None))


def choose(trials: Mapping[str, Trial], target: float, part: int = 0) -> Chosen:
    """Choose by one part of the log.

    :param target: greatest share of the jobs to underestimate.
    """
    usable = {spec: trial.parts[part] for spec, trial in trials.items() if not trial.failure and trial.parts[part].jobs}
    if not usable:
        return Chosen(None, None, None)
    at_target = {spec: trial for spec, trial in usable.items() if underestimated(trial) <= target * TOLERANCE}
    accurate = max(at_target, key=lambda spec: accuracy(at_target[spec]), default=BASELINE)
    least_error = min(at_target, key=lambda spec: error(at_target[spec]), default=BASELINE)
    middle = min(usable, key=lambda spec: error(usable[spec]))
    chosen = (None if spec == BASELINE else spec for spec in (accurate, least_error, middle))
    return Chosen(*chosen)
