"""``softwalltime tune``: choose a predictor for a site from its own log."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_source
from softwalltime.cli.options import (
    KEEP,
    MAX_BROKEN,
    MINIMUM_OPTION,
    PROCESSES,
    SHARE,
    SOURCES,
    Seeds,
    StoreOptions,
    named_specs,
    predictor,
    predictors,
)
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import JobSelection
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import STORE, load_columns
from softwalltime.errors import SourceError, UsageError
from softwalltime.policy.presets import HALF
from softwalltime.written import require_folder

if TYPE_CHECKING:
    from softwalltime.cli.tune_order import OrderDocument
    from softwalltime.cli.tune_text import SimulatedCandidates
    from softwalltime.replay.job_columns import JobColumns
    from softwalltime.replay.workload import Workload
    from softwalltime.reports.recommendation import Recommendation
    from softwalltime.reports.simulation import SimulationInput
    from softwalltime.reports.tune_document import TuneDocument
    from softwalltime.tuning.choice import Chosen, Split
    from softwalltime.tuning.site_weights import SiteWeights
    from softwalltime.tuning.trial import Trial

SEEDS = tuple(range(31, 36))
"""Shaken workloads to simulate."""


@options
class TrainingOptions:
    """Which weights of calibrated to train; no file: beside the settings."""

    wanted: bool = option(
        "Also try calibrated with weights that are trained on the earlier part.  Needs PyTorch (the extra train).",
        "--train",
    )
    logs: tuple[str, ...] = option(
        "With --train: train on this log of another site too.  Repeatable.", "--train-with", metavar="LOG",
        shell_complete=complete_source,
    )  # fmt: skip
    file: Path | None = option(
        "With --train: write the weights to this file.  Default: weights-*.json beside the file of --write, or here.",
        "--weights", metavar="FILE",
    )  # fmt: skip

    def check(self, sources: tuple[str, ...], settings_file: Path | None, keep: Path | None) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises SoftwalltimeError: if PyTorch is missing.
        :raises UsageError: if a log is given twice, or the file's name cannot be part of a predictor's options.
        :raises SourceError: if a file cannot be written.
        """
        if not self.wanted:
            if self.logs or self.file is not None:
                raise UsageError(f"{'--train-with' if self.logs else '--weights'} needs --train")
            return
        from softwalltime.training.weights import require_torch
        from softwalltime.tuning.trial_file import TrialFile

        require_torch()
        again = {os.path.realpath(source) for source in sources} & {os.path.realpath(log) for log in self.logs}
        if again or (STORE in sources and STORE in self.logs):
            raise UsageError(f"--train-with {min(again)}: SOURCE has this log, and its later part must not be learnt")
        place = self.place(settings_file, "")
        require_folder(place)
        if set(",|\n") & set(str(place)):
            raise UsageError(f"--weights {place}: a predictor's options cannot name a path with a comma or |")
        # Weights are trained for minutes before the file is needed.
        with TrialFile(keep):
            pass

    def place(self, settings_file: Path | None, key: str) -> Path:
        """Return the file to write, as an absolute path: a file of other weights is not overwritten by default."""
        folder = Path() if settings_file is None else settings_file.parent
        return (folder / f"weights-{key[:8]}.json" if self.file is None else self.file).absolute()


@options
class OrderOptions:
    """Whether to search the order of the queue, and within which limits."""

    wanted: bool = option("Search the order of the queue instead, within the limits below.", "--order")
    max_tail: float = option(
        "With --order: greatest growth of the 99th percentile wait of each class of jobs, in percent.",
        type=click.FloatRange(0, 1000), default=5.0, metavar="PERCENT",
    )  # fmt: skip
    max_longest: float = option(
        "With --order: greatest growth of the longest wait, in percent.",
        type=click.FloatRange(0, 1000), default=10.0, metavar="PERCENT",
    )  # fmt: skip


