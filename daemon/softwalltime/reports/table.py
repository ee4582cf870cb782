"""The table of predictors' figures."""

from collections.abc import Mapping

from softwalltime.formatting import percent, plural
from softwalltime.replay.lower_bound import LowerBound
from softwalltime.replay.metrics import Scores
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column

TARGET = 0.05
"""Share of underestimated jobs above which a terminal marks it: the report's default target."""
_SCORES = (
    sentence_column("predictor"),
    TextColumn("accuracy"),
    TextColumn("median", 4),
    TextColumn("after warm-up", 3),
    TextColumn("under"),
    TextColumn("badly", 2),
    TextColumn("over", 5),
    TextColumn("not adjusted", 1),
    TextColumn("mean abs. error"),
    TextColumn("extensions", 6),
)


def scores_table(scores: Mapping[str, tuple[Scores, Scores]]) -> TextTable:
    best = max((overall.accuracy_mean or 0.0 for overall, _ in scores.values()), default=0.0)
    return TextTable.of(_SCORES, [_row(name, *both, best) for name, both in scores.items()])


def floor_line(floor: LowerBound) -> str:
    return (
        f"floor: no prediction from {', '.join(floor.keys)} alone has a mean absolute error below "
        f"{floor.mean_absolute_error:.0f} s ({plural(floor.signatures, 'signature')}; {percent(floor.alone)} of the "
        "jobs are alone in theirs)."
    )


def underestimated_cell(share: float | None) -> Cell:
    """Return a share of underestimated jobs: a warning above the target, bad above four times of it."""
    over = share or 0.0
    return Cell(_number(share, "{:.1%}"), "bad" if over > 4 * TARGET else "warning" if over > TARGET else "")


def accuracy_cell(accuracy: float | None, best: float) -> Cell:
    """Return a mean accuracy, the best one marked."""
    return Cell(_number(accuracy, "{:.3f}"), "good" if accuracy is not None and accuracy >= best > 0 else "")


def _row(name: str, scores: Scores, warmed_up: Scores, best: float) -> list[Cell | str]:
    return [
        Cell(name, "strong"),
        accuracy_cell(scores.accuracy_mean, best),
        _number(scores.accuracy_median, "{:.3f}"),
        _number(warmed_up.accuracy_mean, "{:.3f}"),
        underestimated_cell(scores.underestimated),
        *(_number(share, "{:.1%}") for share in (scores.badly_underestimated, scores.over, scores.not_adjusted)),
        _number(scores.mean_absolute_error, "{:.0f} s"),
        _number(scores.extensions_mean, "{:.2f}"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


LEGEND = """\
p: soft walltime, or walltime without one; t: runtime, at most the walltime; all figures over the scored jobs.
accuracy: mean of min(p, t) / max(p, t); after warm-up: without the first 1% of the jobs; under: p < t;
badly: under by more than 30 min; over: soft walltime set and long enough; not adjusted: no soft walltime set;
extensions: number of extensions of a soft walltime by the scheduler, per job."""
