"""Prometheus metrics of the daemon, on an optional TCP port.

Separate threads serve them from the daemon's status.  Python runs one thread at a time, so these threads could delay
the hook: rendering takes some tenths of a millisecond, and the answering thread gets the interpreter within a tenth of
one (``daemon.SWITCH_INTERVAL_S``).  A page is therefore rendered at most once a second, and the rate of connections is
limited.  A textfile for node_exporter would need no port, but would stay unchanged when the daemon is dead.

No metric has labels by user, project or job: the monitoring views have figures by user.
"""

import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from softwalltime.service.status import OK, Histogram, LiveStatus, StartsStatus, Status
from softwalltime.store.quality import WaitOfSize

TIMEOUT = 2.0
"""Seconds that a client has to send its request and read the response."""
PAGE_MAX_AGE_S = 1.0
"""Seconds for which a rendered page is reused."""
CONNECTION_BURST = 32
"""Connections that are accepted without a pause."""
CONNECTION_INTERVAL_S = 0.05
"""Seconds between two connections after ``CONNECTION_BURST`` of them: 20 a second."""

COUNTERS = {
    "refused_users": ("softwalltime_refused_connections", "Connections of users that may not connect"),
    "timeouts": ("softwalltime_hook_timeouts", "Requests of the hook that timed out, a lower bound"),
    "stored": ("softwalltime_jobs_stored", "Completed jobs that were stored from the accounting log"),
    "lines": ("softwalltime_log_lines", "Lines of the accounting log that were read"),
    "malformed": ("softwalltime_malformed_lines", "Malformed lines; see softwalltime.malformed_lines"),
    "interrupted": ("softwalltime_interrupted_runs", "Runs that were interrupted by a requeue"),
    "disagreeing": ("softwalltime_disagreeing_jobs", "Jobs whose runtime differs from end - start"),
    "recorded": ("softwalltime_predictions_recorded", "Predictions stored"),
    "dropped": ("softwalltime_predictions_dropped", "Predictions dropped because too many waited to be stored"),
    "unstorable": (
        "softwalltime_predictions_unstorable",
        "Predictions that PostgreSQL refused; see softwalltime.malformed_lines",
    ),
    "pruned": ("softwalltime_rows_pruned", "Rows that retention has deleted"),
}
"""Fields of the status that only grow, with name and help of their metrics."""
GAUGES = {
    "started": ("softwalltime_start_time_seconds", "When the daemon was started, epoch seconds"),
    "learnt": ("softwalltime_jobs_learnt", "Jobs that the predictors have learnt since the policy was loaded"),
    "behind_bytes": ("softwalltime_log_behind_bytes", "Bytes of the accounting log that are not stored yet"),
    "behind_seconds": ("softwalltime_log_behind_seconds", "Seconds since the log has bytes that are not stored yet"),
    "from_the_future": ("softwalltime_jobs_from_the_future", "Jobs with an end time in the future"),
    "to_record": ("softwalltime_predictions_waiting", "Predictions that wait to be stored"),
    "refreshed": (
        "softwalltime_figures_refreshed_seconds",
        "Time of the last refresh of the daily figures, epoch seconds; 0: never",
    ),
}
"""Fields of the status that go up and down, with name and help of their metrics."""
QUALITY = {
    "jobs": ("softwalltime_week_jobs", "Scored jobs that ended in the last seven days"),
    "accuracy": ("softwalltime_week_accuracy_ratio", "Mean accuracy of these jobs, min(p, t) / max(p, t)"),
    "request_accuracy": (
        "softwalltime_week_request_accuracy_ratio",
        "Mean accuracy of the users' walltimes for these jobs",
    ),
    "underestimated": (
        "softwalltime_week_underestimated_ratio",
        "Share of these jobs that ran longer than predicted",
    ),
    "badly_underestimated": (
        "softwalltime_week_badly_underestimated_ratio",
        "Share of these jobs that ran over 30 minutes longer than predicted",
    ),
}
"""Figures of each predictor over the last seven days, as of the last refresh."""
QUEUE_STARTS = {
    "waiting": ("softwalltime_starts_waiting_jobs", "Waiting jobs"),
    "forecast": ("softwalltime_starts_forecast_jobs", "Waiting jobs with an expected start"),
    "mean_wait": ("softwalltime_starts_mean_wait_seconds", "Mean time until they start, expected"),
    "longest_wait": ("softwalltime_starts_longest_wait_seconds", "Longest time until one of them starts, expected"),
}
"""Figures of each queue as of the last forecast of starts."""
START_QUALITY = {
    "forecasts": ("softwalltime_starts_week_forecasts", "Forecasts of jobs that started in the last seven days"),
    "relative_error": ("softwalltime_starts_week_error_ratio", "Their mean absolute error, divided by the mean wait"),
    "bias": ("softwalltime_starts_week_bias_seconds", "Mean of expected minus actual start"),
    "within50": ("softwalltime_starts_week_within50_ratio", "Share of the starts within the 50% range"),
    "within90": ("softwalltime_starts_week_within90_ratio", "Share of the starts within the 90% range"),
}
"""Accuracy of past forecasts, by queue."""

