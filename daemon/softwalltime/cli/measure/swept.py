"""Print the most accurate predictors of a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softwalltime.cli.output import Output
from softwalltime.predictors.registry import BASELINE
from softwalltime.reports.table import accuracy_cell, underestimated_cell
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column

BEST = 5
"""Predictors of each source to print."""
_COLUMNS = (
    sentence_column("predictor"),
    TextColumn("accuracy"),
    TextColumn("after warm-up", 1),
    TextColumn("under"),
    TextColumn("mean abs. error"),
)
Row = Mapping[str, str]
"""A row of the results, as texts by column."""


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """What a sweep has computed; the figures are in the file."""

    file: str
    """The file of the results."""
    rows: int
    """Number of rows in the file."""
    new: int
    """Number of rows that this run added."""
    failed: int
    """Number of predictors that failed."""
    best: dict[str, list[Row]]
    """The most accurate predictors of each source, as rows of the file; texts as there."""


def best_rows(rows: Sequence[Row], count: int) -> dict[str, list[Row]]:
    """Return the most accurate predictors of each source, without the baseline."""
    scored: dict[str, list[Row]] = {}
    for row in rows:
        if row["accuracy_mean"] and row["predictor"] != BASELINE:
            scored.setdefault(row["source"], []).append(row)
    return {
        source: sorted(scores, key=lambda row: -float(row["accuracy_mean"]))[:count]
        for source, scores in scored.items()
    }


def print_best(output: Output, rows: Sequence[Row]) -> None:
    """Print the most accurate predictors of each source, and the baseline."""
    for source, best in best_rows(rows, BEST).items():
        baseline = [row for row in rows if row["source"] == source and row["predictor"] == BASELINE]
        greatest = float(best[0]["accuracy_mean"])
        output.line()
        output.paragraph(f"{source}: the most accurate predictors, and the walltimes ({BASELINE})")
        output.line()
        output.table(TextTable.of(_COLUMNS, [_cells(row, greatest) for row in (*best, *baseline)]))


def _cells(row: Row, greatest: float) -> list[Cell | str]:
    accuracy, warmed_up, under, error = (
        float(row[name]) if row[name] else None
        for name in ("accuracy_mean", "after_warm_up_accuracy_mean", "underestimated", "mean_absolute_error")
    )
    return [
        Cell(row["predictor"], "strong"),
        accuracy_cell(accuracy, greatest),
        accuracy_cell(warmed_up, 0.0),
        underestimated_cell(under),
        "-" if error is None else f"{error:.0f} s",
    ]
