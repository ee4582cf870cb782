"""``softwalltime policy``: switch to a policy by name, and compare the policies on recorded jobs."""

from pathlib import Path

import click

from softwalltime.cli.changes import printed_changes
from softwalltime.cli.completing import complete_policy, complete_source
from softwalltime.cli.install import FOLDER
from softwalltime.cli.options import (
    LazySettings,
    Seeds,
    max_broken_option,
    minimum_option,
    share_option,
    store_options,
    write_option,
)
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.problems import require_folder
from softwalltime.cli.selection import JobSelection, selection_options
from softwalltime.cli.site_options import SiteOptions, site_options


@click.group()
def policy() -> None:
    """Switch to a policy, and compare the policies.

    \b
    Example:
      softwalltime policy compare accounting --processors 128 --seeds 31-32
      softwalltime policy compare /var/spool/pbs/server_priv/accounting
      softwalltime policy set balanced
    """


@policy.command("set")
@click.argument("target", metavar="NAME|PLAN", shell_complete=complete_policy)
@click.option("--apply", "do", is_flag=True, help="Do it.")
@share_option(
    "Share of the users for whom values are set, such as 0.1.  Default: the plan's; with a name, that of the settings."
)
@click.option(
    "--formula",
    default="",
    metavar="TEXT",
    help="With balanced or order: job_sort_formula to set in place of the site's, which stays otherwise.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    show_default=True,
    help="Folder of the hook's files.",
)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="The daemon's settings.")
@output_options
def set_policy(
    target: str, do: bool, share: float | None, formula: str, folder: Path, config: Path | None, output: Output
) -> None:
    """Switch to a policy: PBS, settings and daemon.

    The policy is off, shadow, safe, balanced, order, or a plan file of softwalltime report --write.  The command lists
    all changes; with --apply it makes them: the hook and what the policy needs of PBS, as softwalltime install does,
    the manager right and the agent of live values if a plan needs them, [policy] and [live] in the settings file, and
    the reload of the daemon.  Settings of PBS that the new policy does not need get their old values back, except those
    that the site has changed since.  The hook stays.

    safe and balanced have a guard, which needs live values in mode on.  Without them safe would change nothing and is
    refused; balanced changes the order of the queue and sets no soft walltimes.  A plan switches live values on if its
    policy has a guard.

    \b
    Example:
      softwalltime policy set balanced
      softwalltime policy set plan.toml --apply
      softwalltime policy set plan.toml --share 0.1 --apply
      softwalltime policy set off --apply
    """
    from softwalltime.cli.switching import SwitchOptions, switch_policy

    with printed_changes(output) as changes:
        switch_policy(changes, SwitchOptions(target, do, formula, share, folder, config))


@policy.command("compare")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete_source)
@site_options
@max_broken_option
@click.option("--seeds", type=Seeds(), metavar="LIST", help="A shaken workload for each.  Default: 31-40.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save figures in this file as they are computed; the same command continues from there.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Processes.  Default: one a core.")
@selection_options
@minimum_option
@write_option
@output_options
@store_options
def compare(
    sources: tuple[str, ...], site: SiteOptions, seeds: tuple[int, ...] | None, output: Output,
    keep: Path | None, processes: int | None, minimum: int, max_broken: float,
    plan: Path | None, selection: JobSelection, settings: LazySettings,
) -> int:  # fmt: skip
    """Compare today's waits with those under safe, balanced and order, on recorded jobs.

    The sources are those of softwalltime simulate.  The command simulates the policies of the presets with PBS's
    scheduling cycle, shaken workloads and 95% confidence intervals, and prints the mean waits, and the longest waits
    of wide and of long jobs.  The last lines say what report says of the same jobs: switch a policy on, do not, or
    the simulation cannot tell.  Nothing is changed anywhere; --write writes a plan for policy set.

    Today is strict ordering in order of arrival; as delivered, PBS reserves nothing for a job that does not fit; WFP
    orders by (wait / walltime)^3 x processors.  All have walltimes.

    \b
    Example:
      softwalltime policy compare accounting --processors 128 --seeds 31-32
      softwalltime policy compare /var/spool/pbs/server_priv/accounting
      softwalltime policy compare KTH-SP2.swf.gz --processors 100
    """
    from softwalltime.cli.measure.simulate import SUITABLE, SimulationRun, simulate_policies
    from softwalltime.policy.presets import PRESETS
    from softwalltime.reports.candidates import CHANCE, chance_policy, common_candidates, preset_policies

    if plan is not None:
        require_folder(plan)
    if output.form == "table":
        for name in ("safe", "balanced", "order"):
            output.paragraph(f"{name}: {PRESETS[name].summary}")
    baseline = site.baseline(minimum)
    candidates = tuple(common_candidates(baseline))
    run = SimulationRun(
        site.processors,
        shake=SUITABLE,
        seeds=seeds,
        output=output,
        keep=keep,
        processes=processes,
        selection=selection,
        walltimes=site.walltimes,
        candidates=candidates,
        baseline=baseline,
        target=max_broken / 100,
        plan=plan,
    )
    policies = preset_policies(baseline) | {one.name: one.policy for one in candidates}
    return simulate_policies(sources, policies | {CHANCE: chance_policy(baseline.policy)}, run, settings)
