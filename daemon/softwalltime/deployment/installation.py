"""Installation of the hook: inspect PBS, plan the files and the changes with their reasons, and make them."""

from collections.abc import Callable, Iterator
from pathlib import Path

from softwalltime.deployment import configuration, hook
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.files import write
from softwalltime.deployment.hook import (
    CONFIGURATION,
    CONFIGURATION_TYPE,
    EVENTS,
    NAME,
    ORDER,
    SCRIPT,
    SCRIPT_TYPE,
    STATEMENTS,
    TRANSPORT,
    Hook,
    InstallationPlan,
    Step,
    adapted,
    alarm_for,
    script,
    transport,
)
from softwalltime.deployment.qmgr import Qmgr
from softwalltime.errors import UsageError


def make_plan(
    folder: Path, socket: str, supported: frozenset[str], present: Hook | None, own: Values | None, *,
    order: int | None = None, alarm: int | None = None, enable: bool = False,
) -> InstallationPlan:  # fmt: skip
    """Return the plan that gives PBS the hook of this version with the administrator's configuration.

    That is the one in the folder, else the one in PBS, else the default.

    :param supported: events that PBS has.
    :param own: the configuration in the folder.
    :param order: of the hook, as ``alarm`` in seconds; ``None``: keep the value in PBS, else the default.
    :raises UsageError: if the configuration is invalid.
    """
    notes = []
    there: Values | None = None
    if present is not None and present.configuration.strip():
        try:
            there = configuration.read(present.configuration, f"the configuration of the hook {NAME} in PBS")
        except UsageError:
            notes.append("the configuration of the hook in PBS is not JSON and is replaced")
    base = own if own is not None else there
    try:
        values = adapted(base, socket, folder / TRANSPORT)
    except UsageError as error:
        place = folder / CONFIGURATION
        where = f"correct {place}" if own is not None else f"write a correct one to {place}"
        raise UsageError(f"{error}; {where}") from None
    if base is not None:
        notes += [f"hook configuration: {change}" for change in configuration.differences(base, values)]
    if there is not None and base is not there:
        notes += [f"in PBS: {change}" for change in configuration.differences(there, values)]
    if present is not None and present.complete and not present.enabled and not enable:
        notes.append("the hook is disabled in PBS and stays disabled; --enable enables it")
    wanted = frozenset(event for event in EVENTS if configuration.events(values)[event]) & supported
    attributes = _attributes(values, wanted, present, order, alarm, enable=enable)
    steps = (*_contents(folder, values, present, there), *attributes)
    statements = [f"# {step.why}\n{step.statement}" for step in steps] or ["# PBS has the hook of this version."]
    files = {
        SCRIPT: script(),
        CONFIGURATION: configuration.written(values),
        STATEMENTS: "# For qmgr, as root on the host of the PBS server.\n" + "\n".join(statements) + "\n",
    }
    if values["transport"] == "postgres":
        files = {TRANSPORT: transport(), **files}
    return InstallationPlan(files, steps, tuple(notes))


def _contents(folder: Path, values: Values, present: Hook | None, there: Values | None) -> Iterator[Step]:
    if present is None:
        yield Step(f"create hook {NAME}", "PBS does not have it")
        # Users submit jobs at the same time.
        yield Step(f"set hook {NAME} enabled = false", "until it is complete")
    if there != values:
        yield Step(
            f"import hook {NAME} {CONFIGURATION_TYPE} default {folder / CONFIGURATION}",
            "its configuration" if there is None else "its configuration has changed",
        )
    if present is None or present.script != script():
        yield Step(
            f"import hook {NAME} {SCRIPT_TYPE} default {folder / SCRIPT}",
            "PBS has another version" if present is not None and present.complete else "the hook itself",
        )


def _attributes(
    values: Values, wanted: frozenset[str], present: Hook | None, order: int | None, alarm: int | None, *, enable: bool
) -> Iterator[Step]:
    fresh = present is None or not present.complete
    if present is None or present.events != wanted:
        events = ",".join(event for event in EVENTS if event in wanted)
        before = ", ".join(sorted(present.events)) if present is not None else ""
        yield Step(f'set hook {NAME} event = "{events}"', f"when PBS runs it{f'; now {before}' if before else ''}")
    attributes = present.attributes if present is not None else {}
    # Keep what an administrator has set, unless an option overrides it.
    for name, default, chosen, why in (
        ("order", ORDER, order, "after hooks that set walltimes, queues or projects"),
        ("alarm", alarm_for(values), alarm, "seconds until PBS interrupts it; its own deadline is shorter"),
    ):
        target = str(chosen if chosen is not None else default if fresh else attributes[name])
        if attributes.get(name) != target:
            yield Step(f"set hook {NAME} {name} = {target}", why)
    if attributes.get("debug") != "false":
        yield Step(f"set hook {NAME} debug = false", "otherwise PBS writes three files at each event")
    if fresh or (enable and present is not None and not present.enabled):
        yield Step(f"set hook {NAME} enabled = true", "PBS runs it from now on")


def inspect_pbs(pbs: Qmgr) -> tuple[str, Hook | None, frozenset[str]]:
    """Return the version of PBS, the hook that it has, and those of our events that it supports.

    :raises PbsError: names who must do what.
    """
    version = pbs.version()
    present = hook.installed(pbs)
    return version, present, hook.expected(version) if present is None else hook.supported(pbs)


def apply(
    pbs: Qmgr, folder: Path, planned: Callable[[frozenset[str], Hook | None], InstallationPlan],
    supported: frozenset[str], present: Hook | None,
) -> Iterator[Step]:  # fmt: skip
    """Make the planned changes in PBS, and yield each step that was done.

    PBS names its events only once the hook exists; if the version of PBS led to a wrong plan, the rest is planned anew.

    :raises PbsError: names the step that failed; earlier steps stay, and the next run continues from there.
    """
    steps = list(planned(supported, present).steps)
    while steps:
        step = steps.pop(0)
        pbs.execute(step.statement)
        yield step
        if step.statement == f"create hook {NAME}" and (actual := hook.supported(pbs)) != supported:
            plan = planned(actual, None)
            write(plan, folder)
            steps = list(plan.steps[1:])
