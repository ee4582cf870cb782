"""``softwalltime simulate``: what would a scheduling policy have done to waits?"""

import os
import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from softwalltime.cli.completing import complete_predictor, complete_source
from softwalltime.cli.options import LazySettings, Seeds, minimum_option, store_options
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.problems import problems
from softwalltime.cli.progress import progress_bar
from softwalltime.cli.selection import ALL_JOBS, JobSelection, selection_options
from softwalltime.cli.simulated import Classes, SimulationPlan, print_simulation
from softwalltime.cli.sources import load_columns
from softwalltime.errors import SourceError, UsageError
from softwalltime.formatting import plural
from softwalltime.simulation.backfilling import DISCIPLINES
from softwalltime.simulation.batsim import write_jobs
from softwalltime.simulation.corrections import CORRECTIONS
from softwalltime.simulation.differences import means
from softwalltime.simulation.engine import ScheduleOutcome, check
from softwalltime.simulation.jobs import jobs_of
from softwalltime.simulation.metrics import CLASSES, Metrics
from softwalltime.simulation.orders import ORDERS
from softwalltime.simulation.policies import Policy, policy_of, read_policies
from softwalltime.simulation.result_cache import ResultCache
from softwalltime.simulation.shaking import SHAKES, shaken
from softwalltime.simulation.tasks import Experiment, SimulationResult, evaluate, results, tasks
from softwalltime.simulation.vnodes import Vnode, read_vnodes, that_fit, vnodes_of

