"""Show and make the changes of PBS's settings for a preset: a part of ``softwalltime install`` and ``uninstall``."""

from pathlib import Path

import click

from softwalltime.deployment.pbs import Qmgr
from softwalltime.deployment.read_settings import read_settings
from softwalltime.deployment.scheduler_setup import requirements, unreadable
from softwalltime.deployment.setup_plan import Setup, plan_setup


def set_up(
    pbs: Qmgr, folder: Path, preset: str, resource: str, formula: str, *, do: bool, promises: bool = False
) -> bool:
    """Print what the preset needs of PBS, and make the changes if ``do`` is true; return whether there are any.

    :param preset: ``none`` takes all earlier changes back.
    :param formula: the job_sort_formula that replaces the site's; empty: the site's stays.
    :param promises: whether guard or steering is on, which read promised starts.
    """
    setup = Setup(pbs, folder)
    needs = requirements(preset, resource, formula, promises=promises)
    settings = read_settings(pbs)
    plan = plan_setup(needs, settings, setup.kept())
    if do:
        for line in setup.apply(plan):
            click.echo(line)
    else:
        for change in plan.changes:
            click.echo(f"to do: {change}  # {change.why}")
    for note in [*(f"{file} cannot be read from here" for file in unreadable(settings, needs)), *plan.notes]:
        click.echo(f"note: {note}")
    if not plan.changes and not plan.notes and preset != "none":
        click.echo(f"PBS has what the preset {preset} needs")
    return bool(plan.changes)
