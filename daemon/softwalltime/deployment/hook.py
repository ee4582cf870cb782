"""The hook as it is in PBS, and as it should be."""

import re
from dataclasses import dataclass, field

from softwalltime import resources
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.pbs import Pbs, PbsError, year_of

NAME = "softwalltime"
EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")
ORDER = 900
"""Behind the hooks that set walltimes, queues or projects: PBS runs hooks by ascending order, 1 to 1000."""
ALARM = 5
"""Seconds after which PBS interrupts the hook; its own deadline is a hundred times shorter."""
SCRIPT_TYPE = "application/x-python"
CONFIGURATION_TYPE = "application/x-config"
_FIRST_WITH_POSTQUEUEJOB = 2023


@dataclass(frozen=True, slots=True)
class Hook:
    """What PBS knows of a hook."""

    script: str
    configuration: str
    events: frozenset[str] = frozenset()
    attributes: dict[str, str] = field(default_factory=dict)
    """``order``, ``alarm``, ``debug``, ``enabled``."""

    @property
    def complete(self) -> bool:
        """Whether an installation has ever come to its end, or nearly."""
        return bool(self.script.strip())

    @property
    def enabled(self) -> bool:
        """Whether PBS runs it."""
        return self.attributes.get("enabled", "").lower() == "true"


def script() -> str:
    """The hook file of this version."""
    return resources.hook().read_text(encoding="utf-8")


def installed(pbs: Pbs) -> Hook | None:
    """The hook that PBS has.

    :raises HooksHiddenError: hooks are shown to root on the server's host only.
    """
    thing = pbs.things("hook").get(("hook", NAME))
    if thing is None:
        return None
    attributes = {name: thing.get(name) for name in ("enabled", "order", "alarm", "debug")}
    return Hook(
        pbs.tell(f"export hook {NAME} {SCRIPT_TYPE} default"),
        pbs.tell(f"export hook {NAME} {CONFIGURATION_TYPE} default"),
        frozenset(thing.parts("event")),
        attributes,
    )


def supported(pbs: Pbs) -> frozenset[str]:
    """The events of ours that this PBS has; the hook must be there already, and stays as it is.

    qmgr names all that there are when it is given one that there is not; PBS undoes the attempt in the same request.
    """
    try:
        pbs.tell(f'set hook {NAME} event = "softwalltime_asks"')
    except PbsError as error:
        named = re.search(r"one or more of: (\S+)", str(error))
        if named:
            return frozenset(named[1].split(",")) & frozenset(EVENTS)
        raise
    raise PbsError(f"qmgr took an event for the hook {NAME} that does not exist: see qmgr -c 'list hook {NAME}'")


def expected(version: str) -> frozenset[str]:
    """The events of ours that a PBS of this version should have.

    postqueuejob came to OpenPBS between 22.05 and 23.06 (pull request 2567), and so to PBS Professional after 2022.
    """
    year = year_of(version)
    return frozenset(EVENTS) - ({"postqueuejob"} if year is not None and year < _FIRST_WITH_POSTQUEUEJOB else set())


def adapted(own: Values | None, socket: str) -> Values:
    """The configuration that the hook is to have: the administrator's, with the socket where the daemon answers.

    Which events PBS has need not be said: the hook notices.
    """
    return {**configuration.merged(own or {}, configuration.shipped()), "socket": socket}


def alarm_for(values: Values) -> int:
    """Seconds for PBS's alarm: never before the hook's own deadline."""
    return max(ALARM, int(configuration.effective(values)["deadline_ms"]) // 1000 + ALARM - 1)
