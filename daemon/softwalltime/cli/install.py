"""``softwalltime install`` and ``uninstall``: add the hook to PBS, or remove it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import command
from softwalltime.cli.completing import complete_policy
from softwalltime.cli.options import CONFIG, share
from softwalltime.cli.parameters import FOLDER as FOLDER_TYPE
from softwalltime.cli.parameters import argument, option, options
from softwalltime.core.errors import UsageError

if TYPE_CHECKING:
    from softwalltime.core.settings import Settings
    from softwalltime.deployment.qmgr import Qmgr
    from softwalltime.deployment.scheduler_setup import Requirement

FOLDER = Path("/etc/softwalltime/hook")
REMOVE_SOFT_WALLTIMES = "qselect -l soft_walltime.gt.0 | xargs -r -n 100 qalter -l soft_walltime="
HINTS = f"""\
Jobs keep their soft walltimes.  A soft walltime is an estimate for the scheduler and shortens no walltime.  But without
the hook PBS rejects a user's qalter -l walltime= below the soft walltime.  To remove the soft walltimes of all waiting
and running jobs, as a PBS manager (running subjobs keep theirs: PBS refuses to alter them):
  {REMOVE_SOFT_WALLTIMES}
The daemon and its database remain: systemctl disable --now softwalltime, remove the package, dropdb.\
"""


@options
class HookOptions:
    """Options of ``softwalltime install``, and of the part of ``policy set`` that does the same.

    ``effective``: the policy and the live options that will be in force; ``None``: those of the settings.
    ``command`` is what the user called, to be repeated with --apply; empty: ``softwalltime install``.
    """

    folder: Path = argument("[FOLDER]", type=FOLDER_TYPE, default=FOLDER)
    do: bool = option("Write the files and change PBS.", "--apply")
    enable: bool = option("Enable the hook if it is disabled in PBS.")
    preset: str | None = option(
        "Configure PBS's scheduler for this preset; none undoes it.  Default: the preset in the settings, if any.",
        type=click.Choice(["safe", "balanced", "order", "none"]),
    )
    formula: str = option(
        "With preset balanced or order: the job_sort_formula to set.  Default: keep the site's.", default="",
        metavar="TEXT",
    )  # fmt: skip
    config: Path | None = CONFIG
    effective: Any = None
    command: str = ""


@options
class SwitchOptions:
    target: str = argument("NAME|PLAN", shell_complete=complete_policy)
    do: bool = option("Do it.", "--apply")
    share: float | None = share(
        "Share of the users for whom values are set, such as 0.1.  Default: the plan's; with a name, that of the "
        "settings."
    )
    formula: str = option(
        "With balanced or order: job_sort_formula to set in place of the site's, which stays otherwise.", default="",
        metavar="TEXT",
    )  # fmt: skip
    folder: Path = option("Folder of the hook's files.", type=FOLDER_TYPE, default=FOLDER)
    config: Path | None = option("The daemon's settings.")


@command()
def install(options: HookOptions) -> None:
    """Install or update the hook in PBS.

    Without --apply the command prints the necessary changes only.  With --apply it writes the hook and its
    configuration to FOLDER (/etc/softwalltime/hook) and imports them.  To change the hook's configuration, edit it in
    FOLDER and run this command again.

    The command also changes the settings of PBS that a preset needs, and stores the old values in FOLDER.  Another
    preset, --preset none and uninstall restore them, except those that the site has changed since.

    \b
    Example:
      softwalltime install
      softwalltime install --apply
      softwalltime install --preset balanced
    """
    install_hook(options)


def install_hook(options: HookOptions) -> None:
    """Install or update the hook and configure PBS for the preset; without --apply, list the changes."""
    from softwalltime.core.settings import load_settings
    from softwalltime.deployment import hook
    from softwalltime.deployment.hook_folder import read_own, write
    from softwalltime.deployment.preset_setup import SETUPS
    from softwalltime.deployment.qmgr import PbsError, find

    folder = options.folder.absolute()
    settings = load_settings(options.config)
    asked = options.preset or next((name for name in SETUPS if name == settings.policy.get("preset")), "")
    if options.formula and asked not in ("balanced", "order"):
        raise UsageError("--formula is for --preset balanced or order")
    own = read_own(folder)
    pbs = find()
    version, present = pbs.version(), hook.installed(pbs)
    click.echo(f"PBS {version} {'has the hook' if present else 'does not have the hook'}")
    # Before the hook: it sets the custom resource from its first event on.
    configured = _configure(options, pbs, settings, asked, own or hook.configuration_of(present))
    plan = hook.make_plan(folder, str(settings.socket), present, own, enable=options.enable)
    for file in write(plan, folder, do=options.do):
        click.echo(f"{'written' if options.do else 'to write'}: {file}")
    for note in plan.notes:
        click.echo(note)
    if not plan.steps:
        click.echo("PBS has the hook of this version")
    # After a refused step the earlier ones stay, and the next run continues from there.
    for step in plan.steps:
        if options.do:
            try:
                pbs.execute(step.statement)
            except PbsError:
                if not step.older:
                    raise
                step = step._replace(statement=step.older)
                pbs.execute(step.statement)
        click.echo(f"{'done' if options.do else 'to do'}: {step.statement}  # {step.why}")
    if not options.do and (plan.steps or configured):
        chosen = f" --preset {options.preset}" if options.preset else ""
        click.echo(f"nothing was changed; run {options.command or f'softwalltime install{chosen}'} --apply", err=True)


def _configure(
    options: HookOptions, pbs: "Qmgr", settings: "Settings", preset: str, own: "Mapping[str, Any] | None"
) -> bool:
    """Configure PBS for a preset, or list what that needs; return whether there is anything."""
    from softwalltime.deployment.preset_setup import SHOWN_START, requirements, resource_of, shows_starts
    from softwalltime.service.live.live_options import read_policy

    starts = shows_starts(settings)
    if not preset and not starts:
        return False
    needs: tuple[Requirement, ...] = (SHOWN_START,) if starts else ()
    if preset not in ("", "none"):
        policy = {**settings.policy, "preset": preset}
        effective = options.effective or read_policy(policy, settings.live)
        needs = requirements(preset, resource_of(own), options.formula, effective=effective) + needs
    return set_up(pbs, options.folder.absolute(), preset, needs, do=options.do)


def set_up(pbs: "Qmgr", folder: Path, preset: str, needs: "Sequence[Requirement]", *, do: bool) -> bool:
    """List what a preset needs of PBS, and change it if ``do`` is true; return whether anything changes.

    :param preset: ``none`` takes all earlier changes back; empty: those of presets stay.
    """
    from softwalltime.deployment.preset_setup import SHOWN_START, stays_off
    from softwalltime.deployment.scheduler_setup import read_settings, unreadable
    from softwalltime.deployment.setup_plan import Setup, plan_setup

    setup, settings = Setup(pbs, folder), read_settings(pbs)
    kept = [change for change in setup.kept() if preset or change.name == SHOWN_START.name]
    plan = plan_setup(needs, settings, kept)
    for line in setup.apply(plan) if do else (f"to do: {change}  # {change.why}" for change in plan.changes):
        click.echo(line)
    for note in [*(f"{file} cannot be read from here" for file in unreadable(settings, needs)), *plan.notes]:
        click.echo(f"note: {note}")
    if preset not in ("", "none") and (note := stays_off(needs, settings)):
        click.echo(f"note: {note}")
    if not plan.changes and not plan.notes and preset not in ("", "none"):
        click.echo(f"PBS has what the preset {preset} needs")
    return bool(plan.changes)


@options
class UninstallOptions:
    folder: Path = argument("[FOLDER]", type=FOLDER_TYPE, default=FOLDER)
    do: bool = option("Remove the hook and its files.", "--apply")


@command()
def uninstall(options: UninstallOptions) -> None:
    """Remove the hook from PBS, and its files from FOLDER.

    The command restores the settings of PBS that install changed for a preset, except those that the site has changed
    since.  It names the manager right that was given for live values, and the jobs for which PBS keeps a resource.
    Without --apply it prints the necessary changes only.

    \b
    Example:
      softwalltime uninstall
      softwalltime uninstall --apply
    """
    from softwalltime.deployment import configuration, hook
    from softwalltime.deployment.hook_folder import files_in, remove_files
    from softwalltime.deployment.live_setup import remaining_rights
    from softwalltime.deployment.qmgr import QmgrObject, find

    folder, do = options.folder.absolute(), options.do
    pbs = find()
    statement = f"delete hook {hook.NAME}"
    present = hook.installed(pbs)
    if present is None:
        click.echo("PBS does not have the hook")
    else:
        if do:
            pbs.execute(statement)
        click.echo(f"{'done' if do else 'to do'}: {statement}")
    # After the hook, which sets the custom resource that is deleted here.
    set_up(pbs, folder, "none", (), do=do)
    accounts = (hook.configuration_of(present) or configuration.shipped())["daemon_users"]
    for right in remaining_rights(pbs.objects("server").get(("server", ""), QmgrObject()), accounts):
        click.echo(f"note: uninstall does not run: qmgr -c '{right}'  # the manager right for live values")
    kept = hook.own_files(pbs.home)
    for file in remove_files(folder, kept) if do else [*files_in(folder), *kept]:
        click.echo(f"{'removed' if do else 'to remove'}: {file}")
    click.echo(HINTS if do else "nothing was changed; run softwalltime uninstall --apply", err=True)
