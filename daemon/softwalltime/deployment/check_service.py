"""Checks of the daemon, its socket and its store."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from softwalltime.accounting.values import clock
from softwalltime.deployment.finding import Finding, ok, problem, skipped, warning
from softwalltime.deployment.ownership import writable_by_others
from softwalltime.deployment.probes import DaemonProbe, LogProbe, StoreProbe, socket_mode
from softwalltime.deployment.subprocess_call import SubprocessError
from softwalltime.policy.site import SitePolicy
from softwalltime.service.status import OK, Status

START = "root: systemctl start softwalltime; journalctl -u softwalltime says why it does not run"
BEHIND = 60.0
"""Seconds for which there may be something unread in the accounting log before it is worth a line."""
CLOCKS = 2.0
"""Seconds by which clocks may differ: a job must not end before it has, for a predictor that goes by time."""
MUCH = 10_000_000
"""Bytes of a log that is being written which may be unread: seconds of work."""
DAY = 86400


def check_socket(socket: Path) -> Iterator[Finding]:
    """Root and the daemon's own user may ask, and nobody else."""
    check = "socket permissions"
    try:
        owner, mode = socket_mode(socket)
    except SubprocessError as error:
        yield problem(check, str(error), _start())
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = str(owner)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        act = f"root: chmod 0600 {socket}, and find who changed it"
        yield problem(check, f"{socket} is {mode:04o}: others may connect", act)
        return
    if (found := writable_by_others(socket.parent, (0, owner))) is not None:
        text = f"{found.path} {found.reason}, who could put their own socket there"
        yield problem(check, text, f"root: {found.remedy}")
        return
    if owner == 0:
        act = "run it as the package's unit does, as user softwalltime"
        yield warning(check, f"{socket} belongs to root: the daemon runs as root, and need not", act)
    else:
        yield ok(check, f"{mode:04o}, owner {name}: root and {name} may ask")


def _start() -> str:
    return START if os.geteuid() == 0 else f"run this as root; if that says the same, {START}"


def check_daemon(look: DaemonProbe | str, deadline_ms: int, version: str) -> Iterator[Finding]:
    """Whether it answers, in time, and what it says of itself."""
    check = "daemon"
    if isinstance(look, str):
        yield problem(check, look, _start())
        return
    text = f"answers in {look.median:.2f} ms (median); the hook waits {deadline_ms} ms"
    if look.median > deadline_ms:
        yield problem(check, text, "the host is overloaded, or deadline_ms is too small: see the load of this host")
    elif look.median > deadline_ms / 4:
        yield warning(check, text, "see the load of this host")
    else:
        yield ok(check, text)
    status = look.status
    if status.version != version:
        act = "root: systemctl restart softwalltime"
        yield warning("daemon version", f"it runs {status.version}, installed is {version}", act)
    mode = status.policy["mode"]
    if mode == "off":
        act = 'mode = "shadow" in the settings, then systemctl reload softwalltime'
        yield warning("mode", "off: nothing is predicted", act)
    elif mode == "shadow":
        yield ok("mode", "shadow: predictions are recorded, nothing is set")
    else:
        yield ok("mode", f"{mode}, for {status.policy['share']:.0%} of the users")
    yield from _learning(status)


def _learning(status: Status) -> Iterator[Finding]:
    check = "learning"
    if not status.ready:
        yield problem(check, f"it has not learnt the history: {status.store}", "see the store")
    elif status.store != OK:
        yield problem(check, f"it goes on from memory: {status.store}", "see the store")
    else:
        yield ok(check, f"{status.learnt:,} jobs learnt")
    if status.followed and status.accounting != OK:
        act = "root: accounting in the settings; PBS_HOME elsewhere, or logs not readable by all: deploy/OPERATION.md"
        yield problem("accounting log", status.accounting, act)
    elif status.behind_seconds > BEHIND:
        text = f"{status.behind_bytes:,} bytes not stored yet, since {status.behind_seconds:.0f} s"
        yield warning("accounting log", text, "wait if it is loading the history; else journalctl -u softwalltime")
    if status.from_the_future:
        text = f"{status.from_the_future:,} jobs ended later than the hook's clock says it is"
        yield warning("clock", text, "let NTP set the clocks of the PBS server and of this host")
    if status.malformed:
        act = "the daemon's user, who can see the store: softwalltime ingest --malformed"
        yield warning("accounting log", f"{status.malformed:,} malformed lines", act)
    if status.retention != OK:
        yield warning("retention", status.retention, "root: see that the clocks are right; then deploy/OPERATION.md")
    if status.unstorable:
        text = f"PostgreSQL refused {status.unstorable:,} predictions"
        yield warning("record", text, "the daemon's user, who can see the store: softwalltime ingest --malformed")
    if status.dropped:
        yield warning("record", f"{status.dropped:,} predictions were not recorded", "see the store")


