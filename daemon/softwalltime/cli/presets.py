"""Show and make the changes of PBS's settings for a preset: a part of ``softwalltime install`` and ``uninstall``."""

from dataclasses import dataclass
from pathlib import Path

from softwalltime.cli.changes import ChangeLog
from softwalltime.deployment.check_setup import SHOWN_START
from softwalltime.deployment.preset_setup import requirements
from softwalltime.deployment.qmgr import Qmgr
from softwalltime.deployment.read_settings import read_settings
from softwalltime.deployment.scheduler_setup import unreadable
from softwalltime.deployment.setup_plan import Setup, plan_setup


@dataclass(frozen=True, slots=True)
class PresetChanges:
    """What a preset needs of PBS.

    ``preset``: ``none`` takes all earlier changes back; empty: those of presets stay.  ``resource`` has the ordering
    value.  ``formula`` is the job_sort_formula that replaces the site's; empty: the site's stays.  ``promises``:
    whether the guard is on, which reads promised starts.  ``starts``: whether expected starts are shown on the
    jobs, for which PBS needs a resource.
    """

    preset: str
    resource: str = ""
    formula: str = ""
    promises: bool = False
    starts: bool = False


def set_up(changes: ChangeLog, pbs: Qmgr, folder: Path, wanted: PresetChanges, *, do: bool) -> bool:
    """Print what the preset needs of PBS, and make the changes if ``do`` is true; return whether there are any."""
    preset = wanted.preset
    setup = Setup(pbs, folder)
    needs = (
        *requirements(preset, wanted.resource, wanted.formula, promises=wanted.promises),
        *([SHOWN_START] if wanted.starts else []),
    )
    settings = read_settings(pbs)
    kept = [change for change in setup.kept() if preset or change.name == SHOWN_START.name]
    plan = plan_setup(needs, settings, kept)
    if do:
        for line in setup.apply(plan):
            changes.line(line)
    else:
        for change in plan.changes:
            changes.line(f"to do: {change}  # {change.why}")
    for note in [*(f"{file} cannot be read from here" for file in unreadable(settings, needs)), *plan.notes]:
        changes.line(f"note: {note}")
    if not plan.changes and not plan.notes and preset not in ("", "none"):
        changes.line(f"PBS has what the preset {preset} needs")
    return bool(plan.changes)
