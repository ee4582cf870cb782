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
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.socket_server import SocketServer
from softwalltime.service.systemd import notify
from softwalltime.service.worker import STATEMENT_TIMEOUT, Worker
from softwalltime.settings import Settings
from softwalltime.store.opening import open_store
from softwalltime.store.retention import Retention
from softwalltime.store.statement_timeout import StatementMonitor

ROOT = 0
SWITCH = 0.0005
"""Seconds that the thread that learns may keep the interpreter while the thread that answers wants it."""
LEAVING = 10.0
"""Seconds that the daemon waits at its end for predictions to be stored."""
LEAVING_WORKER = 3.0
"""Seconds that the daemon waits then for its worker, which loses nothing if it does not end."""
SLOW_STATEMENT = 5.0
"""Seconds that PostgreSQL may take for a statement before the status says that it does not answer."""
MINUTE = 60.0

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
        daemon.log_dropped()
        notify("WATCHDOG=1")
        if daemon.handler.predictions.ready and not daemon.announced:
            daemon.announced = True
            notify("READY=1\nSTATUS=predicting")

    handlers = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        daemon.recorder.start()
        daemon.worker.start()
        log.info("answering at %s: %s", settings.socket, policy)
        with daemon.metrics(settings.metrics_address):
            daemon.server.serve(on_idle)
        notify("STOPPING=1")
        log.info("stopping")
        daemon.stop()
    finally:
        daemon.server.close()
        sys.setswitchinterval(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Daemon:
    """The parts, put together."""

    def __init__(self, settings: Settings, policy: SitePolicy, version: str) -> None:
        self.handler = RequestHandler(PredictionService(policy, settings.teaching), self.status)
        self.follower = Follower(settings.accounting, settings.server, time.monotonic) if settings.accounting else None
        retention = Retention(settings.keep_days, settings.keep_jobs_per_user)
        self.monitor = StatementMonitor(STATEMENT_TIMEOUT)
        self.recorder = DecisionRecorder(self.handler.decisions, settings.socket)
        self.worker = Worker(
            self.handler, lambda: open_store(settings, monitor=self.monitor), self.follower, self.recorder,
            self.monitor, retention, refresh_every=settings.refresh_seconds,
        )  # fmt: skip
        self.server = SocketServer(settings.socket, self.handler.answer, askers(), self.handler.note)
        self.announced = False
        self.refused = ""
        self._version = version
        self._started = time.time()
        self._began = time.monotonic()
        self._dropped_logged = 0
        self._next_dropped = 0.0

    def status(self) -> dict[str, object]:
        """What the daemon says of itself: plain names and numbers."""
        predictions, follower = self.handler.predictions, self.follower
        tally = follower.tally if follower else Tally()
        return {
            "version": self._version,
            "pid": os.getpid(),
            "uptime": int(time.monotonic() - self._began),
            "ready": predictions.ready,
            "policy": predictions.policy.model_dump(mode="json"),
            "settings": self.refused or "ok",
            "store": self.store_state(),
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
            "recorded": self.recorder.recorded,
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

    def store_state(self) -> str:
        """Return ``ok``, or what is wrong with the store; a statement that waits counts after some seconds."""
        if self.worker.problem:
            return self.worker.problem
        if (waiting := self.monitor.waiting()) > SLOW_STATEMENT:
            return f"PostgreSQL has not answered for {waiting:.0f} s"
        return self.recorder.problem or "ok"

    def log_dropped(self) -> None:
        """Log how many predictions were dropped since the last message, at most once a minute."""
        dropped, now = self.handler.dropped, time.monotonic()
        if dropped > self._dropped_logged and now >= self._next_dropped:
            log.error(
                "%d predictions were dropped, because %d wait to be stored: %s",
                dropped - self._dropped_logged, len(self.handler.decisions), self.store_state(),
            )  # fmt: skip
            self._dropped_logged, self._next_dropped = dropped, now + MINUTE

    def stop(self) -> None:
        """End the threads, after what waits was stored."""
        self.recorder.stop(LEAVING)
        if lost := len(self.handler.decisions):
            state = self.store_state()
            reason = "the store does not answer" if state == "ok" else state
            log.warning("%d predictions could not be recorded: %s", lost, reason)
        self._next_dropped = 0.0
        self.log_dropped()
        if not self.worker.stop(LEAVING_WORKER):
            log.info("stopped while the store was at work; the next start goes on from the last commit")

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
