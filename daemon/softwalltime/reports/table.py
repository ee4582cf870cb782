"""Aligned Markdown tables, readable in a terminal."""

from collections.abc import Sequence

from softwalltime.formatting import percent, plural
from softwalltime.replay.floor import Floor
from softwalltime.replay.metrics import Scores


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, last_left: bool = False) -> str:
    """Return a Markdown table, the first column left-aligned and the others right-aligned.

    :param last_left: the last column holds sentences and is left-aligned too.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    left = {0, len(widths) - 1} if last_left else {0}

    def row(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(aligned)} |"

    rule = " | ".join("-" * width if i in left else "-" * (width - 1) + ":" for i, width in enumerate(widths))
    return "\n".join((row(header), f"| {rule} |", *map(row, rows)))


def scores_table(scores: dict[str, tuple[Scores, Scores]]) -> str:
    """Return a table with one row per predictor: figures over all scored jobs, and accuracy after the warm-up."""
    header = (
        "predictor", "accuracy", "median", "after warm-up", "under", "badly", "over", "not adjusted",
        "mean abs. error", "extensions",
    )  # fmt: skip
    return table(header, [_row(name, *both) for name, both in scores.items()])


def floor_line(floor: Floor) -> str:
    """Return the floor as one sentence."""
    return (
        f"floor: no prediction from {', '.join(floor.keys)} alone has a mean absolute error below "
        f"{floor.mean_absolute_error:.0f} s ({plural(floor.signatures, 'signature')}; {percent(floor.alone)} of the "
        "jobs are alone in theirs)."
    )


def _row(name: str, scores: Scores, warmed_up: Scores) -> list[str]:
    shares = (scores.underestimated, scores.badly_underestimated, scores.over, scores.not_adjusted)
    return [
        name,
        *(_number(value, "{:.3f}") for value in (scores.accuracy_mean, scores.accuracy_median)),
        _number(warmed_up.accuracy_mean, "{:.3f}"),
        *(_number(value, "{:.1%}") for value in shares),
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
