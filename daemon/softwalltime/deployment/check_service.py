"""Checks of daemon, socket and store."""

import os
import pwd
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from softwalltime.core.formatting import DAY
from softwalltime.deployment.finding import Finding, ok, problem, skipped, warning
from softwalltime.deployment.ownership import writable_by_others
from softwalltime.deployment.probes import DaemonProbe, LogProbe, StoreProbe
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.status import Status
from softwalltime.service.status_problems import problems
from softwalltime.service.users.own_jobs import SOCKET, NoOwnJobsError, ask_own_jobs

START = "root: systemctl start softwalltime; journalctl -u softwalltime says why it does not run"
MAX_LAG_S = 60.0
"""Lag of the accounting log in seconds above which it is reported."""
CLOCKS = 2.0
"""Maximum difference between clocks in seconds; predictors with a window depend on the time."""
MUCH = 10_000_000
"""Maximum unread bytes of a growing log: seconds of work."""
STALE_AFTER_S = 3600
"""Seconds after which the newest forecast is old."""
LOG = "root: journalctl -u softwalltime-me; the role of deploy/sql/me-role.sql, see deploy/USERS.md"


def check_socket(socket: Path) -> Finding:
    """Check that only root and the daemon's user can connect."""
    check = "socket permissions"
    try:
        status = socket.stat()
    except OSError as error:
        return problem(check, f"{socket}: {error.strerror}", _start())
    if not stat.S_ISSOCK(status.st_mode):
        return problem(check, f"{socket}: not a socket", _start())
    owner, mode = status.st_uid, stat.S_IMODE(status.st_mode)
    name = next((account.pw_name for account in pwd.getpwall() if account.pw_uid == owner), str(owner))
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        act = f"root: chmod 0600 {socket}, and find out who changed it"
        return problem(check, f"{socket} is {mode:04o}: others may connect", act)
    if (risk := writable_by_others(socket.parent, (0, owner))) is not None:
        return problem(check, f"{risk.path} {risk.reason}, who could replace the socket", f"root: {risk.remedy}")
    if owner == 0:
        act = "run it as user softwalltime, as the unit of the package does"
        return warning(check, f"{socket} belongs to root: the daemon runs as root without need", act)
    return ok(check, f"{mode:04o}, owner {name}: root and {name} can connect")


def _start() -> str:
    return START if os.geteuid() == 0 else f"run this as root; if that says the same, {START}"


def check_daemon(probe: DaemonProbe | str, deadline_ms: int, version: str) -> Iterator[Finding]:
    check = "daemon"
    if isinstance(probe, str):
        yield problem(check, probe, _start())
        return
    text = f"answers in {probe.median:.2f} ms (median); the hook waits {deadline_ms} ms"
    if probe.median > deadline_ms:
        yield problem(check, text, "the host is overloaded, or deadline_ms is too small: see the load of this host")
    elif probe.median > deadline_ms / 4:
        yield warning(check, text, "see the load of this host")
    else:
        yield ok(check, text)
    status = probe.status
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
    found = problems(status)
    for line, serious in found.items():
        yield (problem if serious else warning)("daemon status", line, "journalctl -u softwalltime says more")
    if not any(found.values()):
        yield ok("learning", f"{status.learnt:,} jobs learnt")


def check_policy(status: Status, policy: SitePolicy | None, version: str) -> Iterator[Finding]:
    if policy is not None and status.version == version and status.policy != policy.model_dump(mode="json"):
        text = "the daemon uses another [policy] than the settings have now"
        yield warning("policy", text, "root: systemctl reload softwalltime")


