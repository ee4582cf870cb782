"""The hook as an installation leaves it in PBS, and plans of installations."""

from pathlib import Path

from softwalltime.deployment import configuration, hook
from softwalltime.deployment.hook import EVENTS, Hook, InstallationPlan, make_plan

FOLDER = Path("/etc/softwalltime/hook")
SOCKET = "/run/softwalltime/hook.sock"
ALL = frozenset(EVENTS)
OLDER = ALL - {"postqueuejob"}


def present(**changes: object) -> Hook:
    """Return the hook in PBS after an installation with the defaults, with these changes."""
    attributes = {"enabled": "true", "order": "900", "alarm": "5", "debug": "false"}
    attributes |= {key: str(value) for key, value in changes.items() if key in attributes}
    values = configuration.merged(dict(changes.get("values", {})), configuration.shipped())
    text = changes.get("configuration", configuration.written(values))
    return Hook(
        str(changes.get("script", hook.script())), str(text), frozenset(changes.get("events", OLDER)), attributes
    )  # fmt: skip


def plan(there: Hook | None = None, **changes: object) -> InstallationPlan:
    """Return the plan of an installation over this hook, with these changes of its inputs."""
    return make_plan(
        FOLDER,
        str(changes.get("socket", SOCKET)),
        there,
        changes.get("own"),
        **changes.get("choices", {}),
    )


def statements(made: InstallationPlan) -> list[str]:
    """Return the statements of a plan without their common prefix."""
    return [step.statement.removeprefix("set hook softwalltime ") for step in made.steps]
