"""The table of the predictors that ``softwalltime tune`` tried."""

from collections.abc import Mapping, Sequence

from softwalltime.formatting import percent
from softwalltime.reports.table import table
from softwalltime.tuning.choice import Chosen
from softwalltime.tuning.trial import Trial

TRIALS_LEGEND = """\
A: mean of min(p, t) / max(p, t); U: share of the jobs with p < t; badly: by more than 30 min; MAE: mean absolute error.
Shown are walltimes, half the walltime, the predictors that no other one beats in both A and U on the earlier part, and
the chosen ones: best A and least MAE at the target of U, least MAE at any U.  CPU: to predict and learn a job."""


def trials_table(trials: Mapping[str, Trial], shown: Sequence[str], chosen: Chosen) -> str:
    """Return a table with a row for each predictor shown: figures on the earlier and on the later part."""
    header = (
        "predictor", "A before", "U before", "A", "U", "badly", "MAE", "CPU", "chosen for",
    )  # fmt: skip
    return table(header, [_row(trials[spec], chosen) for spec in shown], last_left=True)


def _row(trial: Trial, chosen: Chosen) -> list[str]:
    if trial.failure:
        return [trial.spec, *["-"] * 7, trial.failure]
    before, after = trial.parts
    jobs = before.jobs + after.jobs
    uses = {"accuracy": chosen.accurate, "error": chosen.least_error, "error at any U": chosen.middle}
    return [
        trial.spec,
        _number(before.accuracy),
        percent(before.underestimated),
        _number(after.accuracy),
        percent(after.underestimated),
        percent(after.badly),
        "-" if after.error is None else f"{after.error:,.0f} s",
        f"{1e6 * trial.seconds / jobs:,.0f} us" if jobs else "-",
        ", ".join(use for use, spec in uses.items() if spec == trial.spec),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
