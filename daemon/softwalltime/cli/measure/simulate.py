"""Schedule recorded jobs: the work of ``softwalltime simulate``."""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.advice import write_plan
from softwalltime.cli.measure.simulated import Classes, SimulationPlan, print_simulation
from softwalltime.cli.options import LazySettings
from softwalltime.cli.output import Output
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import ALL_JOBS, JobSelection
from softwalltime.cli.sources import load_columns
from softwalltime.cli.written import write_csv
from softwalltime.errors import SourceError, UsageError
from softwalltime.formatting import plural
from softwalltime.reports.candidates import STRICT_ARRIVAL, Baseline, Candidate
from softwalltime.reports.recommendation import recommend_on
from softwalltime.reports.simulation import (
    SimulationFigures,
    SimulationInput,
    SimulationOptions,
    compare_candidates,
    experiment_of,
    policies_of,
)
from softwalltime.simulation.batsim import COLUMNS, schedule_rows
from softwalltime.simulation.differences import means
from softwalltime.simulation.engine import ScheduleOutcome, check
from softwalltime.simulation.jobs import Jobs, jobs_of
from softwalltime.simulation.metrics import Metrics
from softwalltime.simulation.policies import SchedulerPolicy, policy_of, read_policies
from softwalltime.simulation.result_cache import ResultCache
from softwalltime.simulation.shaking import shaken, suitable_shake
from softwalltime.simulation.tasks import Experiment, SimulationResult, evaluate, results, tasks
from softwalltime.simulation.vnodes import Vnode, read_vnodes, that_fit, vnodes_of

SUITABLE = "suitable"
"""In place of a shake: the one that suits the jobs."""
_MAX_JOBS_IN_PROCESS = 150_000
"""Jobs up to which simulations are done in this process: starting others takes longer."""


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """How to simulate and what to print: the options of the command apart from policies.

    ``vnodes``: the machine in place of ``processors``.  ``shake``: :data:`SUITABLE` or one of the simulator's.
    ``several``: the schedule of every policy goes to a file.  ``candidates`` are to be recommended or not, beside
    ``baseline``, with at most the share ``target`` more of the promised starts broken; what is recommended is written
    into ``plan``.
    """

    processors: int | None = None
    vnodes: tuple[Vnode, ...] = ()
    shake: str | None = None
    seeds: tuple[int, ...] | None = None
    by: tuple[str, ...] = ()
    output: Output = field(default_factory=Output)
    jobs_file: Path | None = None
    several: bool = False
    keep: Path | None = None
    processes: int | None = None
    scheduler: str | None = None
    selection: JobSelection = ALL_JOBS
    walltimes: Mapping[str, int] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    baseline: Baseline = STRICT_ARRIVAL
    target: float = 0.0
    plan: Path | None = None


def simulate_sources(
    sources: tuple[str, ...], processors: int | None, vnodes: str | None, pbsnodes: Path | None, file: Path | None,
    run_as_recorded: bool, kill_at_estimate: bool, shake: str | None,
    seeds: tuple[int, ...] | None, by: tuple[str, ...], output: Output, jobs_file: Path | None, keep: Path | None,
    processes: int | None, scheduler: str | None, minimum: int, selection: JobSelection,
    walltimes: dict[str, int], settings: LazySettings, **policy: Any,
) -> int:  # fmt: skip
    """Simulate the policies that the options name; return the exit status."""
    if seeds is not None and shake is None:
        raise UsageError("--seeds is for shaken workloads: add --shake week, or omit it")
    if jobs_file is not None and (shake is not None or scheduler is not None):
        raise UsageError("--schedule writes the schedule of the recorded workload: omit --shake and --scheduler")
    if processes is not None and scheduler is not None:
        raise UsageError("--processes is for this machine; with --scheduler the cluster's workers do it")
    if jobs_file is not None and not os.access(jobs_file.parent, os.W_OK):
        raise SourceError(f"{jobs_file}: cannot be written: its folder does not exist, or is not writable")
    given = {key: value for key, value in policy.items() if value is not None}
    if "live" in given:
        given["live"] *= 60
    given |= {
        "kill_at_walltime": not run_as_recorded, "kill_at_estimate": kill_at_estimate, "minimum": minimum,
    }  # fmt: skip
    if sum(each is not None for each in (processors, vnodes, pbsnodes)) > 1:
        raise UsageError("--processors, --vnodes and --pbsnodes each describe the machine: give one of them")
    machine = vnodes_of(vnodes) if vnodes is not None else read_vnodes(pbsnodes) if pbsnodes is not None else ()
    if machine and given.setdefault("backfill", "pbs") != "pbs":
        raise UsageError(f"the backfilling {given['backfill']} knows processors only: use pbs on a machine of vnodes")
    policies = _policies(file, given, machine)
    options = SimulationRun(
        processors, machine, shake, seeds, tuple(dict.fromkeys(by)), output, jobs_file, file is not None, keep,
        processes, scheduler, selection, walltimes,
    )  # fmt: skip
    return simulate_policies(sources, policies, options, settings)