WAITS = {
    "week_wait_jobs": "Scored jobs of this size that ended in the last seven days",
    "week_wait_seconds": "Their mean wait from eligible to start",
    "weeks_before_wait_jobs": "Scored jobs of this size that ended in the eight weeks before",
    "weeks_before_wait_seconds": "Their mean wait from eligible to start",
}
"""Waits by job size as of the last refresh; widest: the largest size with 20 jobs or more in both periods."""

log = logging.getLogger(__name__)


class MetricsEndpoint(Collector):
    """Serves the metrics of one daemon.

    :param address: host and port; port 0 is any free one.
    :param status: returns the daemon's status; called in the endpoint's threads.
    :param clock: a monotonic one, in seconds.
    :param sleep: sleeps for that many seconds.
    :raises OSError: if it cannot listen there.
    """

    def __init__(
        self,
        address: tuple[str, int],
        status: Callable[[], Status],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._status = status
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._page = b""
        self._rendered = float("-inf")
        self._rendering = Lock()
        self._server = _MetricsServer(address, self.page, clock, sleep)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._server.server_address[:2]
        return str(host), port

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def page(self) -> bytes:
        """Return the page, at most a second old."""
        with self._rendering:
            now = self._clock()
            if now - self._rendered > PAGE_MAX_AGE_S:
                self._page, self._rendered = generate_latest(self._registry), now
            return self._page

    def collect(self) -> Iterable[Metric]:
        return families(self._status())


def families(status: Status) -> Iterator[Metric]:
    yield InfoMetricFamily("softwalltime_build", "Version of the daemon", {"version": str(status.version)})
    policy = status.policy
    terms = {name: str(policy[name]) for name in ("preset", "mode", "waiting", "running", "minimum", "share")}
    terms["ordering"] = policy["ordering"] or ""
    yield InfoMetricFamily(
        "softwalltime_policy",
        "Policy: preset, mode, predictors, minimum and share",
        terms | {"rules": str(len(policy["rules"]))},
    )
    yield GaugeMetricFamily("softwalltime_ready", "Whether the history has been learnt", int(status.ready))
    refused = int(status.retention != OK)
    yield GaugeMetricFamily("softwalltime_retention_refused", "Whether retention refuses to delete", refused)
    yield GaugeMetricFamily("softwalltime_store_up", "Whether the store can be used", int(status.store == OK))
    if status.followed:
        readable = status.accounting == OK
        yield GaugeMetricFamily("softwalltime_accounting_up", "Whether the accounting log can be read", int(readable))
    requests = CounterMetricFamily("softwalltime_requests", "Requests, by operation", labels=["operation"])
    # Errors start at 0: for Prometheus, a counter that begins at 1 has not increased.
    for operation, count in {"failed": 0, "refused": 0, "unusable": 0, **status.requests}.items():
        # Keys with a blank are decisions, which have a metric with more labels.
        if " " not in operation:
            requests.add_metric([operation], count)
    yield requests
    errors = CounterMetricFamily(
        "softwalltime_predictor_errors",
        "Errors of predictors since the history was loaded; the other predictors continue",
        labels=["predictor", "step"],
    )
    for failure in status.failures:
        errors.add_metric([failure.predictor, failure.step], failure.count)
    yield errors
    labels = ["event", "mode", "action"]
    decisions = CounterMetricFamily("softwalltime_decisions", "Decisions about jobs", labels=labels)
    for decision in status.decisions:
        decisions.add_metric([decision.event, decision.mode, decision.action], decision.count)
    yield decisions
    yield _histogram("softwalltime_answer_seconds", "Time for a response to the hook", status.answer_times)
    yield _histogram("softwalltime_exchange_seconds", "Duration of an exchange of the hook", status.exchange_times)
    live = status.live
    if live.mode != "off":
        yield GaugeMetricFamily("softwalltime_live_up", "Whether PBS's queue can be read and altered", not live.problem)
        guard = "Whether the top job is late, so that waiting jobs are planned with their walltimes"
        yield GaugeMetricFamily("softwalltime_guard_on", guard, bool(live.late_job))
        yield GaugeMetricFamily("softwalltime_live_postponed", "Alters beyond the last look's budget", live.postponed)
        alters = CounterMetricFamily(
            "softwalltime_live_alters", "Alters of waiting and running jobs", labels=["result"]
        )
        for result, count in (("altered", live.altered), ("shadow", live.shadowed), ("refused", live.refused)):
            alters.add_metric([result], count)
        yield alters
        yield from _promises(live)
    if status.starts.mode != "off":
        yield from _starts(status.starts)
    for field, (name, description) in COUNTERS.items():
        yield CounterMetricFamily(name, description, getattr(status, field))
    for field, (name, description) in GAUGES.items():
        yield GaugeMetricFamily(name, description, getattr(status, field))
    for field, (name, description) in QUALITY.items():
        gauge = GaugeMetricFamily(name, description, labels=["mode", "predictor"])
        for quality in status.week:
            gauge.add_metric([quality.mode, quality.predictor], getattr(quality, field))
        yield gauge
    yield from _waits(status.waits)


def _promises(live: LiveStatus) -> Iterator[Metric]:
    starts = CounterMetricFamily(
        "softwalltime_promises", "Promised starts that were kept, broken or withdrawn", labels=["outcome"]
    )
    for outcome, name in (("kept", "kept"), ("broken", "late"), ("withdrawn", "withdrawn")):
        starts.add_metric([outcome], live.promises.get(name, 0))
    yield starts
    waiting = "Waiting jobs with a promised start"
    yield GaugeMetricFamily("softwalltime_promises_open", waiting, live.promises.get("open", 0))


def _waits(waits: Iterable[WaitOfSize]) -> Iterator[Metric]:
    labels = ["processors", "widest"]
    for name, description in WAITS.items():
        gauge = GaugeMetricFamily(f"softwalltime_{name}", description, labels=labels)
        for wait in waits:
            gauge.add_metric([wait.processors, str(wait.widest).lower()], getattr(wait, name.removesuffix("_seconds")))
        yield gauge


def _starts(starts: StartsStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily("softwalltime_starts_up", "Whether starts can be forecast and stored", not starts.problem)
    yield GaugeMetricFamily("softwalltime_starts_time_seconds", "Time of the last forecast", starts.taken)
    yield GaugeMetricFamily("softwalltime_starts_duration_seconds", "Duration of the last forecast", starts.seconds)
    judged = "Jobs whose judged forecasts correct the present ones"
    yield GaugeMetricFamily("softwalltime_starts_judged_jobs", judged, starts.judged)
    factor = "Mean width of the 90% ranges, divided by what it was before any correction"
    yield GaugeMetricFamily("softwalltime_starts_range_factor", factor, starts.range_factor)
    yield CounterMetricFamily("softwalltime_starts_shown", "Jobs altered to show their start", starts.shown)
    yield CounterMetricFamily("softwalltime_starts_refused", "Such alters that PBS refused", starts.refused)
    for rows, descriptions in ((starts.queues, QUEUE_STARTS), (starts.quality, START_QUALITY)):
        for field, (name, description) in descriptions.items():
            gauge = GaugeMetricFamily(name, description, labels=["queue"])
            for row in rows:
                if (value := getattr(row, field)) is not None:
                    gauge.add_metric([row.queue], value)
            yield gauge


def _histogram(name: str, description: str, times: Histogram) -> HistogramMetricFamily:
    buckets, below = [], 0
    for bound, count in zip([*(f"{bound / 1e6:g}" for bound in times.bounds_us), "+Inf"], times.counts, strict=True):
        below += count
        buckets.append((bound, below))
    return HistogramMetricFamily(name, description, buckets=buckets, sum_value=times.total_us / 1e6)


class _MetricsServer(ThreadingHTTPServer):
    """HTTP server with a thread for each connection and a limited rate of connections."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        page: Callable[[], bytes],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.page = page
        self._clock = clock
        self._sleep = sleep
        self._credit = float(CONNECTION_BURST)
        """Connections that may be served before the next pause."""
        self._credited = clock()
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the library, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection; pause first if clients exceed the rate limit."""
        now = self._clock()
        self._credit = min(CONNECTION_BURST, self._credit + (now - self._credited) / CONNECTION_INTERVAL_S)
        self._credited = now
        if self._credit >= 1:
            self._credit -= 1
        else:
            self._sleep(CONNECTION_INTERVAL_S)
            self._credited = self._clock()
        with self._lock:
            self._deadlines[request] = time.monotonic() + TIMEOUT
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections after ``TIMEOUT``: a client that sends byte by byte never times out otherwise."""
        now = time.monotonic()
        with self._lock:
            for connection in [client for client, deadline in self._deadlines.items() if deadline < now]:
                del self._deadlines[connection]
                _hang_up(connection)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("metrics: a request of %s was not answered", client_address, exc_info=True)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server: _MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "the metrics are at /metrics")
            return
        page = self.server.page()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape is no event."""