_FEW = 150_000
"""Jobs up to which simulations are done in this process: starting others takes longer."""


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make a policy; those that are not given are ``None``."""
    kinds = "walltime, runtime (a bound: no scheduler knows it), or a predictor"
    for option in reversed(
        [
            click.option("--order", type=click.Choice(list(ORDERS)), help="Order of the queue.  Default: fcfs."),
            click.option("--backfill", type=click.Choice(list(DISCIPLINES)), help="Backfilling.  Default: easy."),
            click.option(
                "--waiting", metavar="SPEC", shell_complete=complete_predictor,
                help=f"Value of waiting jobs: {kinds}.  Default: walltime.",
            ),
            click.option(
                "--running", metavar="SPEC", shell_complete=complete_predictor,
                help="Value of running jobs.  Default: walltime.",
            ),
            click.option(
                "--ordering", metavar="SPEC", shell_complete=complete_predictor,
                help="Value that the order uses.  Default: walltime.",
            ),
            click.option(
                "--correction", type=click.Choice(list(CORRECTIONS)),
                help="Rule for a running job that outlives its value.  Default: pbs.",
            ),
            click.option(
                "--guard", type=click.IntRange(0), metavar="SECONDS",
                help="Backfill by walltimes while the top job is that late.",
            ),
            click.option(
                "--steer", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
                help="Adapt waiting values until this share of promises is broken.",
            ),
            click.option("--formula", metavar="TEXT", help="PBS's job_sort_formula, for the order formula."),
            click.option("--depth", type=click.IntRange(1), metavar="N", help="PBS's backfill_depth.  Default: 1."),
            click.option(
                "--live", type=click.IntRange(1), metavar="MINUTES", help="Set values anew every so many minutes."
            ),
            click.option("--age", type=click.IntRange(1), metavar="SECONDS", help="Of order xf.  Default: 3600."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """How to simulate and what to print: the options of the command apart from policies.

    ``vnodes``: the machine in place of ``processors``.  ``several``: the schedule of every policy goes to a file.
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


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@click.option("--processors", type=click.IntRange(1), metavar="N", help="Machine size.  Default: the most in use.")
@click.option(
    "--vnodes",
    metavar="TEXT",
    help="Machine of vnodes, as 100:ncpus=32:mem=128gb+4:ncpus=64:ngpus=4; jobs are placed by select and place.",
)
@click.option(
    "--pbsnodes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Machine of the vnodes in this output of pbsnodes -a -F json.",
)
@policy_options
@click.option(
    "--policies",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file with a table for each policy; the first one is the baseline.",
)
@click.option("--run-as-recorded", is_flag=True, help="Do not kill jobs at their walltime.")
@click.option("--shake", type=click.Choice(SHAKES), help="Simulate shaken workloads, for confidence intervals.")
@click.option("--seeds", type=Seeds(), metavar="LIST", help="A shaken workload for each.  Default: 31-40.")
@click.option("--by", multiple=True, type=click.Choice(CLASSES), help="Figures by class too; may be given again.")
@click.option(
    "--jobs",
    "jobs_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the schedule as CSV with Batsim's columns; with --policies, a file for each.",
)
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save figures in this file as they are computed; the same command continues from there.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="Simulate on a Dask cluster: its scheduler, as tcp://host:8786.")
@selection_options
@minimum_option
@output_options
@store_options
def simulate(
    sources: tuple[str, ...], processors: int | None, vnodes: str | None, pbsnodes: Path | None, file: Path | None,
    run_as_recorded: bool, shake: str | None,
    seeds: tuple[int, ...] | None, by: tuple[str, ...], output: Output, jobs_file: Path | None, keep: Path | None,
    processes: int | None, scheduler: str | None, minimum: int, selection: JobSelection,
    settings: LazySettings, **policy: Any,
) -> int:  # fmt: skip
    """Schedule recorded jobs under a policy.

    A SOURCE is the same as for replay; several sources are one workload.  Each job is submitted at its recorded
    time and starts when the policy would have started it on a machine of N processors.  The policy of the options
    is compared with first come, first served, EASY backfilling and walltimes.  Nothing is changed anywhere.

    On a machine of vnodes (--vnodes, --pbsnodes) jobs are placed chunk by chunk: a job can wait although enough
    processors are free.  The scheduler is then PBS's cycle.

    One schedule depends on chance: a single changed start can change a whole year.  With --shake, each policy runs on
    the same shaken workloads, and changes are given with a 95% confidence interval.

    \b
    Example:
      softwalltime simulate accounting --processors 128 --waiting factor:0.5
      softwalltime simulate KTH-SP2.swf.gz --processors 100 --waiting factor:0.5
      softwalltime simulate LOGS --order xf --ordering v3 --waiting v3 --guard 3600 --shake week --seeds 31-40
      softwalltime simulate LOGS --backfill pbs --order formula --formula '(eligible_time + 3600) / predicted'
      softwalltime simulate LOGS --policies policies.toml --shake week --format json --by user
      softwalltime simulate LOGS --pbsnodes pbsnodes.json --waiting factor:0.5
    """
    if seeds is not None and shake is None:
        raise UsageError("--seeds is for shaken workloads: add --shake week, or omit it")
    if jobs_file is not None and (shake is not None or scheduler is not None):
        raise UsageError("--jobs writes the schedule of the recorded workload: omit --shake and --scheduler")
    if processes is not None and scheduler is not None:
        raise UsageError("--processes is for this machine; with --scheduler the cluster's workers do it")
    if jobs_file is not None and not os.access(jobs_file.parent, os.W_OK):
        raise SourceError(f"{jobs_file}: cannot be written: its folder does not exist, or is not writable")
    given = {key: value for key, value in policy.items() if value is not None}
    if "live" in given:
        given["live"] *= 60
    given |= {"kill_at_walltime": not run_as_recorded, "minimum": minimum}
    if sum(each is not None for each in (processors, vnodes, pbsnodes)) > 1:
        raise UsageError("--processors, --vnodes and --pbsnodes each describe the machine: give one of them")
    machine = vnodes_of(vnodes) if vnodes is not None else read_vnodes(pbsnodes) if pbsnodes is not None else ()
    if machine and given.setdefault("backfill", "pbs") != "pbs":
        raise UsageError(f"the backfilling {given['backfill']} knows processors only: use pbs on a machine of vnodes")
    policies = _policies(file, given, machine)
    options = SimulationRun(
        processors, machine, shake, seeds, tuple(dict.fromkeys(by)), output, jobs_file, file is not None, keep,
        processes, scheduler, selection,
    )  # fmt: skip
    return simulate_policies(sources, policies, options, settings)