def simulate_policies(
    sources: tuple[str, ...], policies: dict[str, SchedulerPolicy], options: SimulationRun, settings: LazySettings
) -> int:
    """Simulate the policies on the jobs of the sources, print figures and changes; return the exit status."""
    machine, processors = options.vnodes, options.processors
    completed, tally = load_columns(sources, settings, selection=options.selection, walltimes=options.walltimes)
    teaching = settings().teaching
    jobs = jobs_of(completed, teaching)
    require_scored(jobs, sources)
    size = sum(vnode.resources[0] for vnode in machine) or processors or tally.machine or jobs.peak()
    share = jobs.scored_share(size)
    jobs, refused = that_fit(machine, jobs) if machine else jobs.that_fit(size)
    if not len(jobs) and machine:
        raise UsageError(f"no job fits the {plural(len(machine), 'vnode')}: correct --vnodes or --pbsnodes")
    if not len(jobs):
        raise UsageError(f"every job is larger than {plural(size, 'processor')}: correct --processors")
    shake = suitable_shake(jobs) if options.shake == SUITABLE else options.shake or ""
    by = options.by
    first = next(iter(policies.values()))
    recorded = SimulationInput(
        jobs, len(jobs), refused, size, estimated=not (machine or processors or tally.machine), scored_share=share
    )
    experiment = (
        experiment_of(recorded, first) if options.candidates else Experiment("", size, first, shake, by, machine)
    )
    seeds = (options.seeds or tuple(range(31, 41))) if shake else (0,)
    plan = SimulationPlan(experiment, policies, seeds, jobs)
    found = run_simulations(plan, options, tuple(sorted(teaching)))
    metrics = {name: [found[policy, seed].metrics for seed in plan.seeds] for name, policy in policies.items()}
    classes: Classes = {
        kind: {
            name: _by_class([found[policy, seed].classes[kind] for seed in plan.seeds])
            for name, policy in policies.items()
        }
        for kind in by
    }
    advice = None
    if options.candidates:
        compared = SimulationOptions(options.baseline, size, plan.seeds)
        figures = compare_candidates(recorded, options.candidates, compared, found)
        advice = recommend_on(figures, options.target)
    print_simulation(options.output, sources, options.selection, plan, refused, metrics, classes, advice)
    if options.plan is not None and advice is not None:
        click.echo(write_plan(options.plan, advice, figures), err=options.output.form != "table")
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def require_scored(jobs: Jobs, sources: tuple[str, ...]) -> None:
    """Check that there is a job to measure.

    :raises SourceError: if no job can be simulated, or none has a walltime.
    """
    if not len(jobs):
        raise SourceError(f"no job in {' '.join(sources)} has a runtime and processors")
    if not jobs.scored.any():
        raise SourceError(
            f"none of the {len(jobs):,} jobs in {' '.join(sources)} that ran has a walltime: give those of the queues, "
            "--walltime-from queue=HH:MM:SS,..."
        )


def _policies(file: Path | None, given: dict[str, Any], machine: tuple[Vnode, ...]) -> dict[str, SchedulerPolicy]:
    """The policies by name, each once; checked, because minutes of reading come next."""
    if file is not None:
        policies = read_policies(file, given)
    else:
        # On a machine of vnodes today's scheduler is PBS's cycle too.
        shared = ("kill_at_walltime", "kill_at_estimate", "minimum", *(("backfill",) if machine else ()))
        common = {key: given[key] for key in shared}
        both = (policy_of(common, "the options"), policy_of(given, "the options"))
        policies = {policy.name: policy for policy in both}
    for name, policy in policies.items():
        try:
            check(policy)
        except UsageError as error:
            raise type(error)(f"{file}: [{name}]: {error}" if file else str(error)) from error
    return policies


