"""``softwalltime install`` and ``uninstall``: add the hook to PBS, or remove it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.changes import ChangeLog, ChangesDocument, printed_changes
from softwalltime.cli.command import Result, command
from softwalltime.cli.completing import complete_policy
from softwalltime.cli.options import CONFIG, share
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import FOLDER as FOLDER_TYPE
from softwalltime.cli.parameters import argument, option, options
from softwalltime.errors import SoftwalltimeError, UsageError

if TYPE_CHECKING:
    from softwalltime.deployment.installation_plan import InstallationPlan
    from softwalltime.deployment.qmgr import Qmgr
    from softwalltime.settings import Settings

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

    ``promises``: whether guard or order will read promised starts; ``None``: as the settings are now.
    ``command`` is what the user called, to be repeated with --apply; empty: ``softwalltime install``.
    """

    folder: Path = argument("[FOLDER]", type=FOLDER_TYPE, default=FOLDER)
    do: bool = option("Write the files and change PBS.", "--apply")
    files_only: bool = option("Write the files only; then run qmgr yourself.")
    enable: bool = option("Enable the hook if it is disabled in PBS.")
    order: int | None = option(
        "Order of the hook.  Default: as in PBS, else 900.", "--hook-order", type=click.IntRange(1, 1000)
    )
    alarm: int | None = option("Alarm of the hook in seconds.  Default: as in PBS, else 5.", least=1)
    preset: str | None = option(
        "Configure PBS's scheduler for this preset; none undoes it.  Default: the preset in the settings, if any.",
        type=click.Choice(["safe", "balanced", "order", "none"]),
    )
    formula: str = option(
        "With preset balanced or order: the job_sort_formula to set.  Default: keep the site's.", default="",
        metavar="TEXT",
    )  # fmt: skip
    config: Path | None = CONFIG
    output: Output
    promises: bool | None = None
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
    output: Output


@command("a change or note")
def install(options: HookOptions) -> Result[ChangesDocument]:
    """Install or update the hook in PBS.

    Without --apply the command prints the necessary changes only.  With --apply it writes the hook, its configuration
    and the statements for qmgr to FOLDER (/etc/softwalltime/hook) and runs the statements.  To change the hook's
    configuration, edit it in FOLDER and run this command again.

    A preset, from --preset or the settings, needs settings of PBS and its scheduler.  The command changes these too,
    prints each one before and after with the reason, and stores the old values in FOLDER.  Another preset, --preset
    none and uninstall restore them, except those that the site has changed since.

    \b
    Example:
      softwalltime install
      softwalltime install --apply
      softwalltime install --preset balanced
    """
    with printed_changes(options.output) as changes:
        install_hook(changes, options)
    return changes.result()


def install_hook(changes: ChangeLog, options: HookOptions) -> None:
    """Install or update the hook, and configure PBS for the preset, or say what that needs.

    :raises SoftwalltimeError: if an option or a setting is wrong, or PBS refuses a change.
    """
    from softwalltime.deployment import hook
    from softwalltime.deployment.files import read_own
    from softwalltime.deployment.installation import Installation, inspect_pbs
    from softwalltime.deployment.installation_plan import InstallOptions
    from softwalltime.deployment.preset_setup import preset_of
    from softwalltime.deployment.qmgr import find
    from softwalltime.settings import load_settings

    folder = options.folder.absolute()
    settings = load_settings(options.config)
    asked = options.preset or preset_of(settings)
    if options.formula and asked not in ("balanced", "order"):
        raise UsageError("--formula is for --preset balanced or order")
    installation = Installation(
        folder, str(settings.socket), InstallOptions(options.order, options.alarm, options.enable), read_own(folder)
    )
    pbs, present, supported, problem = None, None, hook.expected(""), ""
    try:
        pbs = find()
        version, present, supported = inspect_pbs(pbs)
        changes.line(f"PBS {version} {'has the hook' if present else 'does not have the hook'}")
    except SoftwalltimeError as error:
        if options.do:
            raise
        problem = str(error)
    # Before the hook: it sets the custom resource from its first event on.
    configured = False
    if asked and pbs is None:
        click.echo(f"preset {asked}: PBS's settings are not known here: {problem}", err=True)
    elif pbs is not None and not options.files_only:
        own = installation.own or hook.configuration_of(present)
        configured = _configure(changes, options, pbs, settings, asked, own)
    plan = installation.plan(present, supported)
    _write_files(changes, options, plan)
    if pbs is not None and options.do and plan.steps:
        for step in installation.apply(pbs, plan, supported):
            changes.line(f"done: {step.statement}  # {step.why}")
    else:
        _list_steps(changes, options, plan, problem, configured=configured)


