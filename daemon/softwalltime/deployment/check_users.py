"""Check of the process that shows users their own jobs, where its socket is there."""

import time
from collections.abc import Iterator
from pathlib import Path

from softwalltime.deployment.finding import Finding, ok, problem, warning
from softwalltime.users.own_jobs import SOCKET, NoOwnJobsError, ask_own_jobs

CHECK = "softwalltime me"
OLD = 3600
"""Seconds after which the newest forecast is old."""
LOG = "root: journalctl -u softwalltime-me; the role of deploy/sql/me-role.sql, see deploy/USERS.md"


def check_users(socket: Path = SOCKET) -> Iterator[Finding]:
    """Ask as this user; yield nothing where the site does not offer it."""
    if not socket.is_socket():
        return
    try:
        found = ask_own_jobs(socket)
    except NoOwnJobsError as error:
        yield problem(CHECK, str(error), LOG)
        return
    made = max((forecast.forecast_at for forecast in found.forecasts), default=None)
    if found.problem:
        yield problem(CHECK, found.problem, LOG)
    elif made is None:
        text = "answers, without expected starts and ends: there is no forecast"
        yield warning(CHECK, text, "root: switch on [starts], see deploy/STARTS.md; else wait for the first job")
    elif time.time() - made > OLD:
        text = f"answers with forecasts that are {(time.time() - made) / 3600:.1f} hours old"
        yield warning(CHECK, text, "root: softwalltime status says why the daemon makes none")
    else:
        yield ok(CHECK, "answers users")
