"""The daemon: answer the hook from memory, and learn in other threads.

The socket is served before the history is loaded and whether or not PostgreSQL can be reached: a hook always gets a
response at once, with "none" where nothing is known yet.
"""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType

from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.settings import Settings
from softwalltime.predict.policy.presets import unused
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.follow import Follower
from softwalltime.service.forecast_thread import ForecastThread, start_options
from softwalltime.service.live.live_options import LiveOptions, live_options, read_policy, without_live
from softwalltime.service.live_values import LiveThread
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.socket_server import SocketServer
from softwalltime.service.status import NOT_FOLLOWED, OK, DecisionCount, Status
from softwalltime.service.worker import STATEMENT_TIMEOUT_S, Worker
from softwalltime.store.connections import StatementMonitor
from softwalltime.store.opening import open_store

ROOT = 0
SWITCH_INTERVAL_S = 0.00002
"""Interpreter switch interval in seconds (``sys.setswitchinterval``).

The interval starts again whenever numpy or libpq releases and retakes the interpreter: with 0.0005 the answering
thread waited for up to 50 ms.
"""
RECORDER_STOP_TIMEOUT_S = 10.0
"""Seconds that the daemon waits at shutdown for the recorder to store the queued predictions."""
WORKER_STOP_TIMEOUT_S = 3.0
"""Seconds that the daemon waits at shutdown for the worker; a killed worker loses no data."""
SLOW_STATEMENT_S = 5.0
"""Seconds after which the status reports that a running statement is not answered."""

log = logging.getLogger(__name__)

LOADING_GC_THRESHOLDS = 2000, 10, 20
"""Garbage collection thresholds while a history is loaded: few collections of young objects, each of some milliseconds
at most. A full collection runs only where numba compiles, which leaves much garbage."""


def serve(settings: Settings, reload: Callable[[], Settings], version: str = "") -> None:
    """Answer requests until SIGTERM or SIGINT; on SIGHUP replace the policy by that of the reloaded settings.

    :raises UsageError: if the settings are wrong, before anything is started.
    :raises ServerError: if the socket cannot be opened.
    """
    policy, _ = read_policy(settings.policy, settings.live)
    daemon = PredictionDaemon(settings, policy, version)
    reload_requested = threading.Event()
    thresholds, announced = gc.get_threshold(), False

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            reload_requested.set()
        else:
            daemon.server.stop()

    def on_idle() -> None:
        nonlocal announced
        # One reload for all the SIGHUPs since the last one.
        if reload_requested.is_set():
            reload_requested.clear()
            daemon.reload(reload)
        notify("WATCHDOG=1")
        if daemon.handler.predictions.ready and not announced:
            announced = True
            gc.freeze()
            gc.set_threshold(*thresholds)
            notify("READY=1\nSTATUS=predicting")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # Frozen objects are still freed by reference counting, unless they form cycles.
    gc.freeze()
    gc.set_threshold(*LOADING_GC_THRESHOLDS)
    try:
        daemon.start()
        log.info("answering at %s: %s", settings.socket, policy)
        log_ineffective(settings, policy, daemon.live.options)
        with daemon.metrics(settings.metrics_address):
            daemon.server.serve(on_idle)
        notify("STOPPING=1")
        log.info("stopping")
        # Close the socket first: otherwise the hook waits for responses while predictions are being stored.
        daemon.server.close()
        daemon.stop()
    finally:
        daemon.server.close()


