"""Choose a predictor by a part of a log: the work of ``softwalltime tune``."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.advice import Advice, advice_of, print_advice
from softwalltime.cli.measure.simulate import simulate_candidates
from softwalltime.cli.measure.site_weights import MIN_TRAINING_JOBS, SiteWeights, TrainingOptions, own_examples, trained
from softwalltime.cli.measure.site_weights import WARM_UP as TRAINED
from softwalltime.cli.options import LazySettings, named_specs
from softwalltime.cli.output import Output, prefixed
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SourceError, UsageError
from softwalltime.formatting import day
from softwalltime.policy.presets import HALF
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.lower_bound import LowerBound, find_lower_bound
from softwalltime.replay.sweep.grid import expand_all
from softwalltime.replay.workload import Scoring, Workload
from softwalltime.reports.candidates import (
    CHANCE,
    MEDIAN,
    Baseline,
    Candidate,
    chance_policy,
    common_candidates,
    own_candidates,
)
from softwalltime.reports.recommendation import Recommendation, policy_values, recommend_on, unsimulated
from softwalltime.reports.schedule_table import CHANGES_LEGEND, LEGEND, changes_table, schedules_table, unscored_line
from softwalltime.reports.simulation import (
    SimulationInput,
    SimulationOptions,
    SimulationSkipped,
    prepare,
)
from softwalltime.reports.table import floor_line
from softwalltime.reports.tuning import TRIALS_LEGEND, trials_table
from softwalltime.simulation.differences import differences, means, relative_changes
from softwalltime.simulation.metrics import Metrics
from softwalltime.tuning.candidates import candidates
from softwalltime.tuning.choice import WARM_UP, Chosen, Split, choose, front, split_at
from softwalltime.tuning.own_weights import is_calibrated, joined, weights_of, with_both, with_own_weights, with_weights
from softwalltime.tuning.trial import PartFigures, Trial
from softwalltime.tuning.trial_file import TrialFile
from softwalltime.tuning.trials import run_trials

SEEDS = tuple(range(31, 36))
"""Shaken workloads to simulate."""
PARTS = ("before", "after")
"""Parts of the log in the columns of CSV."""
COLUMNS = (
    "predictor", "seconds", "failure", *(f"{part}_{field.name}" for part in PARTS for field in fields(PartFigures)),
)  # fmt: skip
"""Columns of CSV: a row for each predictor."""


@dataclass(frozen=True, slots=True)
class TuneDocument:
    """Predictors on the earlier and on the later part of a log."""

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
    weights: SiteWeights | None
    """The weights that were trained; null: none."""
    front: tuple[str, ...]
    """Predictors that no other one beats in both accuracy and underestimated jobs on the earlier part."""
    chosen: Chosen
    """The predictors that were chosen by the earlier part."""
    floor: LowerBound | None
    """The least possible error on the later part."""
    policies: dict[str, Metrics]
    """Metrics of the simulated settings."""
    advice: Advice
    """What is recommended."""


def choose_predictor(
    sources: tuple[str, ...], listed: str | None, single: tuple[str, ...], target: float, share: float,
    keep: Path | None, timeout: float, processes: int | None, newest: int,
    seeds: tuple[int, ...] | None, target_file: Path | None, train: bool, train_logs: tuple[str, ...],
    site: SiteOptions, max_broken: float, weights_file: Path | None, output: Output, minimum: int,
    selection: JobSelection, settings: LazySettings,
) -> int:  # fmt: skip
    """Choose, simulate, print and write; return the exit status."""
    wanted = named_specs(listed, single)
    # Each one is made once, so that a wrong one fails before minutes of reading.
    specs = list(dict.fromkeys((BASELINE, HALF, *(expand_all(wanted) if wanted else candidates()))))
    if target_file is not None:
        _check_writable(target_file)
    training = _training(train, train_logs, weights_file)
    if training is not None:
        training.check(sources, target_file)
        # Weights are trained for minutes before the file is needed.
        with TrialFile(keep):
            pass
    jobs, tally = load_columns(sources, settings, selection=selection, walltimes=site.walltimes)
    teaching = settings().teaching
    workload = Workload(jobs, teaching=teaching)
    split = split_at(workload, share, WARM_UP if training is None else TRAINED)
    if split is None:
        raise SourceError(
            f"{' '.join(sources)}: too few jobs with a runtime and a walltime to split: give a longer log"
        )
    untrained = ""
    if training is not None and (count := own_examples(workload, split)) < MIN_TRAINING_JOBS:
        untrained = (
            f"No weights were trained: {count:,} jobs of the log could be used, {MIN_TRAINING_JOBS:,} are needed."
        )
        training, split = None, split_at(workload, share) or split
    with ExitStack() as stack:
        weights = None
        if training is not None:
            weights = stack.enter_context(
                trained(training, jobs, sources, split, teaching=teaching, target_file=target_file, keep=keep,
                        settings=settings)
            )  # fmt: skip
            specs = with_own_weights(specs, weights.choosing, weights.file, target)
        with progress_bar("trying predictors", len(specs)) as progress:
            trials = run_trials(
                jobs, teaching, specs, split.bounds, minimum,
                keep=keep, processes=processes, timeout=timeout, progress=progress,
            )  # fmt: skip
    if weights is not None:
        trials = joined(trials, weights.choosing, weights.file)
    chosen = choose(trials, target)
    shown = list(dict.fromkeys((BASELINE, HALF, *front(trials), *chosen.specs())))
    if weights is not None:
        shown += [spec for spec in with_both(shown, trials, weights.file, target) if spec not in shown]
    floor = find_lower_bound(Workload(jobs, teaching=teaching, scoring=Scoring(split.cut)))
    baseline = site.baseline(minimum)
    settable = [*common_candidates(baseline), *_own(chosen, baseline)]
    options = SimulationOptions(baseline, site.processors or tally.machine or None, seeds or SEEDS, newest)
    prepared = prepare(workload, options, teaching) if newest else SimulationSkipped("--simulated-jobs 0 was given")
    metrics: dict[str, list[Metrics]] = {}
    if isinstance(prepared, SimulationSkipped):
        found = unsimulated(prepared)
    else:
        results, figures = simulate_candidates(prepared, settable, options, keep, processes, teaching)
        named = {baseline.name: baseline.policy, **{one.name: one.policy for one in settable}}
        named[CHANCE] = chance_policy(baseline.policy)
        metrics = {name: [results[policy, seed].metrics for seed in options.seeds] for name, policy in named.items()}
        found = recommend_on(figures, max_broken / 100)
    advice = advice_of(found)
    if output.form == "json":
        output.document(
            TuneDocument(
                source=" ".join(sources),
                selection=str(selection) or None,
                split=split,
                target=target,
                trials=trials,
                weights=weights,
                front=tuple(front(trials)),
                chosen=chosen,
                floor=floor,
                policies={name: means(each) for name, each in metrics.items()},
                advice=advice,
            )
        )
    elif output.form == "csv":
        output.rows(COLUMNS, _rows(trials))
    else:
        _print(output, selection.label(sources), split, trials, shown, chosen, target)
        if untrained:
            output.paragraph(untrained, "warning")
        if weights is not None:
            _print_weights(output, weights, split, chosen)
        if floor is not None:
            output.line()
            output.paragraph(floor_line(floor))
        if isinstance(prepared, SimulationInput):
            _print_simulations(output, metrics, len(seeds or SEEDS), len(prepared.jobs), unscored_line(prepared.jobs))
        print_advice(output, advice)
    if target_file is not None:
        _write(target_file, chosen, found, output)
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def _training(wanted: bool, logs: tuple[str, ...], file: Path | None) -> TrainingOptions | None:
    if wanted:
        return TrainingOptions(logs, file)
    if logs or file is not None:
        raise UsageError(f"{'--train-with' if logs else '--weights'} needs --train")
    return None


def _own(chosen: Chosen, baseline: Baseline) -> list[Candidate]:
    """Return candidates with the chosen predictors; their order is by calibrated, with the chosen weights."""
    calibrated = [spec for spec in chosen.specs() if is_calibrated(spec)]
    ordering = with_weights(MEDIAN, weights_of(calibrated[0])) if calibrated else MEDIAN
    return own_candidates(chosen.specs(), ordering, baseline)


def _rows(trials: Mapping[str, Trial]) -> Iterator[dict[str, Any]]:
    for spec, trial in trials.items():
        row: dict[str, Any] = {"predictor": spec, "seconds": trial.seconds, "failure": trial.failure}
        for name, part in zip(PARTS, trial.parts, strict=False):
            row |= prefixed(f"{name}_", asdict(part))
        yield row


def _print(
    output: Output, label: str, split: Split, trials: dict[str, Trial], shown: list[str], chosen: Chosen, target: float
) -> None:
    earlier, later = (trials[BASELINE].parts[part].jobs for part in (0, 1))
    output.paragraph(
        f"{label}: chosen by {earlier:,} jobs submitted before {day(split.cut)}, reported on {later:,} jobs since then"
    )
    output.line()
    output.table(trials_table(trials, shown, chosen))
    output.line()
    output.paragraph(TRIALS_LEGEND, "faint")
    if chosen.accurate is None:
        output.paragraph(
            f"No predictor that underestimates at most {target:.0%} of the jobs is more accurate than walltimes."
        )
    for trial in trials.values():
        if trial.failure:
            output.paragraph(f"not tried: {trial.spec}: {trial.failure}", "warning")


def _print_weights(output: Output, weights: SiteWeights, split: Split, chosen: Chosen) -> None:
    logs = ", ".join(f"{name} ({count:,} jobs)" for name, count in weights.logs.items())
    output.paragraph(
        f"Trained on {logs}: {weights.file}, with jobs of the site that ended before {day(split.cut)}; before: figures "
        f"with other weights, trained on those that ended before {day(split.since)}."
    )
    if any(weights_of(spec) == weights.file for spec in chosen.specs()):
        output.paragraph(f"Keep {weights.file} where the daemon's user can read it, for as long as a setting names it.")
    else:
        output.paragraph(f"No chosen predictor uses {weights.file}.")


def _print_simulations(
    output: Output, metrics: dict[str, list[Metrics]], seeds: int, newest: int, unscored: str
) -> None:
    first, *others = metrics
    relative = {name: relative_changes(metrics[name], metrics[first]) for name in others}
    absolute = {name: differences(metrics[name], metrics[first]) for name in others}
    output.line()
    output.paragraph(
        f"The newest {newest:,} jobs, PBS's scheduling cycle, means over {seeds} shaken workloads; predictors begin "
        "without history:"
    )
    if unscored:
        output.paragraph(unscored)
    output.line()
    output.table(schedules_table({name: means(found) for name, found in metrics.items()}))
    output.line()
    output.table(changes_table(relative, absolute))
    output.line()
    output.paragraph(f"{LEGEND}\n{CHANGES_LEGEND}", "faint")


def _check_writable(file: Path) -> None:
    there = file if os.access(file, os.F_OK) else file.parent
    if not os.access(there, os.W_OK):
        raise SourceError(f"{file}: cannot be written: it or its folder does not exist or is not writable")


def _write(file: Path, chosen: Chosen, found: Recommendation, output: Output) -> None:
    """Write the recommended policy, or else the chosen predictor, in mode shadow."""
    from softwalltime.deployment.settings_file import read, with_values
    from softwalltime.policy.site import site_policy

    # In shadow first, whatever the simulation says: nothing that this command writes changes a schedule by itself.
    values = {"preset": "custom", "mode": "shadow", "waiting": chosen.accurate or HALF, "running": "walltime"}
    if found.waits is not None:
        values = policy_values(found.waits.setting)
    site_policy(values)
    waiting = values["waiting"]
    text = with_values(read(file) if os.access(file, os.F_OK) else "", {"policy": values}, str(file))
    try:
        file.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise SourceError(f"{file}: cannot be written: {error.strerror}") from error
    if output.form == "table":
        output.line()
        output.paragraph(
            f'{file}: [policy] has mode = "shadow", waiting = "{waiting}".  Where that does well, set mode = '
            '"on", and [live] too where the policy has a guard.'
        )
