"""``softwalltime policy``: switch to a policy by name, and compare the policies on recorded jobs."""

from pathlib import Path

import click

from softwalltime.cli.changes import printed_changes
from softwalltime.cli.completing import complete_source
from softwalltime.cli.install import FOLDER, HookOptions, install_hook
from softwalltime.cli.options import (
    LazySettings,
    Seeds,
    max_broken_option,
    minimum_option,
    store_options,
)
from softwalltime.cli.output import Output, output_options
from softwalltime.cli.selection import JobSelection, selection_options
from softwalltime.cli.site_options import SiteOptions, site_options
from softwalltime.errors import UsageError

_NAMES = ("off", "shadow", "safe", "balanced", "order")


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
@click.argument("name", type=click.Choice(_NAMES))
@click.option("--apply", "do", is_flag=True, help="Do it.")
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
def set_policy(name: str, do: bool, formula: str, folder: Path, config: Path | None, output: Output) -> None:
    """Switch to a policy: PBS, settings and daemon.

    The command prints the necessary changes; with --apply it makes them.  It does what softwalltime install does
    for this preset, writes the preset into the settings file and reloads the daemon.  off predicts nothing; shadow
    predicts and sets nothing; safe sets soft walltimes and keeps the order of the queue; balanced, which the documents
    recommend, and order also sort the queue by prediction.  Settings of PBS that the new policy does not need get their
    old values back, except those that the site has changed since.  The hook stays.

    safe and balanced have a guard, which needs live values in mode on.  Without them safe would change nothing and is
    refused; balanced changes the order of the queue and sets no soft walltimes.

    \b
    Example:
      softwalltime policy set balanced
      softwalltime policy set balanced --apply
    """
    from softwalltime.deployment.preset_setup import SETUPS
    from softwalltime.deployment.reload_daemon import reload_daemon
    from softwalltime.deployment.sched_config import refuse_open, rewrite
    from softwalltime.deployment.settings_file import policy_file, read, with_policy
    from softwalltime.live.options import read_policy, unguarded, without_live
    from softwalltime.settings import load_settings

    ordered = name in ("balanced", "order")
    if formula and not ordered:
        raise UsageError("--formula is for balanced and order")
    file = policy_file(config)
    before = read(file)
    after = with_policy(before, {"preset": name}, str(file))
    # The daemon refuses wrong settings, so nothing is changed before they are correct.
    settings = load_settings(config)
    policy, live = read_policy({**settings.policy, "preset": name}, settings.live)
    unmet = without_live(policy, live)
    if unguarded(policy, live) and not ordered:
        raise UsageError(
            f"{unmet}. Without its guard {name} would change nothing; balanced would change the order alone"
        )
    if do and after != before:
        refuse_open(file)

    with printed_changes(output) as changes:

        def set_up() -> None:
            install_hook(changes, HookOptions(folder, name if name in SETUPS else "none", formula, config, do))

        def switch() -> None:
            if do and after != before:
                rewrite(file, before, after)
            done = "done" if do else "to do"
            changes.line(f'{file} has preset = "{name}"' if after == before else f'{done}: {file}: preset = "{name}"')
            if do:
                changes.line(reload_daemon(load_settings(config).socket, name))

        # The custom resource must exist as long as the daemon gives it a value.
        for step in (set_up, switch) if ordered else (switch, set_up):
            step()
        if unmet:
            changes.line(f"note: {unmet}")


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
@output_options
@store_options
def compare(
    sources: tuple[str, ...], site: SiteOptions, seeds: tuple[int, ...] | None, output: Output,
    keep: Path | None, processes: int | None, minimum: int, max_broken: float,
    selection: JobSelection, settings: LazySettings,
) -> int:  # fmt: skip
    """Compare today's waits with those under safe, balanced and order, on recorded jobs.

    The sources are those of softwalltime simulate.  The command simulates the policies of the presets with PBS's
    scheduling cycle, shaken workloads and 95% confidence intervals, and prints the mean waits, and the longest waits
    of wide and of long jobs.  The last lines say what report says of the same jobs: switch a policy on, do not, or
    the simulation cannot tell.  Nothing is changed anywhere.

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
    )
    policies = preset_policies(baseline) | {one.name: one.policy for one in candidates}
    return simulate_policies(sources, policies | {CHANCE: chance_policy(baseline.policy)}, run, settings)
