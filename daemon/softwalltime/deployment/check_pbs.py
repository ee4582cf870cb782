"""Checks of the hook in PBS."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from softwalltime.core.sched_config import switches
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped, warning
from softwalltime.deployment.hook import NAME, Hook, configuration_of, events_of, has_events, script, transport
from softwalltime.deployment.ownership import WritableByOthers, file_writable_by_others, writable_by_others_below
from softwalltime.deployment.probes import SubprocessError, call_in_subprocess
from softwalltime.deployment.qmgr import QmgrObject, QmgrObjects

_INSTALL = "softwalltime install --apply"
INSTALL = f"root on the PBS server's host: {_INSTALL}"
CHECK_TIMEOUT_S = 10.0
"""Timeout for examining a folder, which may be on a file system that hangs, in seconds."""


def check_hook(hook: Hook | None, hooks: QmgrObjects, socket: Path) -> tuple[list[Finding], Values | None]:
    """Return the findings about the hook, and its effective configuration, if it has one.

    :param hooks: all hooks of PBS.
    :param socket: the daemon's socket, by its settings.
    """
    if hook is None:
        return [problem("hook", f"PBS has no hook called {NAME}", INSTALL)], None
    values = configuration_of(hook) if hook.configuration else {}
    findings = [*_script(hook), *_configuration(values, socket)]
    if values is not None:
        findings += _events(hook, values)
    return [*findings, *_order(hook, hooks)], None if values is None else configuration.effective(values)


def _script(hook: Hook) -> Iterator[Finding]:
    if hook.script == script():
        yield ok("hook", "PBS has this version")
    else:
        yield problem("hook", "the hook in PBS has another version, or was altered", INSTALL)
    if hook.enabled:
        yield ok("hook enabled", "PBS runs it")
    else:
        text = "it is disabled; PBS refuses a qalter -l walltime= below the soft walltime of a job"
        yield problem("hook enabled", text, f"root: {_INSTALL} --enable")
    if hook.attributes.get("debug") == "true":
        yield warning("hook debug", "PBS writes three files at each event", f"qmgr -c 'set hook {NAME} debug = false'")


def _configuration(values: Values | None, socket: Path) -> Iterator[Finding]:
    check = "hook configuration"
    if values is None:
        yield problem(check, "it is not JSON, so the hook uses its defaults", f"correct it, then {INSTALL}")
        return
    errors = configuration.errors(values)
    if errors:
        yield problem(check, "; ".join(errors), f"correct it, then {INSTALL}")
    else:
        changed = [key for key, _ in configuration.differences(configuration.shipped(), values)]
        yield ok(check, f"valid; {', '.join(changed)} changed" if changed else "valid, as shipped")
    effective = configuration.effective(values)
    if effective["transport"] == "postgres":
        yield skipped("socket", "the hook queries PostgreSQL itself")
        yield check_transport(effective["postgres"]["transport_path"])
        yield check_folder(effective["postgres"]["psycopg_path"])
    elif effective["socket"] == str(socket):
        yield ok("socket", f"hook and daemon both use {socket}")
    else:
        yield problem("socket", f"the hook uses {effective['socket']}, the daemon {socket}", INSTALL)


def check_transport(name: str) -> Finding:
    """Check that the file is of this version, and that only root can change it."""
    return _loaded("transport", name, file_writable_by_others, INSTALL, transport())


def check_folder(name: str) -> Finding:
    """Check whether users other than root can change what the hook, which runs as root, loads from this folder."""
    return _loaded("psycopg_path", name, writable_by_others_below, "see hooks/README.md")


def _loaded(
    check: str, name: str, risk_of: Callable[[Path], WritableByOthers | None], act: str, content: str = ""
) -> Finding:
    """Check a path that the hook loads code from; ``content``: that of a file, empty for a folder."""

    def wrong() -> list[str] | None:
        if (risk := risk_of(Path(name))) is not None:
            what = "it" if content else "its contents"
            return [f"{risk.path} {risk.reason}, and the hook runs {what} as root", f"root: {risk.remedy}"]
        if content and Path(name).read_text(encoding="utf-8") != content:
            return [f"{name} has another version, or was altered", INSTALL]
        return None

    if not name:
        return problem(check, f"the hook's configuration has no {check} to load from", act)
    try:
        found = call_in_subprocess(wrong, CHECK_TIMEOUT_S)
    except SubprocessError as error:
        return problem(check, f"{name}: {error}", act)
    if found:
        return problem(check, *found)
    right = f"{name} has this version, and only root can change it" if content else f"only root can change {name}"
    return ok(check, right)


def _events(hook: Hook, values: Values) -> Iterator[Finding]:
    check, wanted = "hook events", events_of(values)
    if "modifyjob" not in hook.events:
        yield problem(check, "no modifyjob: PBS refuses a qalter -l walltime= below the soft walltime", INSTALL)
    elif has_events(hook, wanted):
        yield ok(check, ", ".join(sorted(hook.events)))
    else:
        text = f"PBS runs it at {', '.join(sorted(hook.events)) or 'none'}; its configuration has "
        yield warning(check, text + ", ".join(sorted(wanted)), INSTALL)


def _order(hook: Hook, hooks: QmgrObjects) -> Iterator[Finding]:
    check = "hook order"
    own = int(hook.attributes.get("order", "0") or 0)
    later = [
        name
        for (_, name), other in hooks.items()
        if name != NAME
        and other.get("enabled").lower() == "true"
        and {"queuejob", "modifyjob", "postqueuejob"} & set(other.parts("event")) & hook.events
        and int(other.get("order", "0") or 0) >= own
    ]
    if later:
        text = f"{', '.join(sorted(later))} run after it and may change the job that the prediction is based on"
        yield warning(check, text, f"if they set walltimes, queues or projects: qmgr -c 'set hook {NAME} order = 1000'")
    else:
        yield ok(check, f"{own}: after all other hooks of these events")


def check_planning(server: QmgrObjects, files: Mapping[str, str]) -> Iterator[Finding]:
    """Check what keeps a scheduler that has strict ordering and a backfill_depth from planning ahead.

    :param files: the sched_configs that can be read, by path.
    """
    if server.get(("server", ""), QmgrObject()).get("scheduling", "True").lower() == "false":
        yield warning("scheduling", "the server's scheduling is off", "qmgr -c 'set server scheduling = True'")
    off = [name for (kind, name), queue in server.items() if kind == "queue" and queue.get("backfill_depth") == "0"]
    if off:
        act = f"qmgr -c 'set queue {off[0]} backfill_depth = 10'"
        yield advice("backfill_depth", f"0 in {', '.join(off)}: nothing is planned there", act)
    for file, text in files.items():
        if not all(switches(text, "backfill", default=True)) and any(switches(text, "strict_ordering")):
            yield advice("strict_ordering", f"{file}: backfill is false", "a PBS manager: backfill: true ALL in it")


def check_queues(server: QmgrObjects) -> Finding:
    """Check for execution queues without a default walltime."""
    # Without a default, PBS gives a job the maximum.
    sources = ("resources_default.walltime", "resources_max.walltime")
    everywhere = any(server.get(("server", ""), QmgrObject()).get(source) for source in sources)
    without = [
        name
        for (kind, name), queue in server.items()
        if kind == "queue" and queue.get("queue_type")[:1] == "E"
        if not everywhere and not any(queue.get(source) for source in sources)
    ]
    if not without:
        return ok("default walltimes", "every job has a walltime")
    return advice(
        "default walltimes",
        f"{', '.join(without)}: jobs that request no walltime have none, and get no soft walltime",
        f"qmgr -c 'set queue {without[0]} resources_default.walltime = 24:00:00', or as fits",
    )
