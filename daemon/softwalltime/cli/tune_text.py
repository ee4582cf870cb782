"""The text of ``softwalltime tune``."""

from dataclasses import dataclass

from softwalltime.cli.output import Output
from softwalltime.cli.recommendation_output import print_advice
from softwalltime.core.formatting import day, percent
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.replay.sweep.trials import Trial
from softwalltime.measure.simulation.differences import differences, relative_changes
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.measure.tuning.choice import Chosen
from softwalltime.measure.tuning.own_weights import weights_of
from softwalltime.measure.tuning.site_weights import SiteWeights
from softwalltime.predict.predictors.registry import BASELINE
from softwalltime.reports.recommendation import Recommendation
from softwalltime.reports.replay_document import accuracy_cell, underestimated_cell
from softwalltime.reports.simulation import SimulationInput, SimulationSkipped
from softwalltime.reports.simulation_document import (
    CHANGES_LEGEND,
    LEGEND,
    changes_table,
    schedules_table,
    unscored_line,
)
from softwalltime.reports.tune_document import TuneDocument

_TRIALS_LEGEND = """\
A: mean of min(p, t) / max(p, t); U: share of the jobs with p < t; badly: by more than 30 min; MAE: mean absolute error.
Shown are walltimes, half the walltime, the predictors that no other one beats in both A and U on the earlier part, and
the chosen ones: best A and least MAE at the target of U, least MAE at any U.  CPU: to predict and learn a job."""
_TRIALS = (
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


@dataclass(frozen=True, slots=True)
class SimulatedCandidates:
    """The simulation of the candidates: what was simulated, the metrics by policy and workload, what is recommended."""

    recorded: SimulationInput | SimulationSkipped
    metrics: dict[str, list[Metrics]]
    found: Recommendation


def print_tuning(
    output: Output, document: TuneDocument, label: str, shown: list[str], untrained: str,
    simulated: SimulatedCandidates,
) -> None:  # fmt: skip
    """Print the predictors that were tried, the trained weights, the simulation and the advice.

    :param untrained: why no weights were trained; empty: they were, or were not wanted.
    """
    earlier, later = (document.trials[BASELINE].parts[part].jobs for part in (0, 1))
    output.paragraph(
        f"{label}: chosen by {earlier:,} jobs submitted before "
        f"{day(document.split.cut)}, reported on {later:,} jobs since then"
    )
    trials = [document.trials[spec] for spec in shown]
    best = max((trial.parts[1].accuracy_mean or 0.0 for trial in trials if not trial.failure), default=0.0)
    output.section(TextTable.of(_TRIALS, [_row(trial, document.chosen, best) for trial in trials]), _TRIALS_LEGEND)
    if document.chosen.accurate is None:
        output.paragraph(
            f"No predictor that underestimates at most {document.target:.0%} of the jobs is more accurate than "
            "walltimes."
        )
    for trial in document.trials.values():
        if trial.failure:
            output.paragraph(f"not tried: {trial.spec}: {trial.failure}", "warning")
    if untrained:
        output.paragraph(untrained, "warning")
    if document.weights is not None:
        _print_weights(output, document, document.weights)
    if simulated.metrics:
        _print_simulations(output, document, simulated)
    print_advice(output, document.advice)


def _print_weights(output: Output, document: TuneDocument, weights: SiteWeights) -> None:
    logs = ", ".join(f"{name} ({count:,} jobs)" for name, count in weights.logs.items())
    output.paragraph(
        f"Trained on {logs}: {weights.file}, with jobs of the site that ended before {day(document.split.cut)}; "
        f"before: figures with other weights, trained on those that ended before {day(document.split.since)}."
    )
    if any(weights_of(spec) == weights.file for spec in document.chosen.specs()):
        output.paragraph(f"Keep {weights.file} where the daemon's user can read it, for as long as a setting names it.")
    else:
        output.paragraph(f"No chosen predictor uses {weights.file}.")


def _print_simulations(output: Output, document: TuneDocument, simulated: SimulatedCandidates) -> None:
    if isinstance(simulated.recorded, SimulationSkipped):
        return
    name, *others = simulated.metrics
    first = simulated.metrics[name]
    relative = {name: relative_changes(simulated.metrics[name], first) for name in others}
    absolute = {name: differences(simulated.metrics[name], first) for name in others}
    output.line()
    output.paragraph(
        f"The newest {len(simulated.recorded.jobs):,} jobs, PBS's scheduling cycle, means over {len(first)} shaken "
        "workloads; predictors begin without history:"
    )
    if unscored := unscored_line(simulated.recorded.jobs):
        output.paragraph(unscored)
    output.section(schedules_table(document.policies))
    output.section(changes_table(relative, absolute), f"{LEGEND}\n{CHANGES_LEGEND}")


def _row(trial: Trial, chosen: Chosen, best: float) -> list[Cell | str]:
    if trial.failure:
        return [trial.spec, *["-"] * 7, Cell(trial.failure, "bad")]
    before, after = trial.parts
    jobs = before.jobs + after.jobs
    uses = {"accuracy": chosen.accurate, "error": chosen.least_error, "error at any U": chosen.middle}
    return [
        Cell(trial.spec, "strong"),
        accuracy_cell(before.accuracy_mean, 0.0),
        percent(before.underestimated),
        accuracy_cell(after.accuracy_mean, best),
        underestimated_cell(after.underestimated),
        percent(after.badly_underestimated),
        "-" if after.mean_absolute_error is None else f"{after.mean_absolute_error:,.0f} s",
        f"{1e6 * trial.seconds / jobs:,.0f} us" if jobs else "-",
        ", ".join(use for use, spec in uses.items() if spec == trial.spec),
    ]