def check_policy(status: Status, policy: SitePolicy | None, version: str) -> Iterator[Finding]:
    """Whether the daemon goes by the policy of the settings, if these have a valid one."""
    if policy is not None and status.version == version and status.policy != policy.model_dump(mode="json"):
        text = "the daemon goes by another [policy] than the one that is in the settings now"
        yield warning("policy", text, "root: systemctl reload softwalltime")


def check_store(look: StoreProbe | str, dsn: str | None, *, answers: bool = False) -> Iterator[Finding]:
    """Whether it can be reached by the daemon's user and is as this version needs it.

    :param answers: whether a daemon runs, which has its dsn from somewhere else if these settings have none.
    """
    if dsn is None and answers:
        text = "no dsn in these settings: which store the daemon has cannot be seen from here"
        yield warning("store", text, "in containers: docker compose exec daemon softwalltime doctor; else add the dsn")
        return
    if dsn is None:
        act = 'dsn = "postgresql:///softwalltime" in the settings'
        yield problem("store", "no dsn: the embedded PostgreSQL, which is for trying things out, would be used", act)
        return
    if isinstance(look, str):
        yield problem("store", look, "whoever runs PostgreSQL, or corrects the dsn in the settings")
        return
    if look.revision != look.head:
        text = f"the tables are at revision {look.revision or 'none'}, {look.head} is needed"
        yield problem("store", text, "root: runuser -u softwalltime -- softwalltime db upgrade, or as its owner")
        return
    yield ok("store", f"reached; tables at revision {look.revision}")
    if look.retention:
        yield warning("retention", look.retention, "root: see that the clocks are right; then deploy/OPERATION.md")
    if not look.jobs:
        yield warning("history", "no job is in the store", "start the daemon, or softwalltime ingest the logs")
    if abs(look.ahead) > CLOCKS:
        text = f"the store's clock is {abs(look.ahead):.0f} s {'ahead of' if look.ahead > 0 else 'behind'} this host's"
        yield warning("clock", text, "let NTP set both")
    else:
        yield ok("clock", "store and host agree")


def check_lag(logs: LogProbe | str, store: StoreProbe | str, now: float) -> Iterator[Finding]:
    """How far the store is behind the accounting log, seen from outside the daemon."""
    check = "position"
    if isinstance(logs, str):
        yield skipped(check, logs)
        return
    if now - logs.written > 7 * DAY:
        text = f"{logs.path} is the newest log, and {(now - logs.written) / DAY:.0f} days old"
        yield warning(check, text, "see that accounting in the settings is the folder that PBS writes")
    if logs.written - now > CLOCKS:
        text = f"{logs.path} was written {logs.written - now:.0f} s in the future"
        yield warning("clock", text, "let NTP set the clocks of the PBS server and of this host")
    if isinstance(store, str) or store.revision != store.head:
        yield skipped(check, "the store cannot be asked")
        return
    if not logs.size:
        yield ok(check, f"nothing has been written to {logs.path} yet")
        return
    read = store.read_of(logs)
    behind = logs.size - (read or 0)
    if read is None:
        text = f"nothing of {logs.path} is in the store"
        yield warning(check, text, "start the daemon, or softwalltime ingest --follow, with this folder")
    elif behind > MUCH or (behind > 0 and now - logs.written > BEHIND):
        yield problem(check, f"{behind:,} bytes of {logs.path} are not stored yet", "journalctl -u softwalltime")
    else:
        yield ok(check, f"all of {logs.path} but what was written just now is stored")
    if len(servers := store.servers_of(logs)) > 1:
        text = f"{logs.path} was read as that of {' and of '.join(servers)}: its jobs are stored once for each"
        yield problem(check, text, "give all daemons that follow it the same server in their settings, or none")


def check_trial(answer: Mapping[str, Any] | str, user: str, walltime: int) -> Iterator[Finding]:
    """What a job of somebody whom the store knows would get."""
    check = "trial prediction"
    if isinstance(answer, str):
        yield skipped(check, answer)
        return
    seconds = answer["soft_walltime"]
    what = "no soft walltime" if seconds is None else f"soft walltime {clock(seconds)}"
    yield ok(check, f"{user}, walltime {clock(walltime)}: {what}: {answer['basis']}")
