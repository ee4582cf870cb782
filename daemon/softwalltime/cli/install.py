"""``softwalltime install`` and ``uninstall``: add the hook to PBS, or remove it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from softwalltime.errors import SoftwalltimeError, UsageError
from softwalltime.settings import load_settings

FOLDER = Path("/etc/softwalltime/hook")
HINTS = """\
Jobs keep their soft walltimes.  A soft walltime is an estimate for the scheduler and shortens no walltime.  But without
the hook PBS rejects a user's qalter -l walltime= below the soft walltime.  To remove the soft walltimes of all waiting
and running jobs, as a PBS manager (running subjobs keep theirs: PBS refuses to alter them):
  qselect -l soft_walltime.gt.0 | xargs -r -n 100 qalter -l soft_walltime=
The daemon and its database remain: systemctl disable --now softwalltime, remove the package, dropdb.\
"""


def folder_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument for the folder of the hook's files."""
    return click.argument(
        "folder", default=FOLDER, type=click.Path(file_okay=False, path_type=Path), metavar="[FOLDER]"
    )(command)


@click.command()
@folder_argument
@click.option("--apply", "do", is_flag=True, help="Write the files, and change PBS.")
@click.option("--write", "files_only", is_flag=True, help="Write the files, and leave PBS to you and qmgr.")
@click.option("--enable", is_flag=True, help="Switch the hook on, if it was switched off in PBS.")
@click.option("--order", type=click.IntRange(1, 1000), help="Its place among hooks.  Default: as in PBS, else 900.")
@click.option("--alarm", type=click.IntRange(1), help="Seconds until PBS's alarm.  Default: as in PBS, else 5.")
@click.option(
    "--preset",
    type=click.Choice(["safe", "order", "none"]),
    help="Set PBS's scheduler up for this preset; none takes that back.  Default: the preset in the settings, if any.",
)
@click.option(
    "--formula",
    default="",
    metavar="TEXT",
    help="With preset order: job_sort_formula to set in place of the site's, which stays otherwise.",
)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="The daemon's settings.")
def install(
    folder: Path,
    do: bool,
    files_only: bool,
    enable: bool,
    order: int | None,
    alarm: int | None,
    preset: str | None,
    formula: str,
    config: Path | None,
) -> None:
    """Install the hook in PBS, or bring it up to date.

    Shows what it would do and changes nothing.  With --apply it writes the hook, its configuration and the statements
    for qmgr to FOLDER (/etc/softwalltime/hook) and runs the statements.  The configuration in FOLDER is yours to edit:
    run this again afterwards.  What is as it should be is left alone.

    With a preset, from --preset or the settings, it also changes the settings of PBS and its scheduler that the preset
    needs: each is shown before and after with the reason, kept in FOLDER, and taken back by another preset, by
    --preset none and by uninstall, except what the site has changed since.

    \b
    Example:
      softwalltime install
      softwalltime install --apply
      softwalltime install --preset order
    """
    from softwalltime.cli.presets import set_up
    from softwalltime.deployment import hook
    from softwalltime.deployment.files import outdated, read_own, write
    from softwalltime.deployment.installation import Installation, inspect_pbs
    from softwalltime.deployment.pbs import find
    from softwalltime.deployment.plan import STATEMENTS, InstallOptions
    from softwalltime.deployment.scheduler_setup import preset_of, resource_of

    folder = folder.absolute()
    settings = load_settings(config)
    asked = preset or preset_of(settings)
    if formula and asked != "order":
        raise UsageError("--formula is for --preset order")
    socket = settings.socket
    installation = Installation(folder, str(socket), InstallOptions(order, alarm, enable), read_own(folder))
    pbs, present, supported, problem = None, None, hook.expected(""), ""
    try:
        pbs = find()
        version, present, supported = inspect_pbs(pbs)
        click.echo(f"PBS {version} {'has the hook' if present else 'does not have the hook'}")
    except SoftwalltimeError as error:
        if do:
            raise
        problem = str(error)
    chosen = f" --preset {preset}" if preset else ""
    nothing = f"nothing was changed; softwalltime install{chosen} --apply does it"
    # Before the hook: it sets the custom resource from its first event on.
    changes = False
    if asked and pbs is None:
        click.echo(f"preset {asked}: PBS's settings are not known here: {problem}", err=True)
    elif asked and pbs is not None and not files_only:
        changes = set_up(
            pbs, folder, asked, resource_of(installation.own or hook.configuration_of(present)), formula, do=do
        )
    plan = installation.plan(present, supported)
    writes = do or files_only
    for file in write(plan, folder) if writes else outdated(plan, folder):
        click.echo(f"{'written' if writes else 'to write'}: {file}")
    for note in plan.notes:
        click.echo(note)
    if not plan.steps:
        click.echo("PBS has the hook of this version")
        if changes and not do:
            click.echo(nothing, err=True)
    elif do and pbs is not None:
        for step in installation.apply(pbs, plan, supported):
            click.echo(f"done: {step.statement}  # {step.why}")
    else:
        for step in plan.steps:
            click.echo(f"to do: {step.statement}  # {step.why}")
        if problem:
            click.echo(f"this is for a PBS of 2023 or later without the hook, as none was found: {problem}", err=True)
        if files_only:
            click.echo(f"nothing was changed in PBS; to do it: qmgr < {folder / STATEMENTS}", err=True)
        else:
            click.echo(nothing, err=True)


@click.command()
@folder_argument
@click.option("--apply", "do", is_flag=True, help="Do it.")
def uninstall(folder: Path, do: bool) -> None:
    """Take the hook out of PBS, and remove its files from FOLDER.

    PBS's settings that install changed for a preset become what they were before, except what the site has changed
    since.  Shows what it would do; with --apply it is done.

    \b
    Example:
      softwalltime uninstall
      softwalltime uninstall --apply
    """
    from softwalltime.cli.presets import set_up
    from softwalltime.deployment import hook
    from softwalltime.deployment.files import files_in, remove_files
    from softwalltime.deployment.pbs import find

    folder = folder.absolute()
    pbs = find()
    statement = f"delete hook {hook.NAME}"
    there = hook.installed(pbs) is not None
    if there and do:
        pbs.execute(statement)
    if there:
        click.echo(f"{'done' if do else 'to do'}: {statement}")
    else:
        click.echo("PBS does not have the hook")
    # After the hook, which sets the custom resource that is deleted here.
    set_up(pbs, folder, "none", "", "", do=do)
    for file in remove_files(folder) if do else files_in(folder):
        click.echo(f"{'removed' if do else 'to remove'}: {file}")
    click.echo(HINTS if do else "nothing was changed; softwalltime uninstall --apply does it", err=True)
