"""``softwalltime install`` and ``uninstall``: add the hook to PBS, or remove it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.changes import ChangeLog, printed_changes
from softwalltime.cli.output import Output, output_options
from softwalltime.errors import SoftwalltimeError, UsageError

if TYPE_CHECKING:
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


def folder_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument for the folder of the hook's files."""
    return click.argument(
        "folder", default=FOLDER, type=click.Path(file_okay=False, path_type=Path), metavar="[FOLDER]"
    )(command)


@click.command()
@folder_argument
@click.option("--apply", "do", is_flag=True, help="Write the files and change PBS.")
@click.option("--files-only", is_flag=True, help="Write the files only; then run qmgr yourself.")
@click.option("--enable", is_flag=True, help="Enable the hook if it is disabled in PBS.")
@click.option(
    "--hook-order", "order", type=click.IntRange(1, 1000), help="Order of the hook.  Default: as in PBS, else 900."
)
@click.option("--alarm", type=click.IntRange(1), help="Alarm of the hook in seconds.  Default: as in PBS, else 5.")
@click.option(
    "--preset",
    type=click.Choice(["safe", "balanced", "order", "none"]),
    help="Configure PBS's scheduler for this preset; none undoes it.  Default: the preset in the settings, if any.",
)
@click.option(
    "--formula",
    default="",
    metavar="TEXT",
    help="With preset balanced or order: the job_sort_formula to set.  Default: keep the site's.",
)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings file of the daemon.")
@output_options
def install(
    folder: Path, do: bool, files_only: bool, enable: bool, order: int | None, alarm: int | None, preset: str | None,
    formula: str, config: Path | None, output: Output,
) -> None:  # fmt: skip
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
    options = HookOptions(folder, preset or "", formula, config, do, files_only, enable, order, alarm)
    with printed_changes(output) as changes:
        install_hook(changes, options)


@dataclass(frozen=True, slots=True)
class HookOptions:
    """Options of an installation, as on the command line; ``preset`` is empty where none was given.

    ``promises``: whether guard or steering will read promised starts; ``None``: as the settings are now.  ``command``
    is what the user called, to be repeated with --apply; empty: ``softwalltime install``.
    """

    folder: Path
    preset: str
    formula: str
    config: Path | None
    do: bool
    files_only: bool = False
    enable: bool = False
    order: int | None = None
    alarm: int | None = None
    promises: bool | None = None
    command: str = ""


def install_hook(changes: ChangeLog, options: HookOptions) -> None:
    """Install or update the hook, and configure PBS for the preset, or say what that needs.

    :raises SoftwalltimeError: if an option or a setting is wrong, or PBS refuses a change.
    """
    from softwalltime.cli.presets import set_up
    from softwalltime.deployment import hook
    from softwalltime.deployment.files import outdated, read_own, write
    from softwalltime.deployment.installation import Installation, inspect_pbs
    from softwalltime.deployment.pbs import find
    from softwalltime.deployment.plan import STATEMENTS, InstallOptions
    from softwalltime.deployment.preset_setup import preset_of, resource_of
    from softwalltime.deployment.shown_starts import shows_starts
    from softwalltime.settings import load_settings

    folder, formula, do = options.folder.absolute(), options.formula, options.do
    settings = load_settings(options.config)
    asked = options.preset or preset_of(settings)
    if formula and asked not in ("balanced", "order"):
        raise UsageError("--formula is for --preset balanced or order")
    socket = settings.socket
    installation = Installation(
        folder, str(socket), InstallOptions(options.order, options.alarm, options.enable), read_own(folder)
    )
    pbs, present, supported, problem = None, None, hook.expected(""), ""
    try:
        pbs = find()
        version, present, supported = inspect_pbs(pbs)
        changes.line(f"PBS {version} {'has the hook' if present else 'does not have the hook'}")
    except SoftwalltimeError as error:
        if do:
            raise
        problem = str(error)
    chosen = f" --preset {options.preset}" if options.preset else ""
    nothing = f"nothing was changed; run {options.command or f'softwalltime install{chosen}'} --apply"
    # Before the hook: it sets the custom resource from its first event on.
    configured = False
    if asked and pbs is None:
        click.echo(f"preset {asked}: PBS's settings are not known here: {problem}", err=True)
    elif (asked or shows_starts(settings)) and pbs is not None and not options.files_only:
        resource = resource_of(installation.own or hook.configuration_of(present))
        promises = _reads_promises(settings, asked) if options.promises is None else options.promises
        configured = set_up(
            changes, pbs, folder, asked, resource, formula, do=do, promises=promises, starts=shows_starts(settings)
        )  # fmt: skip
    plan = installation.plan(present, supported)
    writes = do or options.files_only
    for file in write(plan, folder) if writes else outdated(plan, folder):
        changes.line(f"{'written' if writes else 'to write'}: {file}")
    for note in plan.notes:
        changes.line(note)
    if not plan.steps:
        changes.line("PBS has the hook of this version")
        if configured and not do:
            click.echo(nothing, err=True)
    elif do and pbs is not None:
        for step in installation.apply(pbs, plan, supported):
            changes.line(f"done: {step.statement}  # {step.why}")
    else:
        for step in plan.steps:
            changes.line(f"to do: {step.statement}  # {step.why}")
        if problem:
            click.echo(f"no PBS was found; the steps are for OpenPBS 23 or later without the hook: {problem}", err=True)
        if options.files_only:
            click.echo(f"nothing was changed in PBS; run: qmgr < {folder / STATEMENTS}", err=True)
        else:
            click.echo(nothing, err=True)


def _reads_promises(settings: "Settings", preset: str) -> bool:
    """Return whether guard or steering acts under a preset with these settings.

    :raises UsageError: if they are wrong.
    """
    from softwalltime.live.options import read_policy, reads_promises

    if not settings.live or preset == "none":
        return False
    return reads_promises(*read_policy({**settings.policy, "preset": preset}, settings.live))


@click.command()
@folder_argument
@click.option("--apply", "do", is_flag=True, help="Remove the hook and its files.")
@output_options
def uninstall(folder: Path, do: bool, output: Output) -> None:
    """Remove the hook from PBS, and its files from FOLDER.

    The command restores the settings of PBS that install changed for a preset, except those that the site has changed
    since.  It names the manager right that was given for live values, and the jobs for which PBS keeps a resource.
    Without --apply it prints the necessary changes only.

    \b
    Example:
      softwalltime uninstall
      softwalltime uninstall --apply
    """
    from softwalltime.cli.presets import set_up
    from softwalltime.deployment import configuration, hook
    from softwalltime.deployment.files import files_in, remove_files
    from softwalltime.deployment.live_right import remaining_rights
    from softwalltime.deployment.pbs import QmgrObject, find

    with printed_changes(output) as changes:
        folder = folder.absolute()
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
        set_up(changes, pbs, folder, "none", "", "", do=do)
        accounts = (hook.configuration_of(present) or configuration.shipped())["daemon_users"]
        for right in remaining_rights(pbs.objects("server").get(("server", ""), QmgrObject()), accounts):
            changes.line(f"note: uninstall does not run: qmgr -c '{right}'  # the manager right for live values")
        kept = hook.own_files(pbs.home)
        for file in remove_files(folder, kept) if do else [*files_in(folder), *kept]:
            changes.line(f"{'removed' if do else 'to remove'}: {file}")
    click.echo(HINTS if do else "nothing was changed; run softwalltime uninstall --apply", err=True)
