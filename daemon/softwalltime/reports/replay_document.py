"""The accuracy of predictors on recorded jobs, as a document and as a table: the output of ``softwalltime replay``."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.replay.accuracy_metrics import Scores

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
        parts = [("submission", dict[str, Scores](self.predictors), self.after_warm_up)]
        if self.running is not None:
            parts.append(("start", self.running.predictors, self.running.after_warm_up))
        for event, overall, warmed_up in parts:
            for spec, scores in overall.items():
                after = {f"after_warm_up_{name}": value for name, value in asdict(warmed_up[spec]).items()}
                yield {"predictor": spec, "event": event, **asdict(scores), **after}


TARGET = 0.05
"""Share of underestimated jobs above which a terminal marks it: the report's default target."""
_COLUMNS = {
    "accuracy": 0, "median": 4, "after warm-up": 3, "under": 0, "badly": 2, "over": 5, "not adjusted": 1,
    "mean abs. error": 0, "extensions": 6,
}  # fmt: skip
"""Columns of the table, and which of them a narrow terminal leaves out first."""


def scores_table(scores: Mapping[str, tuple[Scores, Scores]]) -> TextTable:
    best = max((overall.accuracy_mean or 0.0 for overall, _ in scores.values()), default=0.0)
    columns = (sentence_column("predictor"), *(TextColumn(name, rank) for name, rank in _COLUMNS.items()))
    rows: list[list[Cell | str]] = [
        [
            Cell(name, "strong"),
            accuracy_cell(overall.accuracy_mean, best),
            _number(overall.accuracy_median, "{:.3f}"),
            _number(warmed_up.accuracy_mean, "{:.3f}"),
            underestimated_cell(overall.underestimated),
            *(_number(share, "{:.1%}") for share in (overall.badly_underestimated, overall.over, overall.not_adjusted)),
            _number(overall.mean_absolute_error, "{:.0f} s"),
            _number(overall.extensions_mean, "{:.2f}"),
        ]
        for name, (overall, warmed_up) in scores.items()
    ]
    return TextTable.of(columns, rows)


def underestimated_cell(share: float | None) -> Cell:
    """Return a share of underestimated jobs: a warning above the target, bad above four times of it."""
    over = share or 0.0
    return Cell(_number(share, "{:.1%}"), "bad" if over > 4 * TARGET else "warning" if over > TARGET else "")


def accuracy_cell(accuracy: float | None, best: float) -> Cell:
    """Return a mean accuracy, the best one marked."""
    return Cell(_number(accuracy, "{:.3f}"), "good" if accuracy is not None and accuracy >= best > 0 else "")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


LEGEND = """\
p: soft walltime, or walltime without one; t: runtime, at most the walltime; all figures over the scored jobs.
accuracy: mean of min(p, t) / max(p, t); after warm-up: without the first 1% of the jobs; under: p < t;
badly: under by more than 30 min; over: soft walltime set and long enough; not adjusted: no soft walltime set;
extensions: number of extensions of a soft walltime by the scheduler, per job."""
