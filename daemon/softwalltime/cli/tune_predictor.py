"""Choose a predictor for a site: the work of ``softwalltime tune`` without ``--order``."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from softwalltime.cli.command import Result
from softwalltime.cli.options import named_specs
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.recommendation_output import print_advice, write_plan
from softwalltime.cli.sources import problems
from softwalltime.cli.tune_options import TuneOptions
from softwalltime.core.errors import SourceError
from softwalltime.core.formatting import day, number, percent
from softwalltime.core.text_table import Cell, TextColumn, TextTable, sentence_column
from softwalltime.measure.replay.accuracy_metrics import Scores
from softwalltime.measure.replay.sweep.grid import expand_all
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.trial import UNLIMITED, Trial, TrialTask
from softwalltime.measure.replay.sweep.trials import run_trials, saved_trials
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.replay.workload import Recorded
from softwalltime.measure.simulation.schedule_metrics import Metrics
from softwalltime.measure.tuning.choice import Chosen, Split, candidates, choose, front, split_at
from softwalltime.predict.policy.presets import HALF
from softwalltime.predict.predictors.calibrated import CalibratedOptions
from softwalltime.predict.predictors.learned.network import SHIPPED
from softwalltime.predict.predictors.registry import BASELINE, make
from softwalltime.reports.candidates import MEDIAN, own_candidates
from softwalltime.reports.recommendation import simulated_advice
from softwalltime.reports.replay_document import accuracy_cell, underestimated_cell
from softwalltime.reports.simulation import SimulationFigures, SimulationOptions, SimulationSkipped
from softwalltime.reports.simulation_document import (
    CHANGES_LEGEND,
    LEGEND,
    Advice,
    changes_table,
    schedules_table,
    unscored_line,
)

_TRIALS_LEGEND = """\
A: mean of min(p, t) / max(p, t); U: share of the jobs with p < t; badly: by more than 30 min; MAE: mean absolute error.
Shown are walltimes, half the walltime, the predictors that no other one beats in both A and U on the earlier part, and
the chosen ones: best A and least MAE at the target of U, least MAE at any U.  CPU: to predict and learn a job."""


@dataclass(frozen=True, slots=True)
class TuneDocument:
    """Predictors on the earlier and on the later part of a log."""

    COLUMNS: ClassVar = (
        "predictor", "seconds", "failure",
        *(f"{part}_{field.name}" for part in ("before", "after") for field in fields(Scores)),
    )  # fmt: skip

    source: str
    """The sources, as given."""
    selection: str | None
    """Which jobs were selected; null: all."""
    split: Split
    """The times that separate the parts, epoch seconds."""
    target: float
    """Greatest share of underestimated jobs."""
    trials: dict[str, Trial]
    """The figures by predictor: of the earlier part, then of the later one."""
    front: tuple[str, ...]
    """Pareto front of accuracy and underestimated jobs on the earlier part."""
    chosen: Chosen
    """The predictors that were chosen by the earlier part."""
    policies: dict[str, Metrics]
    """Metrics of the simulated settings."""
    advice: Advice
    """The recommendation."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for spec, trial in self.trials.items():
            row: dict[str, Any] = {"predictor": spec, "seconds": trial.seconds, "failure": trial.failure}
            for name, part in zip(("before", "after"), trial.parts, strict=False):
                row |= {f"{name}_{figure}": value for figure, value in asdict(part).items()}
            yield row


def choose_predictor(options: TuneOptions) -> Result[TuneDocument]:
    """Try predictors, choose by the earlier part of the log, simulate the best, and write the recommended settings.

    :raises SoftwalltimeError: if an option is wrong, or the log is too short.
    """
    wanted = named_specs(options.listed)
    # Each one is made once, so that a wrong one fails before minutes of reading.
    specs = list(dict.fromkeys((BASELINE, HALF, *(expand_all(wanted) if wanted else candidates()))))
    options.check()
    workload, tally = options.recorded.workload(options.site.walltimes)
    if (split := split_at(workload, options.split)) is None:
        raise SourceError(
            f"{options.recorded.source}: too few jobs with a runtime and a walltime to split: give a longer log"
        )
    trials = _tried(options, workload, specs, split)
    chosen = choose(trials, options.target)
    shown = list(dict.fromkeys((BASELINE, HALF, *front(trials), *chosen.specs())))
    # The order of the own candidates is by calibrated, with the chosen weights.
    made = (make(spec).options for spec in chosen.specs())
    weights = [options.weights for options in made if isinstance(options, CalibratedOptions)]
    ordering = f"{MEDIAN},weights={weights[0]}" if weights and weights[0] != SHIPPED else MEDIAN
    baseline, processors = options.site.baseline(options.minimum), options.site.processors or tally.machine or None
    simulation = SimulationOptions(
        baseline, processors, options.seeds, options.simulated_jobs, options.processes, options.keep
    )
    advice, simulated = simulated_advice(
        workload, simulation, options.limits.shares,
        own_candidates(chosen.specs(), ordering, baseline), progress_bar,
    )  # fmt: skip
    document = TuneDocument(
        source=options.recorded.source,
        selection=options.recorded.selected,
        split=split,
        target=options.target,
        trials=trials,
        front=tuple(front(trials)),
        chosen=chosen,
        policies=simulated.by_name if isinstance(simulated, SimulationFigures) else {},
        advice=Advice.of(advice),
    )
    text = partial(_print, label=options.recorded.label, shown=shown, simulated=simulated)
    write = partial(write_plan, file=options.plan, found=advice, simulated=simulated)
    return Result(document, text, 1 if tally.broken else 0, problems(tally), then=write)


