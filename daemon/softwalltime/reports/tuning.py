"""The table of the predictors that ``softwalltime tune`` tried."""

from collections.abc import Mapping, Sequence

from softwalltime.formatting import percent
from softwalltime.reports.table import accuracy_cell, underestimated_cell
from softwalltime.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.tuning.choice import Chosen
from softwalltime.tuning.trial import Trial

TRIALS_LEGEND = """\
A: mean of min(p, t) / max(p, t); U: share of the jobs with p < t; badly: by more than 30 min; MAE: mean absolute error.
Shown are walltimes, half the walltime, the predictors that no other one beats in both A and U on the earlier part, and
the chosen ones: best A and least MAE at the target of U, least MAE at any U.  CPU: to predict and learn a job."""


_COLUMNS = (
    sentence_column("predictor"),
    TextColumn("A before", 4),
    TextColumn("U before", 3),
    TextColumn("A"),
    TextColumn("U"),
    TextColumn("badly", 2),
    TextColumn("MAE"),
    TextColumn("CPU", 5),
    sentence_column("chosen for", 1, 14),
)


def trials_table(trials: Mapping[str, Trial], shown: Sequence[str], chosen: Chosen) -> TextTable:
    """Return a table with a row for each predictor shown: figures on the earlier and on the later part."""
    later = [trials[spec].parts[1].accuracy or 0.0 for spec in shown if not trials[spec].failure]
    return TextTable.of(_COLUMNS, [_row(trials[spec], chosen, max(later, default=0.0)) for spec in shown])


def _row(trial: Trial, chosen: Chosen, best: float) -> list[Cell | str]:
    if trial.failure:
        return [trial.spec, *["-"] * 7, Cell(trial.failure, "bad")]
    before, after = trial.parts
    jobs = before.jobs + after.jobs
    uses = {"accuracy": chosen.accurate, "error": chosen.least_error, "error at any U": chosen.middle}
    return [
        Cell(trial.spec, "strong"),
        accuracy_cell(before.accuracy, 0.0),
        percent(before.underestimated),
        accuracy_cell(after.accuracy, best),
        underestimated_cell(after.underestimated),
        percent(after.badly),
        "-" if after.error is None else f"{after.error:,.0f} s",
        f"{1e6 * trial.seconds / jobs:,.0f} us" if jobs else "-",
        ", ".join(use for use, spec in uses.items() if spec == trial.spec),
    ]