def _configure(
    changes: ChangeLog,
    options: HookOptions,
    pbs: "Qmgr",
    settings: "Settings",
    preset: str,
    own: "Mapping[str, Any] | None",
) -> bool:
    """Configure PBS for a preset, or list what that needs; return whether there is anything.

    :param own: the hook's configuration.
    """
    from softwalltime.cli.presets import PresetChanges, set_up
    from softwalltime.deployment.check_setup import shows_starts
    from softwalltime.deployment.preset_setup import resource_of

    starts = shows_starts(settings)
    if not preset and not starts:
        return False
    promises = _reads_promises(settings, preset) if options.promises is None else options.promises
    wanted = PresetChanges(preset, resource_of(own), options.formula, promises=promises, starts=starts)
    return set_up(changes, pbs, options.folder.absolute(), wanted, do=options.do)


def _write_files(changes: ChangeLog, options: HookOptions, plan: "InstallationPlan") -> None:
    """Write the files, or list those that are to be written; say what else is to be known."""
    from softwalltime.deployment.files import outdated, write

    writes, folder = options.do or options.files_only, options.folder.absolute()
    for file in write(plan, folder) if writes else outdated(plan, folder):
        changes.line(f"{'written' if writes else 'to write'}: {file}")
    for note in plan.notes:
        changes.line(note)


def _list_steps(
    changes: ChangeLog, options: HookOptions, plan: "InstallationPlan", problem: str, *, configured: bool
) -> None:
    """List what is to be done in PBS, and say how.

    :param problem: why PBS is not known here; empty: it is.
    :param configured: whether settings of PBS change.
    """
    from softwalltime.deployment.installation_plan import STATEMENTS

    chosen = f" --preset {options.preset}" if options.preset else ""
    nothing = f"nothing was changed; run {options.command or f'softwalltime install{chosen}'} --apply"
    if not plan.steps:
        changes.line("PBS has the hook of this version")
        if configured and not options.do:
            click.echo(nothing, err=True)
        return
    for step in plan.steps:
        changes.line(f"to do: {step.statement}  # {step.why}")
    if problem:
        click.echo(f"no PBS was found; the steps are for OpenPBS 23 or later without the hook: {problem}", err=True)
    if options.files_only:
        statements = options.folder.absolute() / STATEMENTS
        click.echo(f"nothing was changed in PBS; run: qmgr < {statements}", err=True)
    else:
        click.echo(nothing, err=True)


def _reads_promises(settings: "Settings", preset: str) -> bool:
    """Return whether guard or order reads promised starts under a preset with these settings.

    :raises UsageError: if they are wrong.
    """
    from softwalltime.live.options import read_policy, reads_promises

    if not settings.live or preset == "none":
        return False
    return reads_promises(*read_policy({**settings.policy, "preset": preset}, settings.live))


@options
class UninstallOptions:
    folder: Path = argument("[FOLDER]", type=FOLDER_TYPE, default=FOLDER)
    do: bool = option("Remove the hook and its files.", "--apply")
    output: Output


@command("a change or note")
def uninstall(options: UninstallOptions) -> Result[ChangesDocument]:
    """Remove the hook from PBS, and its files from FOLDER.

    The command restores the settings of PBS that install changed for a preset, except those that the site has changed
    since.  It names the manager right that was given for live values, and the jobs for which PBS keeps a resource.
    Without --apply it prints the necessary changes only.

    \b
    Example:
      softwalltime uninstall
      softwalltime uninstall --apply
    """
    from softwalltime.cli.presets import PresetChanges, set_up
    from softwalltime.deployment import configuration, hook
    from softwalltime.deployment.files import files_in, remove_files
    from softwalltime.deployment.live_setup import remaining_rights
    from softwalltime.deployment.qmgr import QmgrObject, find

    with printed_changes(options.output) as changes:
        folder, do = options.folder.absolute(), options.do
        pbs = find()
        statement = f"delete hook {hook.NAME}"
        present = hook.installed(pbs)
        if present is not None and do:
            pbs.execute(statement)
        if present is not None:
            changes.line(f"{'done' if do else 'to do'}: {statement}")
        else:
            changes.line("PBS does not have the hook")
        # After the hook, which sets the custom resource that is deleted here.
        set_up(changes, pbs, folder, PresetChanges("none"), do=do)
        accounts = (hook.configuration_of(present) or configuration.shipped())["daemon_users"]
        for right in remaining_rights(pbs.objects("server").get(("server", ""), QmgrObject()), accounts):
            changes.line(f"note: uninstall does not run: qmgr -c '{right}'  # the manager right for live values")
        kept = hook.own_files(pbs.home)
        for file in remove_files(folder, kept) if do else [*files_in(folder), *kept]:
            changes.line(f"{'removed' if do else 'to remove'}: {file}")
    remark = HINTS if do else "nothing was changed; run softwalltime uninstall --apply"
    return replace(changes.result(), remarks=[remark])
