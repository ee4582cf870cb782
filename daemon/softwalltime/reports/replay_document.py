"""The accuracy of predictors on recorded jobs as a document: the output of ``softwalltime replay``."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.replay.metrics import Scores

_SCORES = [field.name for field in fields(Scores)]


@dataclass(frozen=True, slots=True)
class ReplayScores(Scores):
    """One predictor's figures, and the speed of the replay."""

    jobs_per_second: int
    """Jobs replayed per second of wall-clock time."""


@dataclass(frozen=True, slots=True)
class RunningScores:
    """Predictions at the start of the jobs."""

    predictor: str
    """Predictor for running jobs."""
    predictors: dict[str, Scores]
    """Figures over the scored jobs, by predictor for waiting jobs."""
    after_warm_up: dict[str, Scores]
    """The same without the first 1% of the scored jobs."""


@dataclass(frozen=True, slots=True)
class ReplayDocument:
    """Accuracy of predictors on recorded jobs."""

    COLUMNS: ClassVar = ("predictor", "event", *_SCORES, *(f"after_warm_up_{name}" for name in _SCORES))

    source: str
    """The sources, as given."""
    jobs: int
    """Number of jobs."""
    scored: int
    """Number of jobs on which predictions can be judged."""
    skipped: dict[str, int]
    """Number of jobs that are not scored, by reason."""
    predictors: dict[str, ReplayScores]
    """Figures over the scored jobs, by predictor."""
    after_warm_up: dict[str, Scores]
    """Figures without the first 1% of the scored jobs, by predictor."""
    selection: str | None = None
    """Which jobs were selected; null: all."""
    running: RunningScores | None = None
    """With --running: predictions at the start."""
    through_hooks: dict[str, dict[str, Any]] | None = None
    """With --through-hooks: the comparison with the fast replay, by predictor."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each predictor; with --running another one for its predictions at the start."""
        yield from _rows("submission", self.predictors, self.after_warm_up)
        if self.running is not None:
            yield from _rows("start", self.running.predictors, self.running.after_warm_up)


def _rows(event: str, overall: Mapping[str, Scores], warmed_up: Mapping[str, Scores]) -> Iterator[dict[str, Any]]:
    for spec, scores in overall.items():
        after = {f"after_warm_up_{name}": value for name, value in asdict(warmed_up[spec]).items()}
        yield {"predictor": spec, "event": event, **asdict(scores), **after}