def run_simulations(
    plan: SimulationPlan, options: SimulationRun, teaching: tuple[Any, ...]
) -> dict[tuple[SchedulerPolicy, int], SimulationResult]:  # fmt: skip
    """All results, by policy and seed."""
    jobs_file, keep, scheduler = options.jobs_file, options.keep, options.scheduler
    from softwalltime.replay.sweep.snapshot import take
    from softwalltime.replay.sweep.workers import dask_workers, local_workers

    wanted = [(policy, seed) for seed in plan.seeds for policy in dict.fromkeys(plan.policies.values())]
    found: dict[tuple[SchedulerPolicy, int], SimulationResult] = {}
    with ExitStack() as stack:
        workers = stack.enter_context(dask_workers(scheduler)) if scheduler else local_workers(options.processes)
        here = not scheduler and (
            jobs_file is not None
            or workers.processes == 1
            or len(wanted) == 1
            or len(wanted) * len(plan.jobs) <= _MAX_JOBS_IN_PROCESS
        )
        experiment = plan.experiment
        path = Path()
        if keep is not None or not here:
            # A cluster's workers read the jobs where the results are written, which is where all can read.
            parent = keep.parent.absolute() if keep is not None else Path.cwd() if scheduler else None
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".simulate-", dir=parent))
            except OSError as error:
                raise SourceError(f"{parent}: cannot be written: {error.strerror}") from error
            path = Path(folder) / "jobs.json"
            snapshot = take(plan.jobs.completed, teaching, path)
            experiment = Experiment(**{**_shallow(experiment), "digest": snapshot.digest})
        kept = stack.enter_context(ResultCache(keep, experiment)) if keep is not None else None
        for policy, seed in wanted if kept is not None and jobs_file is None else ():
            result = kept.find(policy, seed) if kept is not None else None
            if result is not None:
                found[policy, seed] = result
        todo = [each for each in wanted if each not in found]
        with progress_bar("simulating", len(todo) * len(plan.jobs)) as progress:

            def add(result: SimulationResult) -> None:
                found[result.policy, result.seed] = result
                if kept is not None:
                    kept.add(result)

            if here:
                write = _writer(plan, jobs_file, options.several)
                for seed in dict.fromkeys(seed for _, seed in todo):
                    workload = shaken(plan.jobs, experiment.shake, seed) if experiment.shake else plan.jobs
                    policies = [policy for policy, its_seed in todo if its_seed == seed]
                    for result in results(workload, experiment, policies, seed, progress, write):
                        add(result)
            else:
                work = tasks(experiment, path, teaching, todo, workers.processes)
                with closing(workers.do(evaluate, work)) as done:
                    for some in done:
                        for result in some:
                            add(result)
                        progress(len(some) * len(plan.jobs))
    return found


def simulate_candidates(
    recorded: SimulationInput, candidates: Sequence[Candidate], options: SimulationOptions, keep: Path | None,
    processes: int | None, teaching: Iterable[Any],
) -> tuple[dict[tuple[SchedulerPolicy, int], SimulationResult], SimulationFigures]:  # fmt: skip
    """Simulate candidates beside what the site runs; return all results, and how the candidates compare.

    :param keep: file of results that are known already, and of those that are computed.
    """
    policies = policies_of(candidates, options.baseline.policy)
    plan = SimulationPlan(
        experiment_of(recorded, policies[0]), {one.name: one for one in policies}, options.seeds, recorded.jobs
    )
    run = SimulationRun(recorded.processors, keep=keep, processes=processes)
    found = run_simulations(plan, run, tuple(sorted(teaching)))
    return found, compare_candidates(recorded, candidates, options, found)


def _shallow(experiment: Experiment) -> dict[str, Any]:
    return {name: getattr(experiment, name) for name in experiment.__slots__}


def _writer(
    plan: SimulationPlan, path: Path | None, several: bool
) -> Callable[[SchedulerPolicy, ScheduleOutcome], None]:
    """Write each policy's schedule; without --policies, the one of the options only."""
    names = {policy: name for name, policy in plan.policies.items()}
    last = next(reversed(plan.policies.values()))

    def write(policy: SchedulerPolicy, outcome: ScheduleOutcome) -> None:
        if path is None or (not several and policy != last):
            return
        name = names[policy]
        suffix = re.sub(r"[^\w.+=-]+", "_", name)
        target = path.with_name(f"{path.stem}-{suffix}{path.suffix}") if several else path
        write_csv(target, COLUMNS, schedule_rows(plan.jobs, outcome, name))

    return write


def _by_class(found: list[dict[str, Metrics]]) -> dict[str, Metrics]:
    """The means over the workloads of each class that any of them has."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: means([one[name] for one in found if name in one]) for name in names}
