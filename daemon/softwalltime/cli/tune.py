"""``softwalltime tune``: choose a predictor for a site from its own log."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import named_specs
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.sources import load_columns, problems
from softwalltime.cli.tune_options import TuneOptions
from softwalltime.core.errors import SourceError
from softwalltime.core.written import write_text
from softwalltime.predict.policy.presets import HALF

if TYPE_CHECKING:
    from softwalltime.cli.tune_order import OrderDocument
    from softwalltime.cli.tune_text import SimulatedCandidates
    from softwalltime.measure.replay.job_columns import JobColumns
    from softwalltime.measure.replay.sweep.trials import Trial
    from softwalltime.measure.replay.workload import Workload
    from softwalltime.measure.tuning.choice import Chosen, Split
    from softwalltime.measure.tuning.site_weights import SiteWeights
    from softwalltime.reports.recommendation import Recommendation
    from softwalltime.reports.simulation import SimulationInput
    from softwalltime.reports.tune_document import TuneDocument


@command({"": "a predictor", "--order": "an order and part of the log"})
def tune(options: TuneOptions) -> Result["TuneDocument"] | Result["OrderDocument"]:
    """Choose a predictor for a site from its own log.

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
    from softwalltime.measure.replay.sweep.grid import expand_all
    from softwalltime.measure.replay.workload import Workload
    from softwalltime.measure.simulation.differences import means
    from softwalltime.measure.tuning.choice import candidates, choose, front
    from softwalltime.measure.tuning.own_weights import with_both
    from softwalltime.predict.predictors.registry import BASELINE
    from softwalltime.reports.simulation_document import Advice
    from softwalltime.reports.tune_document import TuneDocument

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
    from softwalltime.measure.training.examples import usable
    from softwalltime.measure.tuning.choice import WARM_UP_SHARE, split_at
    from softwalltime.measure.tuning.site_weights import MIN_TRAINING_JOBS
    from softwalltime.measure.tuning.site_weights import TRAINED_WARM_UP as TRAINED

    training = options.training.wanted
    split = split_at(workload, options.split, TRAINED if training else WARM_UP_SHARE)
    if split is None:
        raise SourceError(
            f"{' '.join(options.sources)}: too few jobs with a runtime and a walltime to split: give a longer log"
        )
    if not training or (count := int(usable(workload, split.since).sum())) >= MIN_TRAINING_JOBS:
        return split, ""
    reason = f"No weights were trained: {count:,} jobs of the log could be used, {MIN_TRAINING_JOBS:,} are needed."
    return split_at(workload, options.split) or split, reason


def _tried(
    options: TuneOptions, jobs: "JobColumns", specs: list[str], split: "Split", *, train: bool
) -> "tuple[dict[str, Trial], SiteWeights | None]":
    """Return the trials of all predictors by specification, and the weights that were trained."""
    from softwalltime.measure.replay.sweep.jobs_file import take
    from softwalltime.measure.replay.sweep.kept_lines import KeptLines
    from softwalltime.measure.replay.sweep.trials import UNLIMITED, TrialTask, run_trials, saved_trials
    from softwalltime.measure.replay.sweep.workers import local_workers
    from softwalltime.measure.tuning.own_weights import joined, with_own_weights
    from softwalltime.predict.predictors.registry import BASELINE

    with ExitStack() as stack:
        weights = stack.enter_context(_trained(options, jobs, split)) if train else None
        if weights is not None:
            specs = with_own_weights(specs, weights.choosing, weights.file, options.target)
        kept = stack.enter_context(closing(KeptLines(options.keep)))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="softwalltime-"))
        snapshot = take(jobs, options.settings().teaching, Path(folder) / "jobs.json")
        # All others are compared with the baseline, which takes the least time.
        limits = {BASELINE: UNLIMITED}
        tasks = [
            TrialTask("", snapshot, spec, split.parts, options.minimum, limits.get(spec, options.timeout))
            for spec in specs
        ]
        done = saved_trials(tasks, kept)
        todo = [task for task in tasks if task not in done]
        trials = stack.enter_context(closing(run_trials(todo, local_workers(options.processes), kept)))
        with progress_bar("trying predictors", len(todo)) as progress:
            for task, trial in trials:
                done[task] = trial
                progress(1)
    tried = {task.spec: done[task] for task in tasks}
    return tried if weights is None else joined(tried, weights.choosing, weights.file), weights


@contextmanager
def _trained(options: TuneOptions, jobs: "JobColumns", split: "Split") -> "Iterator[SiteWeights]":
    """Train weights on the logs.

    :raises UsageError: if a further log is one of the same site.
    """
    from softwalltime.measure.tuning.site_weights import TrainingLogs, require_other_site, trained

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
    from softwalltime.measure.tuning.own_weights import is_calibrated, weights_of, with_weights
    from softwalltime.reports.candidates import CHANCE, MEDIAN, chance_policy, common_candidates, own_candidates
    from softwalltime.reports.recommendation import recommend_on, unsimulated
    from softwalltime.reports.simulation import SimulationOptions, SimulationSkipped, prepare, simulate_candidates

    baseline, teaching = options.site.baseline(options.minimum), options.settings().teaching
    simulation = SimulationOptions(
        baseline, processors, options.seeds, options.simulated_jobs, options.processes, options.keep
    )
    recorded: SimulationInput | SimulationSkipped = SimulationSkipped("--simulated-jobs 0 was given")
    if options.simulated_jobs:
        recorded = prepare(workload, simulation, teaching)
    if isinstance(recorded, SimulationSkipped):
        return SimulatedCandidates(recorded, {}, unsimulated(recorded))
    # The order of the own candidates is by calibrated, with the chosen weights.
    calibrated = [spec for spec in chosen.specs() if is_calibrated(spec)]
    ordering = with_weights(MEDIAN, weights_of(calibrated[0])) if calibrated else MEDIAN
    candidates = [*common_candidates(baseline), *own_candidates(chosen.specs(), ordering, baseline)]
    named = {baseline.name: baseline.policy, **{candidate.name: candidate.policy for candidate in candidates}}
    named[CHANCE] = chance_policy(baseline.policy)
    results, figures = simulate_candidates(recorded, candidates, simulation, progress_bar)
    metrics = {name: [results[policy, seed].metrics for seed in options.seeds] for name, policy in named.items()}
    return SimulatedCandidates(recorded, metrics, recommend_on(figures, options.max_broken / 100))


def _write(file: Path, chosen: "Chosen", found: "Recommendation", output: Output) -> None:
    """Write the recommended policy, or else the chosen predictor, in mode shadow."""
    from softwalltime.deployment.settings_file import read, with_values
    from softwalltime.predict.policy.site import site_policy
    from softwalltime.reports.recommendation import policy_values

    # In shadow first, whatever the simulation says: nothing that this command writes changes a schedule by itself.
    values = {"preset": "custom", "mode": "shadow", "waiting": chosen.accurate or HALF, "running": "walltime"}
    if found.waits is not None:
        values = policy_values(found.waits.setting)
    site_policy(values)
    waiting = values["waiting"]
    text, _ = with_values(read(file) if os.access(file, os.F_OK) else "", {"policy": values}, str(file))
    write_text(file, text)
    if output.form == "table":
        output.line()
        output.paragraph(
            f'{file}: [policy] has mode = "shadow", waiting = "{waiting}".  Where that does well, set mode = '
            '"on", and [live] too where the policy has a guard.'
        )