def _tried(options: TuneOptions, workload: Recorded, specs: list[str], split: Split) -> dict[str, Trial]:
    """Return the trials of all predictors by specification."""
    with ExitStack() as stack:
        kept = stack.enter_context(closing(KeptLines(options.keep)))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="softwalltime-"))
        snapshot = take(workload, Path(folder) / "jobs.parquet")
        # All others are compared with the baseline, which takes the least time.
        limits = dict.fromkeys(specs, options.timeout) | {BASELINE: UNLIMITED}
        tasks = [TrialTask("", snapshot, spec, split.parts, options.minimum, limits[spec]) for spec in specs]
        done = saved_trials(tasks, kept)
        todo = [task for task in tasks if task not in done]
        trials = stack.enter_context(closing(run_trials(todo, local_workers(options.processes), kept)))
        with progress_bar("trying predictors", len(todo)) as progress:
            for task, trial in trials:
                done[task] = trial
                progress(1)
    return {task.spec: done[task] for task in tasks}


def _print(
    output: Output, document: TuneDocument, label: str, shown: list[str],
    simulated: SimulationFigures | SimulationSkipped,
) -> None:  # fmt: skip
    """Print the predictors that were tried, the simulation and the advice."""
    earlier, later = (document.trials[BASELINE].parts[part].jobs for part in (0, 1))
    output.paragraph(
        f"{label}: chosen by {earlier:,} jobs submitted before "
        f"{day(document.split.cut)}, reported on {later:,} jobs since then"
    )
    tried = [document.trials[spec] for spec in shown if not document.trials[spec].failure]
    output.section(_trials_table(tried, document.chosen), _TRIALS_LEGEND)
    if document.chosen.accurate is None:
        output.paragraph(
            f"No predictor that underestimates at most {document.target:.0%} of the jobs is more accurate than "
            "walltimes."
        )
    for trial in document.trials.values():
        if trial.failure:
            output.paragraph(f"not tried: {trial.spec}: {trial.failure}", "warning")
    if isinstance(simulated, SimulationFigures):
        _print_simulations(output, document, simulated)
    print_advice(output, document.advice)


def _print_simulations(output: Output, document: TuneDocument, simulated: SimulationFigures) -> None:
    compared = (*simulated.settings, simulated.chance)
    relative = {waits.setting.name: waits.changes for waits in compared}
    absolute = {waits.setting.name: {"broken": waits.added} for waits in compared}
    output.line()
    output.paragraph(
        f"The newest {simulated.jobs:,} jobs, PBS's scheduling cycle, means over {len(simulated.seeds)} shaken "
        "workloads; predictors begin without history:"
    )
    if unscored := unscored_line(simulated.jobs - simulated.unscored, simulated.jobs, simulated.scored_share):
        output.paragraph(unscored)
    output.section(schedules_table(document.policies))
    output.section(changes_table(relative, absolute), f"{LEGEND}\n{CHANGES_LEGEND}")


def _trials_table(trials: list[Trial], chosen: Chosen) -> TextTable:
    best = max((trial.parts[1].accuracy_mean or 0.0 for trial in trials), default=0.0)
    uses = {"accuracy": chosen.accurate, "error": chosen.least_error, "error at any U": chosen.middle}
    columns: dict[TextColumn, Callable[[Trial], Cell | str]] = {
        sentence_column("predictor"): lambda trial: Cell(trial.spec, "strong"),
        TextColumn("A before", 4): lambda trial: accuracy_cell(trial.parts[0].accuracy_mean, 0.0),
        TextColumn("U before", 3): lambda trial: percent(trial.parts[0].underestimated),
        TextColumn("A"): lambda trial: accuracy_cell(trial.parts[1].accuracy_mean, best),
        TextColumn("U"): lambda trial: underestimated_cell(trial.parts[1].underestimated),
        TextColumn("badly", 2): lambda trial: percent(trial.parts[1].badly_underestimated),
        TextColumn("MAE"): lambda trial: f"{number(trial.parts[1].mean_absolute_error)} s",
        TextColumn("CPU", 5): lambda trial: (
            f"{1e6 * trial.seconds / max(1, sum(part.jobs for part in trial.parts)):,.0f} us"
        ),
        sentence_column("chosen for", 1, 14): lambda trial: ", ".join(
            use for use, spec in uses.items() if spec == trial.spec
        ),
    }
    return TextTable.by_column(trials, columns)