@options
class TuneOptions:
    sources: tuple[str, ...] = SOURCES
    listed: str | None = predictors(
        "Try only these predictors or grids, separated by commas.  Default: all, with the options they name."
    )
    single: tuple[str, ...] = predictor("One predictor or grid; repeatable.")
    target: float = option("Greatest share of the jobs to underestimate.", type=click.FloatRange(
        0, 0.5, min_open=True, max_open=True
    ), default=0.05, metavar="SHARE")  # fmt: skip
    split: float = option(
        "Choose by this share of the jobs, the first ones; report the others.", type=SHARE, default=0.5, metavar="SHARE"
    )
    keep: Path | None = KEEP
    timeout: float = option(
        "Give up a predictor after so much processor time.", "--time-limit",
        type=click.FloatRange(0, min_open=True), default=600, metavar="SECONDS",
    )  # fmt: skip
    processes: int | None = PROCESSES
    order: OrderOptions
    site: SiteOptions
    max_broken: float = MAX_BROKEN
    simulated_jobs: int = option(
        "Simulate the newest N jobs, with --order of each part; 0: none.", least=0, default=10_000, metavar="N"
    )
    seeds: tuple[int, ...] = option(
        "A shaken workload for each.  Default: 31-35.", type=Seeds(), default=SEEDS, show_default=False, metavar="LIST"
    )
    settings_file: Path | None = option(
        "Write the recommended [policy], in mode shadow, into this settings file; its other lines stay.  With "
        "--order: write the recommended order into this plan file, for policy set and verify.", "--write",
        metavar="FILE",
    )  # fmt: skip
    training: TrainingOptions
    selection: JobSelection
    minimum: int = MINIMUM_OPTION
    output: Output
    settings: StoreOptions

    def check(self) -> None:
        """Refuse what cannot succeed, before minutes of work.

        :raises SoftwalltimeError: says what.
        """
        if self.order.wanted:
            if self.listed or self.single or self.training.wanted or not self.simulated_jobs:
                raise UsageError(
                    "--order simulates orders: omit --predictors, --predictor, --train and --simulated-jobs 0"
                )
            if self.settings_file is not None:
                require_folder(self.settings_file)
            return
        file = self.settings_file
        if file is not None and not os.access(file if os.access(file, os.F_OK) else file.parent, os.W_OK):
            raise SourceError(f"{file}: cannot be written: it or its folder does not exist or is not writable")
        self.training.check(self.sources, file, self.keep)


@command({"": "a predictor", "--order": "an order and part of the log"})
def tune(options: TuneOptions) -> Result["TuneDocument"] | Result["OrderDocument"]:
    """Choose a predictor, or with --order the order of the queue, for a site from its own log.

    A SOURCE is the same as for replay.  The log is split by time.  All predictors are tried with several options.  The
    earlier part chooses among them, and the figures are of the later, held-out part.  The best few are simulated on the
    newest jobs beside the policies of softwalltime report, and the verdict is that of report on these jobs: switch a
    policy on, do not, or the simulation cannot tell.

    With --train weights of calibrated are trained on the jobs that ended before the later part, and on the logs of
    other sites where they are given.  Its predictions with these weights are tried beside those with the weights in
    the package.  Other weights, of the first 70% of the earlier part, are tried on its other jobs, which choose.

    With --order the orders of the queue are searched in which powers of wait, length and size count.  The earlier part
    finds those that shorten waits within the limits, the middle part chooses among them, and the last part decides
    whether the chosen one is recommended, or none.

    \b
    Example:
      softwalltime tune accounting --predictors v1,v3,percentile --simulated-jobs 1000
      softwalltime tune /var/spool/pbs/server_priv/accounting --keep tune.jsonl
      softwalltime tune accounting --order --simulated-jobs 300 --seeds 31-32 --write plan.toml
      softwalltime tune accounting --train --train-with other-site.swf.gz --write softwalltime.toml
      softwalltime tune KTH-SP2.swf.gz --predictors v1,v3,calibrated:target=0.02|0.05 --write softwalltime.toml
    """
    if options.order.wanted:
        from softwalltime.cli.tune_order import find_order

        options.check()
        return find_order(options)
    return _choose_predictor(options)


