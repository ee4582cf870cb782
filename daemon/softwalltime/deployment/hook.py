"""Plan the installation of this version's hook in PBS."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softwalltime.core import resources
from softwalltime.core.errors import UsageError
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.qmgr import Qmgr

NAME = "softwalltime"
SCRIPT, CONFIGURATION = "softwalltime_hook.py", "softwalltime_hook.json"
TRANSPORT = "softwalltime_postgres.py"
"""The hook loads it from the folder, if its configuration has the transport postgres."""
EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob", "resvsub", "modifyresv")
_NEWER = frozenset({"modifyresv"})
"""Events that older servers do not know; the hook is installed there without them."""
ORDER = 900
"""After the hooks that set walltimes, queues or projects: PBS runs hooks in ascending order, 1 to 1000."""
ALARM = 5
"""Seconds after which PBS interrupts the hook; its own deadline is a hundred times shorter."""
SCRIPT_TYPE = "application/x-python"
CONFIGURATION_TYPE = "application/x-config"


class Step(NamedTuple):
    """A statement of qmgr.  ``older``: the statement for a server that refuses it; empty: none."""

    statement: str
    why: str
    older: str = ""


class InstallationPlan(NamedTuple):
    """The files with their contents, the steps in PBS, and notes for the administrator."""

    files: dict[str, str]
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def own_files(home: Path) -> list[Path]:
    """Return the files that the hook itself has written below PBS_HOME: the soft walltimes set by managers."""
    folder = home / "server_priv" / "hooks"
    files = [folder / f"{NAME}.kept", folder / f"{NAME}.kept.new"]
    return [file for file in files if os.path.lexists(file)]


@dataclass(frozen=True, slots=True)
class Hook:
    script: str
    configuration: str
    events: frozenset[str] = frozenset()
    attributes: dict[str, str] = field(default_factory=dict)
    """``order``, ``alarm``, ``debug``, ``enabled``."""

    @property
    def complete(self) -> bool:
        """Return whether the hook's script was imported."""
        return bool(self.script.strip())

    @property
    def enabled(self) -> bool:
        return self.attributes.get("enabled", "").lower() == "true"


def script() -> str:
    return resources.hook().read_text(encoding="utf-8")


def installed(pbs: Qmgr) -> Hook | None:
    """Return the hook that PBS has; HooksHiddenError: PBS does not show it here."""
    thing = pbs.objects("hook").get(("hook", NAME))
    if thing is None:
        return None
    attributes = {name: thing.get(name) for name in ("enabled", "order", "alarm", "debug")}
    return Hook(
        pbs.execute(f"export hook {NAME} {SCRIPT_TYPE} default"),
        pbs.execute(f"export hook {NAME} {CONFIGURATION_TYPE} default"),
        frozenset(thing.parts("event")),
        attributes,
    )


def configuration_of(present: Hook | None) -> Values | None:
    """Return the configuration that the hook in PBS has; ``None`` if there is none that can be read."""
    try:
        return None if present is None else configuration.read(present.configuration, "the hook in PBS")
    except UsageError:
        return None


def transport() -> str:
    return resources.hook_transport().read_text(encoding="utf-8")


def events_of(values: Values) -> frozenset[str]:
    """Return the events of the configuration, at which PBS must run the hook."""
    return frozenset(event for event, chosen in configuration.effective(values)["events"].items() if chosen)


def make_plan(
    folder: Path, socket: str, present: Hook | None, own: Values | None, *, enable: bool = False
) -> InstallationPlan:
    """Return the plan that gives PBS the hook of this version with the administrator's configuration.

    The configuration is that in the folder, else that in PBS, else the default.

    :param own: the configuration in the folder.
    :param enable: the hook if it is disabled in PBS.
    :raises UsageError: if the configuration is invalid.
    """
    exists, present = present is not None, present or Hook("", "")
    notes, there = [], configuration_of(present)
    if there is None and present.configuration.strip():
        notes.append("the configuration of the hook in PBS is not JSON and is replaced")
    base = own if own is not None else there
    values = {**configuration.merged(base or {}, configuration.shipped()), "socket": socket}
    if errors := configuration.errors(values):
        place = folder / CONFIGURATION
        where = f"correct {place}" if own is not None else f"write a correct one to {place}"
        raise UsageError(f"the hook's configuration is invalid: {'; '.join(errors)}; {where}")
    if values["transport"] == "postgres":
        values["postgres"] = {**values["postgres"], "transport_path": str(folder / TRANSPORT)}
    if base is not None:
        notes += [f"hook configuration: {change}" for _, change in configuration.differences(base, values)]
    if there is not None and base is not there:
        notes += [f"in PBS: {change}" for _, change in configuration.differences(there, values)]
    if present.complete and not present.enabled and not enable:
        notes.append("the hook is disabled in PBS and stays disabled; --enable enables it")
    steps = (*_contents(folder, values, present, there, exists), *_attributes(values, present, enable=enable))
    files = {SCRIPT: script(), CONFIGURATION: configuration.written(values)}
    if values["transport"] == "postgres":
        files = {TRANSPORT: transport(), **files}
    return InstallationPlan(files, steps, tuple(notes))


def _contents(folder: Path, values: Values, present: Hook, there: Values | None, exists: bool) -> Iterator[Step]:
    if not exists:
        yield Step(f"create hook {NAME}", "PBS does not have it")
        # In this order, because users submit jobs at the same time.
        yield Step(f"set hook {NAME} enabled = false", "until it is complete")
    if there != values:
        yield Step(
            f"import hook {NAME} {CONFIGURATION_TYPE} default {folder / CONFIGURATION}",
            "its configuration" if there is None else "its configuration has changed",
        )
    if present.script != script():
        yield Step(
            f"import hook {NAME} {SCRIPT_TYPE} default {folder / SCRIPT}",
            "PBS has another version" if present.complete else "the hook itself",
        )


def has_events(present: Hook, wanted: frozenset[str]) -> bool:
    """Return whether the hook has these events, or those of them that an older server knows."""
    return present.events in (wanted, wanted - _NEWER)


def _attributes(values: Values, present: Hook, *, enable: bool) -> Iterator[Step]:
    wanted = events_of(values)
    if not has_events(present, wanted):
        newer, older = (
            f'set hook {NAME} event = "{",".join(event for event in EVENTS if event in chosen)}"'
            for chosen in (wanted, wanted - _NEWER)
        )
        before = f"; now {', '.join(sorted(present.events))}" if present.events else ""
        yield Step(newer, f"when PBS runs it{before}", older)
    alarm = max(ALARM, int(configuration.effective(values)["deadline_ms"]) // 1000 + ALARM - 1)
    # Keep what an administrator has set.
    for name, default, why in (
        ("order", ORDER, "after hooks that set walltimes, queues or projects"),
        ("alarm", alarm, "seconds until PBS interrupts it; its own deadline is shorter"),
    ):
        if not present.complete and present.attributes.get(name) != str(default):
            yield Step(f"set hook {NAME} {name} = {default}", why)
    if present.attributes.get("debug") != "false":
        yield Step(f"set hook {NAME} debug = false", "otherwise PBS writes three files at each event")
    if not present.complete or (enable and not present.enabled):
        yield Step(f"set hook {NAME} enabled = true", "PBS runs it from now on")
