"""Choose predictors by their figures on the earlier part of a log."""

from collections.abc import Mapping
from dataclasses import dataclass

from softwalltime.measure.replay.accuracy_metrics import Scores
from softwalltime.measure.replay.sweep.grid import expand_all
from softwalltime.measure.replay.sweep.trial import Part, Trial
from softwalltime.measure.replay.workload import SCORED, Recorded
from softwalltime.predict.predictors.registry import BASELINE, available

TARGET_TOLERANCE = 1.1
"""Factor by which a rate of underestimation may exceed the target: predictors that control it fluctuate."""
WARM_UP_SHARE = 0.1
"""Share of the earlier part's jobs, the first ones, that are excluded from the choice (warm-up)."""


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
    def parts(self) -> tuple[Part, Part]:
        return Part(since=self.since, until=self.cut), Part(since=self.cut)


def candidates() -> list[str]:
    """Return the predictors to try, the baseline first: all of the registry, with the options that each one names."""
    grids = [
        f"{predictor.name}:{options}" if options else predictor.name
        for predictor in available()
        for options in predictor.tried_options
    ]
    return expand_all([BASELINE, *grids])


def split_at(workload: Recorded, share: float) -> Split | None:
    """Split a log where this share of its scored jobs has been submitted; ``None`` if a part would be empty."""
    count = len(workload) - sum(workload.skipped().values())
    cut = int(count * share)
    if not 0 < cut < count:
        return None
    passed, found = 0, dict[int, int]()
    for part in workload.parts(SCORED):
        submitted = part.submitted[part.scored]
        for number in (0, int(cut * WARM_UP_SHARE), cut):
            if passed <= number < passed + len(submitted):
                found[number] = int(submitted[number - passed])
        passed += len(submitted)
    first, since, until = found[0], found[int(cut * WARM_UP_SHARE)], found[cut]
    return None if first == until else Split(since, until)


def _usable(trials: Mapping[str, Trial]) -> dict[str, Scores]:
    """Return the figures of the earlier part, of the predictors that have some."""
    return {spec: trial.parts[0] for spec, trial in trials.items() if not trial.failure and trial.parts[0].jobs}


def front(trials: Mapping[str, Trial]) -> list[str]:
    """Return the Pareto front of accuracy and underestimation, ordered by underestimation."""
    parts = _usable(trials)
    figures = {spec: (part.underestimated or 0.0, -(part.accuracy_mean or 0.0)) for spec, part in parts.items()}
    undominated: list[str] = []
    for spec in sorted(figures, key=figures.__getitem__):
        if not undominated or figures[spec][1] < figures[undominated[-1]][1]:
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
        return list(dict.fromkeys(spec for spec in (self.accurate, self.least_error, self.middle) if spec is not None))


def choose(trials: Mapping[str, Trial], target: float) -> Chosen:
    """Choose by the earlier part of the log; ``target``: greatest share of the jobs to underestimate."""
    usable = _usable(trials)
    if not usable:
        return Chosen(None, None, None)
    errors = {spec: part.mean_absolute_error or 0.0 for spec, part in usable.items()}
    at_target = [spec for spec, part in usable.items() if (part.underestimated or 0.0) <= target * TARGET_TOLERANCE]
    accurate = max(at_target, key=lambda spec: usable[spec].accuracy_mean or 0.0, default=BASELINE)
    least_error = min(at_target, key=errors.__getitem__, default=BASELINE)
    chosen = (accurate, least_error, min(usable, key=errors.__getitem__))
    return Chosen(*(None if spec == BASELINE else spec for spec in chosen))
