"""The daemon: answers the hook from memory, and learns beside it.

The socket is served before the history is loaded and whether or not PostgreSQL can be reached: a hook is always
answered at once, with "none" where nothing is known yet.
"""

import logging
import os
import pwd
import signal
import sys
import time
from collections.abc import Callable, Collection
from types import FrameType

from pydantic import ValidationError

from softwalltime.errors import SoftwalltimeError, UsageError
from softwalltime.service.adviser import Adviser, Desk
from softwalltime.service.server import Server
from softwalltime.service.site_policy import SitePolicy
from softwalltime.service.systemd import notify
from softwalltime.service.worker import Worker
from softwalltime.settings import Settings
from softwalltime.store import open_store

SWITCH = 0.0005
"""Seconds that the thread that learns may keep the interpreter while the thread that answers wants it."""
LEAVING = 10.0
"""Seconds that the daemon waits at its end for what is still to be recorded."""

log = logging.getLogger(__name__)


def serve(settings: Settings, reload: Callable[[], Settings], version: str = "") -> None:
    """Answer until SIGTERM or SIGINT; on SIGHUP take over the policy of the reloaded settings.

    :raises UsageError: if the settings are wrong, before anything is started.
    :raises ServerError: if the socket cannot be opened.
    """
    policy = site_policy(settings)
    daemon = _Daemon(settings, policy, version)
    wanted: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        wanted.append(number)
        if number != signal.SIGHUP:
            daemon.server.stop()

    def on_idle() -> None:
        if signal.SIGHUP in wanted:
            wanted.remove(signal.SIGHUP)
            daemon.reload(reload)
        notify("WATCHDOG=1")
        if daemon.desk.adviser.ready and not daemon.announced:
            daemon.announced = True
            notify("READY=1\nSTATUS=predicting")

    handlers = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        daemon.worker.start()
        log.info("answering at %s: %s", settings.socket, policy)
        daemon.server.serve(on_idle)
        notify("STOPPING=1")
        log.info("stopping")
        if not daemon.worker.stop(LEAVING):
            log.warning("%d predictions could not be recorded: the store does not answer", len(daemon.desk.decisions))
    finally:
        daemon.server.close()
        sys.setswitchinterval(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Daemon:
    """The parts, put together."""

    def __init__(self, settings: Settings, policy: SitePolicy, version: str) -> None:
        self.desk = Desk(Adviser(policy), self.status)
        self.worker = Worker(self.desk, lambda: open_store(settings), settings.accounting, settings.server)
        self.server = Server(settings.socket, self.desk.answer, user_ids(settings.users))
        self.announced = False
        self._version = version
        self._started = time.time()

    def status(self) -> dict[str, object]:
        """What the daemon says of itself: plain names and numbers."""
        adviser, tally = self.desk.adviser, self.worker.tally
        return {
            "version": self._version,
            "pid": os.getpid(),
            "uptime": int(time.time() - self._started),
            "ready": adviser.ready,
            "policy": adviser.policy.model_dump(mode="json"),
            "store": self.worker.problem or "ok",
            "learnt": adviser.learnt,
            "stored": self.worker.stored,
            "lines": tally.lines,
            "malformed": tally.malformed,
            "from_the_future": self.worker.from_the_future,
            "recorded": self.worker.recorded,
            "to_record": len(self.desk.decisions),
            "dropped": self.desk.dropped,
            "answered": self.server.answered,
            "refused_users": self.server.refused,
            "requests": dict(sorted(self.desk.counts.items())),
        }

    def reload(self, load: Callable[[], Settings]) -> None:
        """Take over another policy; with a wrong one the old one stays, and the log says why."""
        try:
            policy = site_policy(load())
        except SoftwalltimeError as error:
            log.error("the configuration is wrong, the old policy stays: %s", error)
            return
        log.info("reloaded: %s", policy)
        self.worker.change_policy(policy)


def site_policy(settings: Settings) -> SitePolicy:
    """The settings' policy.

    :raises UsageError: names the key and what is wrong with its value.
    """
    try:
        return SitePolicy.model_validate(settings.policy)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("policy", *first["loc"])))
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{key}: {reason} ({str(first['input'])[:60]!r})") from error


def user_ids(users: Collection[str]) -> set[int]:
    """The numbers of these users and of the one that runs this process.

    :raises UsageError: if there is no such user.
    """
    found = {os.geteuid()}
    for user in users:
        try:
            found.add(int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid)
        except KeyError as error:
            raise UsageError(f"users: there is no user {user!r} on this machine") from error
    return found
