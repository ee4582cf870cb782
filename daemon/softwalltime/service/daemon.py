"""The daemon: answers the hook from memory, and learns beside it.

The socket is served before the history is loaded and whether or not PostgreSQL can be reached: a hook is always
answered at once, with "none" where nothing is known yet.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType

from softwalltime.accounting.tally import Tally
from softwalltime.errors import SoftwalltimeError
from softwalltime.policy.site import SitePolicy, site_policy
from softwalltime.service.follow import Follower
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.socket_server import SocketServer
from softwalltime.service.systemd import notify
from softwalltime.service.worker import Worker
from softwalltime.settings import Settings
from softwalltime.store.opening import open_store
from softwalltime.store.retention import Retention

ROOT = 0
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
    policy = site_policy(settings.policy)
    daemon = _Daemon(settings, policy, version)
    reload_requested = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            reload_requested.set()
        else:
            daemon.server.stop()

    def on_idle() -> None:
        # One reload for all the SIGHUPs since the last one.
        if reload_requested.is_set():
            reload_requested.clear()
            daemon.reload(reload)
        notify("WATCHDOG=1")
        if daemon.handler.predictions.ready and not daemon.announced:
            daemon.announced = True
            notify("READY=1\nSTATUS=predicting")

    handlers = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        daemon.worker.start()
        log.info("answering at %s: %s", settings.socket, policy)
        with daemon.metrics(settings.metrics_address):
            daemon.server.serve(on_idle)
        notify("STOPPING=1")
        log.info("stopping")
        if not daemon.worker.stop(LEAVING):
            log.warning(
                "%d predictions could not be recorded: the store does not answer", len(daemon.handler.decisions)
            )
    finally:
        daemon.server.close()
        sys.setswitchinterval(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Daemon:
    """The parts, put together."""

    def __init__(self, settings: Settings, policy: SitePolicy, version: str) -> None:
        self.handler = RequestHandler(PredictionService(policy, settings.teaching), self.status)
        self.follower = Follower(settings.accounting, settings.server) if settings.accounting else None
        retention = Retention(settings.keep_days, settings.keep_jobs_per_user)
        self.worker = Worker(
            self.handler, lambda: open_store(settings), self.follower, retention, refresh_every=settings.refresh_seconds
        )
        self.server = SocketServer(settings.socket, self.handler.answer, askers(), self.handler.note)
        self.announced = False
        self.refused = ""
        self._version = version
        self._started = time.time()

    def status(self) -> dict[str, object]:
        """What the daemon says of itself: plain names and numbers."""
        predictions, follower = self.handler.predictions, self.follower
        tally = follower.tally if follower else Tally()
        return {
            "version": self._version,
            "pid": os.getpid(),
            "uptime": int(time.time() - self._started),
            "ready": predictions.ready,
            "policy": predictions.policy.model_dump(mode="json"),
            "settings": self.refused or "ok",
            "store": self.worker.problem or "ok",
            "accounting": self.worker.source_problem or ("ok" if follower else "not followed"),
            "learnt": predictions.learnt,
            "stored": tally.stored,
            "lines": tally.lines,
            "malformed": tally.malformed,
            "interrupted": tally.interrupted,
            "disagreeing": tally.disagreeing,
            "behind_bytes": follower.behind_bytes if follower else 0,
            "behind_seconds": round(follower.behind_seconds, 1) if follower else 0,
            "from_the_future": predictions.from_the_future,
            "recorded": self.worker.recorded,
            "forgotten": self.worker.forgotten,
            "to_record": len(self.handler.decisions),
            "dropped": self.handler.dropped,
            "answered": self.server.answered,
            "refused_users": self.server.refused,
            # In one step, as the thread that answers may add to it meanwhile.
            "requests": dict(sorted(dict(self.handler.counts).items())),
            **self.handler.meter.as_dict(),
            "started": int(self._started),
            "refreshed": self.worker.refreshed,
            "week": [asdict(quality) for quality in self.worker.week],
        }

    @contextmanager
    def metrics(self, address: tuple[str, int] | None) -> Iterator[None]:
        """Serve metrics meanwhile; that they cannot be served is no reason not to predict."""
        if address is None:
            yield
            return
        from softwalltime.service.metrics import MetricsEndpoint

        try:
            endpoint = MetricsEndpoint(address, self.status)
        except OSError as error:
            log.error("metrics: cannot listen at %s:%d: %s", *address, error.strerror or error)
            yield
            return
        endpoint.start()
        log.info("metrics at http://%s:%d/metrics", *endpoint.address)
        try:
            yield
        finally:
            endpoint.close()

    def reload(self, load: Callable[[], Settings]) -> None:
        """Take over another policy and teaching; with wrong ones the old ones stay, and the log says why."""
        try:
            settings = load()
            policy = site_policy(settings.policy)
        except SoftwalltimeError as error:
            self.refused = str(error)
            log.error("the configuration is wrong, the old policy stays: %s", error)
            return
        self.refused = ""
        log.info("reloaded: %s", policy)
        self.worker.change(PredictionService(policy, settings.teaching))


def askers() -> set[int]:
    """Who may ask: root, which pbs_server and administrators are, and whoever runs this process."""
    return {ROOT, os.geteuid()}