def check_store(probe: StoreProbe | str, dsn: str | None, *, answers: bool = False) -> Iterator[Finding]:
    """Check that the daemon's user can reach the store and that its tables fit this version.

    :param answers: whether a daemon runs; its dsn comes from other settings if these have none.
    """
    if dsn is None and answers:
        text = "no dsn in these settings: the store of the daemon is unknown"
        yield warning("store", text, "in containers: docker compose exec daemon softwalltime doctor; else add the dsn")
        return
    if dsn is None:
        act = 'dsn = "postgresql:///softwalltime" in the settings'
        yield problem("store", "no dsn: the daemon would use the embedded PostgreSQL, which is for tests", act)
        return
    if isinstance(probe, str):
        yield problem("store", probe, "the administrator of PostgreSQL, or correct the dsn in the settings")
        return
    if probe.revision != probe.head:
        text = f"the tables are at revision {probe.revision or 'none'}, {probe.head} is needed"
        yield problem("store", text, "root: runuser -u softwalltime -- softwalltime db upgrade, or as its owner")
        return
    yield ok("store", f"reached; tables at revision {probe.revision}")
    if probe.retention:
        yield warning("retention", probe.retention, "root: check the clocks; see deploy/OPERATION.md")
    if not probe.jobs:
        yield warning("history", "the store has no jobs", "start the daemon, or softwalltime ingest the logs")
    if abs(probe.ahead) > CLOCKS:
        text = (
            f"the store's clock is {abs(probe.ahead):.0f} s {'ahead of' if probe.ahead > 0 else 'behind'} this host's"
        )
        yield warning("clock", text, "synchronize both with NTP")
    else:
        yield ok("clock", "store and host agree")


def check_lag(logs: LogProbe | str, store: StoreProbe | str, now: float) -> Iterator[Finding]:
    """Check the lag of the store behind the accounting log, without the daemon."""
    check = "position"
    if isinstance(logs, str):
        yield skipped(check, logs)
        return
    if now - logs.written > 7 * DAY:
        text = f"{logs.path} is the newest log, and {(now - logs.written) / DAY:.0f} days old"
        yield warning(check, text, "check that accounting in the settings is the folder that PBS writes to")
    if logs.written - now > CLOCKS:
        text = f"{logs.path} was written {logs.written - now:.0f} s in the future"
        yield warning("clock", text, "synchronize the clocks of the PBS server and this host with NTP")
    if isinstance(store, str) or store.revision != store.head:
        yield skipped(check, "the store cannot be queried")
        return
    if not logs.size:
        yield ok(check, f"{logs.path} is empty")
        return
    behind = logs.size - max((offset for _, offset in store.positions), default=0)
    if not store.positions:
        text = f"the store has nothing of {logs.path}"
        yield warning(check, text, "start the daemon, or softwalltime ingest --follow, with this folder")
    elif behind > MUCH or (behind > 0 and now - logs.written > MAX_LAG_S):
        yield problem(check, f"{behind:,} bytes of {logs.path} are not stored yet", "journalctl -u softwalltime")
    else:
        yield ok(check, f"{logs.path} is stored, except for its newest lines")
    # The server of a log without jobs is unknown.
    if len(servers := sorted({server for server, _ in store.positions if server})) > 1:
        text = f"{logs.path} was read for the servers {' and '.join(servers)}: its jobs are stored once for each"
        yield problem(check, text, "set the same server in the settings of all daemons that follow it, or none")


def check_users(socket: Path = SOCKET) -> Iterator[Finding]:
    """Check softwalltime me as this user; yield nothing if the site does not offer it."""
    check = "softwalltime me"
    if not socket.is_socket():
        return
    try:
        own_jobs = ask_own_jobs(socket)
    except NoOwnJobsError as error:
        yield problem(check, str(error), LOG)
        return
    made = max((forecast.forecast_at for forecast in own_jobs.forecasts), default=None)
    if own_jobs.problem:
        yield problem(check, own_jobs.problem, LOG)
    elif made is None:
        text = "answers, without expected starts and ends: there is no forecast"
        yield warning(check, text, "root: switch on [starts], see deploy/STARTS.md; else wait for the first job")
    elif time.time() - made > STALE_AFTER_S:
        text = f"answers with forecasts that are {(time.time() - made) / 3600:.1f} hours old"
        yield warning(check, text, "root: softwalltime status says why the daemon makes none")
    else:
        yield ok(check, "answers users")
