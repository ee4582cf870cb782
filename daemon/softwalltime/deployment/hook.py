"""The hook in PBS, and the hook of this version."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softwalltime import resources
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.qmgr import PbsError, Qmgr, year_of
from softwalltime.errors import UsageError

NAME = "softwalltime"
SCRIPT, CONFIGURATION, STATEMENTS = "softwalltime_hook.py", "softwalltime_hook.json", "softwalltime.qmgr"
TRANSPORT = "softwalltime_postgres.py"
"""The hook loads it from the folder, if its configuration has the transport postgres."""
EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")
ORDER = 900
"""After the hooks that set walltimes, queues or projects: PBS runs hooks in ascending order, 1 to 1000."""
ALARM = 5
"""Seconds after which PBS interrupts the hook; its own deadline is a hundred times shorter."""
SCRIPT_TYPE = "application/x-python"
CONFIGURATION_TYPE = "application/x-config"
_FIRST_WITH_POSTQUEUEJOB = 2023


class Step(NamedTuple):
    """A statement for qmgr and its reason."""

    statement: str
    why: str


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
    """A hook as PBS has it."""

    script: str
    configuration: str
    events: frozenset[str] = frozenset()
    attributes: dict[str, str] = field(default_factory=dict)
    """``order``, ``alarm``, ``debug``, ``enabled``."""

    @property
    def complete(self) -> bool:
        """Whether an installation got as far as the script."""
        return bool(self.script.strip())

    @property
    def enabled(self) -> bool:
        return self.attributes.get("enabled", "").lower() == "true"


def script() -> str:
    return resources.hook().read_text(encoding="utf-8")


def installed(pbs: Qmgr) -> Hook | None:
    """Return the hook that PBS has.

    :raises HooksHiddenError: PBS shows hooks only to root on the server's host.
    """
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


def supported(pbs: Qmgr) -> frozenset[str]:
    """Return those of our events that this PBS has; the hook must exist, and stays unchanged.

    When qmgr gets an unknown event it names all events; PBS rolls the request back.
    """
    try:
        pbs.execute(f'set hook {NAME} event = "softwalltime_asks"')
    except PbsError as error:
        named = re.search(r"one or more of: (\S+)", str(error))
        if named:
            return frozenset(named[1].split(",")) & frozenset(EVENTS)
        raise
    raise PbsError(f"qmgr took an event for the hook {NAME} that does not exist: see qmgr -c 'list hook {NAME}'")


def expected(version: str) -> frozenset[str]:
    """Return those of our events that a PBS of this version should have.

    postqueuejob came to OpenPBS between 22.05 and 23.06 (pull request 2567), and so to PBS Professional after 2022.
    """
    year = year_of(version)
    return frozenset(EVENTS) - ({"postqueuejob"} if year is not None and year < _FIRST_WITH_POSTQUEUEJOB else set())


def configuration_of(present: Hook | None) -> Values | None:
    """Return the configuration that the hook in PBS has; ``None`` if there is none that can be read."""
    try:
        return None if present is None else configuration.read(present.configuration, "the hook in PBS")
    except UsageError:
        return None


def transport() -> str:
    """Return the file of this version that the hook loads for the transport postgres."""
    return resources.hook_transport().read_text(encoding="utf-8")


def adapted(own: Values | None, socket: str, transport_path: Path) -> Values:
    """Return the configuration for the hook: the administrator's, with the socket of the daemon.

    With the transport postgres it names the file of the transport.  It does not need the events that PBS has: the hook
    finds out.

    :raises UsageError: names the invalid values.
    """
    values = {**configuration.merged(own or {}, configuration.shipped()), "socket": socket}
    if errors := configuration.errors(values):
        raise UsageError(f"the hook's configuration is invalid: {'; '.join(errors)}")
    if values["transport"] == "postgres":
        values["postgres"] = {**values["postgres"], "transport_path": str(transport_path)}
    return values


def alarm_for(values: Values) -> int:
    """Return the seconds for PBS's alarm: never before the hook's own deadline."""
    return max(ALARM, int(configuration.effective(values)["deadline_ms"]) // 1000 + ALARM - 1)
