"""``softwalltime policy``: switch to a policy by name, and compare the policies on recorded jobs."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.install import SwitchOptions
from softwalltime.cli.options import KEEP, MINIMUM_OPTION, PLAN, PROCESSES, SIMULATED_JOBS, LimitOptions, numbers
from softwalltime.cli.output import Output, progress_bar
from softwalltime.cli.parameters import option, options
from softwalltime.cli.recommendation_output import write_plan
from softwalltime.cli.simulate import SEEDS, print_schedules
from softwalltime.cli.site_options import SiteOptions
from softwalltime.cli.sources import RecordedJobs, problems
from softwalltime.core.errors import SourceError
from softwalltime.core.written import require_folder

if TYPE_CHECKING:
    from softwalltime.reports.simulation_document import SimulationDocument


@click.group()
def policy() -> None:
    """Switch to a policy, and compare the policies.

    \b
    Example:
      softwalltime policy compare accounting --processors 128 --seeds 31-32
      softwalltime policy set balanced
    """


@command(name="set", group=policy)
def set_policy(options: SwitchOptions) -> None:
    """Switch to a policy: PBS, settings and daemon.

    The policy is off, shadow, safe, balanced, order, or a plan file of softwalltime report --write.  The command lists
    all changes; with --apply it makes them: the hook and PBS's settings, as softwalltime install does, the manager
    right and the agent of live values, [policy] and [live] in the settings file, and the reload of the daemon.
    Settings of PBS that the new policy does not need get their old values back, except those changed since.

    safe and balanced have a guard, which needs live values in mode on: a plan switches them on.  Without them safe is
    refused, and balanced changes the order of the queue only.

    \b
    Example:
      softwalltime policy set balanced
      softwalltime policy set plan.toml --apply
      softwalltime policy set off --apply
    """
    from softwalltime.cli.switching import switch_policy

    switch_policy(options)


@options
class CompareOptions:
    site: SiteOptions
    limits: LimitOptions
    seeds: tuple[int, ...] | None = option("A shaken workload for each.  Default: 31-40.", type=numbers, metavar="LIST")
    simulated_jobs: int = SIMULATED_JOBS
    keep: Path | None = KEEP
    processes: int | None = PROCESSES
    minimum: int = MINIMUM_OPTION
    plan: Path | None = PLAN
    output: Output
    recorded: RecordedJobs


@command("a policy", group=policy)
def compare(options: CompareOptions) -> Result["SimulationDocument"]:
    """Compare today's waits with those under safe, balanced and order, on recorded jobs.

    The command simulates the policies of the presets with PBS's scheduling cycle, shaken workloads and 95% confidence
    intervals.  The last lines say what report says of the same jobs: switch a policy on, do not, or the simulation
    cannot tell.  Nothing is changed anywhere; --write writes a plan for policy set.

    Today is strict ordering in order of arrival; as delivered, PBS reserves nothing for a job that does not fit; WFP
    orders by (wait / walltime)^3 x processors.  All have walltimes.

    \b
    Example:
      softwalltime policy compare accounting --processors 128 --seeds 31-32
      softwalltime policy compare /var/spool/pbs/server_priv/accounting
    """
    from softwalltime.measure.simulation.runs import SimulationPlan, run_simulations
    from softwalltime.predict.policy.presets import PRESETS
    from softwalltime.reports.candidates import CHANCE, chance_policy, common_candidates, preset_policies
    from softwalltime.reports.recommendation import recommend
    from softwalltime.reports.simulation import (
        SimulationOptions,
        SimulationSkipped,
        compare_candidates,
        experiment_of,
        prepare,
    )
    from softwalltime.reports.simulation_document import Advice, SimulationDocument

    output, site, source = options.output, options.site, options.recorded.source
    require_folder(options.plan)
    if output.form == "table":
        for name in ("safe", "balanced", "order"):
            output.paragraph(f"{name}: {PRESETS[name].summary}")
    baseline = site.baseline(options.minimum)
    workload, tally = options.recorded.workload(site.walltimes)
    size, seeds = site.processors or tally.machine or None, options.seeds or SEEDS
    simulation = SimulationOptions(baseline, size, seeds, options.simulated_jobs, options.processes, options.keep)
    recorded = prepare(workload, simulation)
    if isinstance(recorded, SimulationSkipped):
        raise SourceError(f"{source}: no policy can be simulated: {recorded.reason}")
    candidates = common_candidates(baseline)
    policies = preset_policies(baseline) | {candidate.name: candidate.policy for candidate in candidates}
    policies[CHANCE] = chance_policy(baseline.policy)
    experiment = experiment_of(recorded, baseline.policy)
    plan = SimulationPlan(experiment, policies, seeds, recorded.jobs, tuple(sorted(recorded.teaching)))
    everything = replace(plan, seeds=simulation.workloads)
    runs = run_simulations(everything, progress_bar, options.keep, options.processes)
    figures = compare_candidates(recorded, candidates, simulation, runs)
    advice = recommend(figures, options.limits.shares)
    document = SimulationDocument.of(
        plan, runs, (), source=source, refused=recorded.refused, selection=options.recorded.selected,
        advice=Advice.of(advice),
    )  # fmt: skip
    write = partial(write_plan, file=options.plan, found=advice, simulated=figures)
    text = partial(print_schedules, label=options.recorded.label)
    return Result(document, text, 1 if tally.broken else 0, problems(tally), then=write)