def simulate_policies(
    sources: tuple[str, ...], policies: dict[str, Policy], options: SimulationRun, settings: LazySettings
) -> int:
    """Simulate the policies on the jobs of the sources, print figures and changes; return the exit status."""
    machine, processors = options.vnodes, options.processors
    completed, tally = load_columns(sources, settings, selection=options.selection)
    teaching = settings().teaching
    jobs = jobs_of(completed, teaching)
    if not len(jobs):
        raise SourceError(f"no job in {' '.join(sources)} has a runtime, a walltime and processors")
    size = sum(vnode.resources[0] for vnode in machine) or processors or jobs.peak()
    jobs, refused = that_fit(machine, jobs) if machine else jobs.that_fit(size)
    if not len(jobs) and machine:
        raise UsageError(f"no job fits the {plural(len(machine), 'vnode')}: correct --vnodes or --pbsnodes")
    if not len(jobs):
        raise UsageError(f"every job is larger than {plural(size, 'processor')}: correct --processors")
    shake, by = options.shake or "", options.by
    experiment = Experiment("", size, next(iter(policies.values())), shake, by, machine)
    seeds = (options.seeds or tuple(range(31, 41))) if shake else (0,)
    plan = SimulationPlan(experiment, policies, seeds, jobs, completed)
    found = run_simulations(plan, options, tuple(sorted(teaching)))
    metrics = {name: [found[policy, seed].metrics for seed in plan.seeds] for name, policy in policies.items()}
    classes: Classes = {
        kind: {
            name: _by_class([found[policy, seed].classes[kind] for seed in plan.seeds])
            for name, policy in policies.items()
        }
        for kind in by
    }
    print_simulation(options.output, sources, options.selection, plan, refused, metrics, classes)
    for line in problems(tally):
        click.echo(line, err=True)
    return 1 if tally.broken else 0


def _policies(file: Path | None, given: dict[str, Any], machine: tuple[Vnode, ...]) -> dict[str, Policy]:
    """The policies by name, each once; checked, because minutes of reading come next."""
    if file is not None:
        policies = read_policies(file, given)
    else:
        # On a machine of vnodes today's scheduler is PBS's cycle too.
        shared = ("kill_at_walltime", "minimum", *(("backfill",) if machine else ()))
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
) -> dict[tuple[Policy, int], SimulationResult]:  # fmt: skip
    """All results, by policy and seed."""
    jobs_file, keep, scheduler = options.jobs_file, options.keep, options.scheduler
    from softwalltime.replay.sweep.snapshot import take
    from softwalltime.replay.sweep.workers import dask_workers, local_workers

    wanted = [(policy, seed) for seed in plan.seeds for policy in dict.fromkeys(plan.policies.values())]
    found: dict[tuple[Policy, int], SimulationResult] = {}
    with ExitStack() as stack:
        workers = stack.enter_context(dask_workers(scheduler)) if scheduler else local_workers(options.processes)
        here = not scheduler and (
            jobs_file is not None or workers.processes == 1 or len(wanted) == 1 or len(wanted) * len(plan.jobs) <= _FEW
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
            snapshot = take(plan.completed, teaching, path)
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


def _shallow(experiment: Experiment) -> dict[str, Any]:
    return {name: getattr(experiment, name) for name in experiment.__slots__}


def _writer(plan: SimulationPlan, path: Path | None, several: bool) -> Callable[[Policy, ScheduleOutcome], None]:
    """Write each policy's schedule; without --policies, the one of the options only."""
    names = {policy: name for name, policy in plan.policies.items()}
    last = next(reversed(plan.policies.values()))

    def write(policy: Policy, outcome: ScheduleOutcome) -> None:
        if path is None or (not several and policy != last):
            return
        name = names[policy]
        suffix = re.sub(r"[^\w.+=-]+", "_", name)
        target = path.with_name(f"{path.stem}-{suffix}{path.suffix}") if several else path
        write_jobs(target, plan.jobs, outcome, name)

    return write


def _by_class(found: list[dict[str, Metrics]]) -> dict[str, Metrics]:
    """The means over the workloads of each class that any of them has."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: means([one[name] for one in found if name in one]) for name in names}