def _choose_predictor(options: TuneOptions) -> Result["TuneDocument"]:
    from softwalltime.cli.tune_text import print_tuning
    from softwalltime.predictors.registry import BASELINE
    from softwalltime.replay.lower_bound import find_lower_bound
    from softwalltime.replay.sweep.grid import expand_all
    from softwalltime.replay.workload import Scoring, Workload
    from softwalltime.reports.simulation_document import Advice
    from softwalltime.reports.tune_document import TuneDocument
    from softwalltime.simulation.differences import means
    from softwalltime.tuning.candidates import candidates
    from softwalltime.tuning.choice import choose, front
    from softwalltime.tuning.own_weights import with_both

    wanted = named_specs(options.listed, options.single)
    # Each one is made once, so that a wrong one fails before minutes of reading.
    specs = list(dict.fromkeys((BASELINE, HALF, *(expand_all(wanted) if wanted else candidates()))))
    options.check()
    jobs, tally = load_columns(
        options.sources, options.settings, selection=options.selection, walltimes=options.site.walltimes
    )
    teaching = options.settings().teaching
    workload = Workload(jobs, teaching=teaching)
    split, untrained = _split(options, workload)
    trials, weights = _tried(options, jobs, specs, split, train=options.training.wanted and not untrained)
    chosen = choose(trials, options.target)
    shown = list(dict.fromkeys((BASELINE, HALF, *front(trials), *chosen.specs())))
    if weights is not None:
        shown += [spec for spec in with_both(shown, trials, weights.file, options.target) if spec not in shown]
    floor = find_lower_bound(Workload(jobs, teaching=teaching, scoring=Scoring(split.cut)))
    simulated = _simulated(options, workload, chosen, options.site.processors or tally.machine or None)
    document = TuneDocument(
        source=" ".join(options.sources),
        selection=str(options.selection) or None,
        split=split,
        target=options.target,
        trials=trials,
        weights=weights,
        front=tuple(front(trials)),
        chosen=chosen,
        floor=floor,
        policies={name: means(each) for name, each in simulated.metrics.items()},
        advice=Advice.of(simulated.found),
    )
    label = options.selection.label(options.sources)
    text = partial(print_tuning, label=label, shown=shown, untrained=untrained, simulated=simulated)
    write = partial(_write, options.settings_file, chosen, simulated.found) if options.settings_file else None
    return Result(document, text, 1 if tally.broken else 0, problems(tally), then=write)


def _split(options: TuneOptions, workload: "Workload") -> "tuple[Split, str]":
    """Return where the log is split, and why no weights are trained; empty: they are, or are not wanted.

    :raises SourceError: if the log is too short.
    """
    from softwalltime.tuning.choice import WARM_UP, split_at
    from softwalltime.tuning.site_weights import MIN_TRAINING_JOBS, own_examples
    from softwalltime.tuning.site_weights import WARM_UP as TRAINED

    training = options.training.wanted
    split = split_at(workload, options.split, TRAINED if training else WARM_UP)
    if split is None:
        raise SourceError(
            f"{' '.join(options.sources)}: too few jobs with a runtime and a walltime to split: give a longer log"
        )
    if not training or (count := own_examples(workload, split)) >= MIN_TRAINING_JOBS:
        return split, ""
    reason = f"No weights were trained: {count:,} jobs of the log could be used, {MIN_TRAINING_JOBS:,} are needed."
    return split_at(workload, options.split) or split, reason


