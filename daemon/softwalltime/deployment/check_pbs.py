"""Checks of the hook in PBS."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import Values
from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped, warning
from softwalltime.deployment.hook import EVENTS, NAME, Hook, alarm_for, configuration_of, script, transport
from softwalltime.deployment.ownership import file_writable_by_others, writable_by_others_below
from softwalltime.deployment.probes import SubprocessError, call_in_subprocess
from softwalltime.deployment.qmgr import QmgrObject, QmgrObjects
from softwalltime.deployment.sched_config import switched

_INSTALL = "softwalltime install --apply"
INSTALL = f"root on the PBS server's host: {_INSTALL}"
CHECK_TIMEOUT_S = 10.0
"""Timeout for examining a folder, which may be on a file system that hangs, in seconds."""


def check_hook(
    hook: Hook | None, hooks: QmgrObjects, supported: frozenset[str], socket: Path
) -> tuple[list[Finding], Values | None]:
    """Return the findings about the hook, and its effective configuration, if it has one.

    :param hooks: all hooks of PBS.
    :param supported: the hook's events that this PBS supports.
    :param socket: the daemon's socket, by its settings.
    """
    if hook is None:
        return [problem("hook", f"PBS has no hook called {NAME}", INSTALL)], None
    values = configuration_of(hook) if hook.configuration else {}
    findings = [*_script(hook), *_configuration(values, socket)]
    if values is not None:
        findings += [*_events(hook, supported, values), *_alarm(hook, values)]
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
    check = "transport"
    if not name:
        return problem(check, "the configuration names no file to load the transport postgres from", INSTALL)
    try:
        wrong = call_in_subprocess(lambda: _wrong_in(Path(name)), CHECK_TIMEOUT_S)
    except SubprocessError as error:
        return problem(check, f"{name}: {error}", INSTALL)
    if wrong is not None:
        return problem(check, wrong[0], wrong[1])
    return ok(check, f"{name} has this version, and only root can change it")


def _wrong_in(file: Path) -> list[str] | None:
    if (risk := file_writable_by_others(file)) is not None:
        return [f"{risk.path} {risk.reason}, and the hook runs it as root", f"root: {risk.remedy}"]
    if file.read_text(encoding="utf-8") != transport():
        return [f"{file} has another version, or was altered", INSTALL]
    return None


def check_folder(name: str) -> Finding:
    """Check whether users other than root can change what the hook, which runs as root, loads from this folder."""
    check = "psycopg_path"
    if not name:
        return problem(check, "the hook has no folder to load psycopg from", "set it, see hooks/README.md")
    try:
        risk = call_in_subprocess(lambda: writable_by_others_below(Path(name)), CHECK_TIMEOUT_S)
    except SubprocessError as error:
        return problem(check, f"{name}: {error}", "install psycopg there, see hooks/README.md")
    if risk is not None:
        path, reason, remedy = risk
        return problem(check, f"{path} {reason}, and the hook runs its contents as root", f"root: {remedy}")
    return ok(check, f"only root can change {name}")


def _events(hook: Hook, supported: frozenset[str], values: Values) -> Iterator[Finding]:
    check = "hook events"
    chosen = configuration.effective(values)["events"]
    wanted = frozenset(event for event in EVENTS if chosen[event]) & supported
    if "modifyjob" not in hook.events:
        yield problem(check, "no modifyjob: PBS refuses a qalter -l walltime= below the soft walltime", INSTALL)
    elif hook.events == wanted:
        left_out = [event for event in EVENTS if event not in wanted]
        yield ok(check, ", ".join(sorted(wanted)) + (f"; without {', '.join(left_out)}" if left_out else ""))
    else:
        text = f"PBS runs it at {', '.join(sorted(hook.events)) or 'none'}; its configuration has "
        yield warning(check, text + ", ".join(sorted(wanted)), INSTALL)


def _alarm(hook: Hook, values: Values) -> Iterator[Finding]:
    alarm = hook.attributes.get("alarm", "")
    deadline = configuration.effective(values)["deadline_ms"]
    if alarm.isdecimal() and int(alarm) * 1000 <= deadline:
        yield problem(
            "hook alarm",
            f"PBS interrupts the hook after {alarm} s, before its own deadline of {deadline} ms",
            f"qmgr -c 'set hook {NAME} alarm = {alarm_for(values)}'",
        )
    else:
        yield ok("hook alarm", f"{alarm} s; the hook's own deadline is {deadline} ms")


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


def check_scheduler(server: QmgrObjects, files: Mapping[str, str | None]) -> Iterator[Finding]:
    """Check whether the scheduler plans top jobs: it uses soft walltimes only for their calendar.

    :param files: sched_config of each scheduler, ``None`` where it cannot be read.
    """
    yield from _depth(server)
    for file, text in files.items():
        if text is None:
            yield skipped("strict ordering", f"{file} cannot be read from here: strict_ordering must be true in it")
        else:
            yield _ordering(file, text)


def _ordering(file: str, text: str) -> Finding:
    check = "strict ordering"
    if True not in switched(text, "strict_ordering"):
        # strict_ordering also changes the order of the jobs, so it is for the site to decide.
        act = (
            f"a PBS manager, if that is the site's policy: strict_ordering: true ALL in {file}, kill -HUP the scheduler"
        )
        nothing = "so no job is a top job, nothing is planned ahead, and soft walltimes have no effect"
        return advice(check, f"{file}: strict_ordering is not true, {nothing}", act)
    if False in switched(text, "backfill", default=True):
        return advice(check, f"{file}: backfill is false", "a PBS manager: backfill: true ALL in it")
    return ok(check, f"{file}: jobs are planned ahead")


def _depth(server: QmgrObjects) -> Iterator[Finding]:
    check = "backfill_depth"
    attributes = server.get(("server", ""), QmgrObject())
    if attributes.get("scheduling", "True").lower() == "false":
        yield warning("scheduling", "the server's scheduling is off", "qmgr -c 'set server scheduling = True'")
    depth = attributes.get("backfill_depth")
    off = [name for (kind, name), queue in server.items() if kind == "queue" and queue.get("backfill_depth") == "0"]
    if depth == "0":
        yield advice(check, "0 on the server: nothing is backfilled", "qmgr -c 'set server backfill_depth = 10'")
    elif off:
        act = f"qmgr -c 'set queue {off[0]} backfill_depth = 10'"
        yield advice(check, f"0 in {', '.join(off)}: nothing is planned there", act)
    elif depth in ("", "1"):
        yield ok(
            check,
            "1: only the first waiting job is promised a start; with a greater depth, more jobs are",
        )
    else:
        yield ok(check, f"{depth} waiting jobs are promised a start")


def check_queues(server: QmgrObjects) -> Iterator[Finding]:
    """Check for queues that accept jobs by walltime, and for queues without a default walltime.

    A job is routed to its queue by its walltime, not by its soft walltime (Chlumsky and Klusacek 2022, section 3.3).
    """
    queues = {name: queue for (kind, name), queue in server.items() if kind == "queue"}
    limited = [
        name
        for name, queue in queues.items()
        if any(queue.get(f"resources_{end}.walltime") for end in ("min", "max")) and queue.get("queue_type")[:1] != "R"
    ]
    if limited:
        yield advice(
            "queue limits",
            f"{', '.join(limited)}: accepts jobs by walltime, and a job with a long walltime stays in a long queue "
            "though its soft walltime is short",
            "nothing is wrong; limits on jobs or cores instead let soft walltimes do more",
        )
    else:
        yield ok("queue limits", "no queue accepts jobs by walltime")
    # Without a default, PBS gives a job the maximum.
    sources = ("resources_default.walltime", "resources_max.walltime")
    everywhere = any(server.get(("server", ""), QmgrObject()).get(source) for source in sources)
    without = [
        name
        for name, queue in queues.items()
        if queue.get("queue_type")[:1] == "E" and not everywhere and not any(queue.get(source) for source in sources)
    ]
    if without:
        yield advice(
            "default walltimes",
            f"{', '.join(without)}: jobs that request no walltime have none, and get no soft walltime",
            f"qmgr -c 'set queue {without[0]} resources_default.walltime = 24:00:00', or as fits",
        )
    else:
        yield ok("default walltimes", "every job has a walltime")