class PredictionDaemon:
    """Connect the daemon's parts: socket server, request handler, worker and recorder.

    :param clock: the time, epoch seconds.
    :param monotonic: a clock for intervals, seconds.
    :raises ServerError: if the socket cannot be opened.
    """

    def __init__(
        self,
        settings: Settings,
        policy: SitePolicy,
        version: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        predictions = PredictionService(policy, settings.teaching, clock)
        self.handler = RequestHandler(predictions, lambda: self.status().to_json())
        self.follower = Follower(settings.accounting, settings.server, monotonic) if settings.accounting else None
        self.monitor = StatementMonitor(STATEMENT_TIMEOUT_S)
        open_engine = partial(open_store, settings, monitor=self.monitor)
        promises = PromiseStore(settings.server)
        self.recorder = DecisionRecorder(self.handler.decisions, settings.socket, open_engine, self.monitor, promises)
        self.worker = Worker(
            self.handler, open_engine, self.follower, self.recorder,
            self.monitor, settings.keep_days, clock, settings.refresh_seconds, monotonic,
        )  # fmt: skip
        self.live = LiveThread(
            live_options(settings.live, policy.preset), lambda: self.handler.predictions, self.handler.queue, promises,
            clock=clock,
        )  # fmt: skip
        self.starts = ForecastThread(settings)
        self.server = SocketServer(
            settings.socket, self.handler.answer, {ROOT, os.geteuid()}, self.handler.note, self.handler.keeps
        )
        self._refused = ""
        self._version = version
        self._started = clock()
        self._began = monotonic()

    def start(self) -> None:
        self.recorder.start()
        self.worker.start()
        self.live.start()
        self.starts.start()

    def stop(self) -> None:
        """Stop the threads after the queued predictions are stored."""
        if not self.live.stop(WORKER_STOP_TIMEOUT_S):
            log.info("stopped while PBS was asked")
        self.starts.stop(WORKER_STOP_TIMEOUT_S)
        self.recorder.stop(RECORDER_STOP_TIMEOUT_S)
        if lost := len(self.handler.decisions):
            state = self._store_state()
            reason = "the store does not answer" if state == OK else state
            log.warning("%d predictions could not be recorded: %s", lost, reason)
        if not self.worker.stop(WORKER_STOP_TIMEOUT_S):
            log.info("stopped while the store was at work; the next start continues from the last commit")

    def status(self) -> Status:
        """Return state and counters; safe from any thread."""
        predictions, follower, handler, worker = self.handler.predictions, self.follower, self.handler, self.worker
        tally = follower.tally if follower else Tally()
        # dict() copies in one step; the answering thread adds to both.
        requests, decisions = dict(handler.counts), dict(handler.metrics.decisions)
        return Status(
            version=self._version,
            pid=os.getpid(),
            started=int(self._started),
            uptime=int(self._monotonic() - self._began),
            policy=predictions.policy.model_dump(mode="json"),
            settings=self._refused or OK,
            ready=predictions.ready,
            learnt=predictions.learnt,
            history=worker.history,
            loaded=worker.loaded,
            from_the_future=predictions.from_the_future,
            store=self._store_state(),
            retention=worker.retention_problem or OK,
            recorded=self.recorder.recorded,
            to_record=len(handler.decisions),
            dropped=handler.dropped,
            unstorable=self.recorder.malformed,
            refreshed=worker.refreshed,
            week=tuple(worker.week),
            waits=tuple(worker.waits),
            accounting=worker.source_problem or (OK if follower else NOT_FOLLOWED),
            logs_read=worker.logs_read,
            stored=tally.stored,
            rounds=worker.rounds,
            lines=tally.lines,
            malformed=tally.malformed,
            behind_bytes=follower.behind_bytes if follower else 0,
            behind_seconds=round(follower.behind_seconds, 1) if follower else 0,
            requests=dict(sorted(requests.items())),
            unusable=handler.unusable,
            refused_users=self.server.refused,
            decisions=tuple(DecisionCount(*kind, count) for kind, count in sorted(decisions.items())),
            timeouts=handler.metrics.timeouts,
            answer_times=handler.metrics.answers.copy(),
            exchange_times=handler.metrics.exchanges.copy(),
            live=self.live.status(),
            failures=predictions.errors.failures(),
            starts=self.starts.status,
        )

    def _store_state(self) -> str:
        """Return ``ok`` or the store's problem, such as a statement that runs longer than :data:`SLOW_STATEMENT_S`."""
        if self.worker.problem:
            return self.worker.problem
        if (waiting := self.monitor.waiting()) > SLOW_STATEMENT_S:
            return f"PostgreSQL has not answered for {waiting:.0f} s"
        return self.recorder.problem or OK

    @contextmanager
    def metrics(self, address: tuple[str, int] | None) -> Iterator[None]:
        """Serve metrics inside the context; if that is impossible, log why and predict without them."""
        if address is None:
            yield
            return
        from softwalltime.service.metrics import MetricsEndpoint

        with ExitStack() as stack:
            try:
                endpoint = MetricsEndpoint(address, self.status)
            except OSError as error:
                log.error("metrics: cannot listen at %s:%d: %s", *address, error.strerror or error)
            else:
                stack.callback(endpoint.close)
                endpoint.start()
                log.info("metrics at http://%s:%d/metrics", *endpoint.address)
            yield

    def reload(self, load: Callable[[], Settings]) -> None:
        """Reload policy and training settings; if they are invalid, keep the old ones and log the error."""
        try:
            settings = load()
            policy, live = read_policy(settings.policy, settings.live)
            start_options(settings.starts)
            predictions = PredictionService(policy, settings.teaching, self._clock)
        except SoftwalltimeError as error:
            self._refused = str(error)
            log.error("the configuration is wrong, the old policy stays: %s", error)
            return
        # No settings file may stop a running daemon, and a predictor of another package may raise any exception.
        except Exception as error:
            self._refused = f"an unexpected error, see the log: {type(error).__name__}: {error}"
            log.exception("the configuration cannot be used, the old policy stays")
            return
        self._refused = ""
        log.info("reloaded: %s", policy)
        log_ineffective(settings, policy, live)
        self.live.change(live)
        self.starts.change(settings)
        self.worker.change(predictions)


def log_ineffective(settings: Settings, policy: SitePolicy, live: LiveOptions) -> None:
    """Log the values of ``[policy]`` that the preset overrides, and the parts of the policy that need ``[live]``."""
    if keys := unused(settings.policy):
        log.warning("preset %s: not used in [policy]: %s", settings.policy["preset"], ", ".join(keys))
    if text := without_live(policy, live):
        log.warning("%s", text)


def notify(state: str) -> None:
    """Send a state such as ``READY=1`` if systemd asked for it; ignore errors."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), f"\0{address[1:]}" if address[0] == "@" else address)