def _tried(
    options: TuneOptions, jobs: "JobColumns", specs: list[str], split: "Split", *, train: bool
) -> "tuple[dict[str, Trial], SiteWeights | None]":
    """Return the trials of all predictors by specification, and the weights that were trained."""
    from softwalltime.tuning.own_weights import joined, with_own_weights
    from softwalltime.tuning.trials import run_trials

    with _trained(options, jobs, split) if train else nullcontext() as weights:
        if weights is not None:
            specs = with_own_weights(specs, weights.choosing, weights.file, options.target)
        with progress_bar("trying predictors", len(specs)) as progress:
            trials = run_trials(
                jobs, options.settings().teaching, specs, split.bounds, options.minimum, keep=options.keep,
                processes=options.processes, timeout=options.timeout, progress=progress,
            )  # fmt: skip
    return trials if weights is None else joined(trials, weights.choosing, weights.file), weights


@contextmanager
def _trained(options: TuneOptions, jobs: "JobColumns", split: "Split") -> "Iterator[SiteWeights]":
    """Train weights on the logs.

    :raises UsageError: if a further log is one of the same site.
    """
    from softwalltime.tuning.site_weights import TrainingLogs, require_other_site, trained

    named = [(" ".join(Path(source).name for source in options.sources), jobs)]
    for log in options.training.logs:
        further, _ = load_columns((log,), options.settings)
        require_other_site(log, further, jobs)
        named.append((Path(log).name, further))
    logs = TrainingLogs(named, options.settings().teaching)
    place = partial(options.training.place, options.settings_file)
    with trained(logs, split, place, options.keep, progress_bar) as weights:
        yield weights


def _simulated(
    options: TuneOptions, workload: "Workload", chosen: "Chosen", processors: int | None
) -> "SimulatedCandidates":
    """Simulate the common candidates and those with the chosen predictors on the newest jobs."""
    from softwalltime.cli.tune_text import SimulatedCandidates
    from softwalltime.reports.candidates import CHANCE, MEDIAN, chance_policy, common_candidates, own_candidates
    from softwalltime.reports.recommendation import recommend_on, unsimulated
    from softwalltime.reports.simulation import (
        SimulationOptions,
        SimulationSkipped,
        prepare,
        simulate_candidates,
    )
    from softwalltime.simulation.runs import RunOptions
    from softwalltime.tuning.own_weights import is_calibrated, weights_of, with_weights

    baseline, teaching = options.site.baseline(options.minimum), options.settings().teaching
    simulation = SimulationOptions(baseline, processors, options.seeds, options.simulated_jobs)
    recorded: SimulationInput | SimulationSkipped = SimulationSkipped("--simulated-jobs 0 was given")
    if options.simulated_jobs:
        recorded = prepare(workload, simulation, teaching)
    if isinstance(recorded, SimulationSkipped):
        return SimulatedCandidates(recorded, {}, unsimulated(recorded))
    # The order of the own candidates is by calibrated, with the chosen weights.
    calibrated = [spec for spec in chosen.specs() if is_calibrated(spec)]
    ordering = with_weights(MEDIAN, weights_of(calibrated[0])) if calibrated else MEDIAN
    candidates = [*common_candidates(baseline), *own_candidates(chosen.specs(), ordering, baseline)]
    named = {baseline.name: baseline.policy, **{one.name: one.policy for one in candidates}}
    named[CHANCE] = chance_policy(baseline.policy)
    where = RunOptions(options.keep, options.processes)
    results, figures = simulate_candidates(recorded, candidates, simulation, where, teaching, progress_bar)
    metrics = {name: [results[policy, seed].metrics for seed in options.seeds] for name, policy in named.items()}
    return SimulatedCandidates(recorded, metrics, recommend_on(figures, options.max_broken / 100))


def _write(file: Path, chosen: "Chosen", found: "Recommendation", output: Output) -> None:
    """Write the recommended policy, or else the chosen predictor, in mode shadow."""
    from softwalltime.deployment.settings_file import read, with_values
    from softwalltime.policy.site import site_policy
    from softwalltime.reports.recommendation import policy_values

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
