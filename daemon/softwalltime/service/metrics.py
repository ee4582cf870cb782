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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from socketserver import TCPServer
from threading import Lock, Thread, Timer
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, core
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from softwalltime.service.status import OK, Histogram, LiveStatus, StartsStatus, Status
from softwalltime.service.users.rate_limit import RateLimit

TIMEOUT = 2.0
"""Seconds that a client has to send its request and read the response."""
PAGE_MAX_AGE_S = 1.0
"""Seconds for which a rendered page is reused."""
CONNECTION_BURST = 32
"""Connections that are accepted without a pause."""
CONNECTION_INTERVAL_S = 0.05
"""Seconds between two connections after ``CONNECTION_BURST`` of them: 20 a second."""

COUNTERS = {
    "refused_users": ("refused_connections", "Connections of users that may not connect"),
    "timeouts": ("hook_timeouts", "Requests of the hook that timed out, a lower bound"),
    "stored": ("jobs_stored", "Completed jobs that were stored from the accounting log"),
    "lines": ("log_lines", "Lines of the accounting log that were read"),
    "malformed": ("malformed_lines", "Malformed lines; see softwalltime.malformed_lines"),
    "dropped": ("predictions_dropped", "Predictions dropped because too many waited to be stored"),
    "unstorable": ("predictions_unstorable", "Predictions that PostgreSQL refused; see softwalltime.malformed_lines"),
}
"""Fields of the status that only grow, with name and help of their metrics."""
GAUGES = {
    "started": ("start_time_seconds", "When the daemon was started, epoch seconds"),
    "learnt": ("jobs_learnt", "Jobs that the predictors have learnt since the policy was loaded"),
    "behind_bytes": ("log_behind_bytes", "Bytes of the accounting log that are not stored yet"),
    "behind_seconds": ("log_behind_seconds", "Seconds since the log has bytes that are not stored yet"),
    "to_record": ("predictions_waiting", "Predictions that wait to be stored"),
    "refreshed": (
        "figures_refreshed_seconds",
        "When the daily figures were last refreshed, epoch seconds; 0: never",
    ),
}
"""Fields of the status that go up and down, with name and help of their metrics."""
QUALITY = {
    "jobs": ("week_jobs", "Scored jobs that ended in the last seven days"),
    "accuracy": ("week_accuracy_ratio", "Mean accuracy of these jobs, min(p, t) / max(p, t)"),
    "request_accuracy": ("week_request_accuracy_ratio", "Mean accuracy of the users' walltimes for these jobs"),
    "underestimated": ("week_underestimated_ratio", "Share of these jobs that ran longer than predicted"),
    "badly_underestimated": (
        "week_badly_underestimated_ratio", "Share of these jobs that ran over 30 minutes longer than predicted"
    ),
}  # fmt: skip
"""Figures of each predictor over the last seven days, as of the last refresh."""
WAITS = {
    "week_wait_jobs": ("week_wait_jobs", "Scored jobs of this size that ended in the last seven days"),
    "week_wait": ("week_wait_seconds", "Their mean wait from eligible to start"),
    "weeks_before_wait_jobs": (
        "weeks_before_wait_jobs", "Scored jobs of this size that ended in the eight weeks before"
    ),
    "weeks_before_wait": ("weeks_before_wait_seconds", "Their mean wait from eligible to start"),
}  # fmt: skip
"""Waits by job size as of the last refresh; widest: the largest size with 20 jobs or more in both periods."""
QUEUE_STARTS = {
    "waiting": ("starts_waiting_jobs", "Waiting jobs"),
    "forecast": ("starts_forecast_jobs", "Waiting jobs with an expected start"),
    "mean_wait": ("starts_mean_wait_seconds", "Mean time until they start, expected"),
    "longest_wait": ("starts_longest_wait_seconds", "Longest time until one of them starts, expected"),
}
"""Figures of each queue as of the last forecast of starts."""
START_QUALITY = {
    "forecasts": ("starts_week_forecasts", "Forecasts of jobs that started in the last seven days"),
    "relative_error": ("starts_week_error_ratio", "Their mean absolute error, divided by the mean wait"),
    "bias": ("starts_week_bias_seconds", "Mean of expected minus actual start"),
    "within50": ("starts_week_within50_ratio", "Share of the starts within the 50% range"),
    "within90": ("starts_week_within90_ratio", "Share of the starts within the 90% range"),
}
"""Accuracy of past forecasts, by queue."""

log = logging.getLogger(__name__)


class MetricsEndpoint(ThreadingHTTPServer, Collector):
    """Serves the metrics of one daemon, each connection in a thread, at a limited rate of connections.

    :param address: host and port; port 0 is any free one.
    :param status: returns the daemon's status; called in the endpoint's threads.
    :param clock: a monotonic one, in seconds.
    :param sleep: sleeps for that many seconds.
    :raises OSError: if it cannot listen there.
    """

    daemon_threads = True
    request_queue_size = 128
    # Without the reverse DNS lookup of HTTPServer, which may take long.
    server_bind = TCPServer.server_bind

    def __init__(
        self,
        address: tuple[str, int],
        status: Callable[[], Status],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._status = status
        self._clock = clock
        self._sleep = sleep
        self._limit = RateLimit(1 / CONNECTION_INTERVAL_S, CONNECTION_BURST)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._page = b""
        self._rendered = float("-inf")
        self._rendering = Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self._thread = Thread(target=self.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.server_address[:2]
        return str(host), port

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()

    def page(self) -> bytes:
        """Return the page, at most a second old."""
        with self._rendering:
            now = self._clock()
            if now - self._rendered > PAGE_MAX_AGE_S:
                self._page, self._rendered = generate_latest(self._registry), now
            return self._page

    def collect(self) -> Iterable[core.Metric]:
        return families(self._status())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection; pause first if clients exceed the rate limit."""
        if not self._limit.take(None, self._clock()):
            self._sleep(CONNECTION_INTERVAL_S)
            self._limit.take(None, self._clock())
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("metrics: a request of %s was not answered", client_address, exc_info=True)


def families(status: Status) -> Iterator[core.Metric]:
    yield core.InfoMetricFamily("softwalltime_build", "Version of the daemon", {"version": str(status.version)})
    policy = status.policy
    terms = {name: str(policy[name]) for name in ("preset", "mode", "waiting", "running", "minimum", "share")}
    terms |= {"ordering": policy["ordering"] or "", "rules": str(len(policy["rules"]))}
    yield core.InfoMetricFamily("softwalltime_policy", "Policy: preset, mode, predictors, minimum and share", terms)
    yield _gauge("ready", "Whether the history has been learnt", status.ready)
    yield _gauge("retention_refused", "Whether retention refuses to delete", status.retention != OK)
    yield _gauge("store_up", "Whether the store can be used", status.store == OK)
    if status.followed:
        yield _gauge("accounting_up", "Whether the accounting log can be read", status.accounting == OK)
    # Errors start at 0: for Prometheus, a counter that begins at 1 has not increased.
    requests = {"failed": 0, "refused": 0, "unusable": 0, **status.requests}
    operations = {(operation,): count for operation, count in requests.items()}
    yield _counter("requests", "Requests, by operation", operations, "operation")
    failures = {(failure.predictor, failure.step): failure.count for failure in status.failures}
    errors = "Errors of predictors since the history was loaded; the other predictors continue"
    yield _counter("predictor_errors", errors, failures, "predictor", "step")
    decisions = {(kind.event, kind.mode, kind.action): kind.count for kind in status.decisions}
    yield _counter("decisions", "Decisions about jobs", decisions, "event", "mode", "action")
    yield _histogram("softwalltime_answer_seconds", "Time for a response to the hook", status.answer_times)
    yield _histogram("softwalltime_exchange_seconds", "Duration of an exchange of the hook", status.exchange_times)
    if status.live.mode != "off":
        yield from _live(status.live)
    if status.starts.mode != "off":
        yield from _starts(status.starts)
    for field, (name, description) in COUNTERS.items():
        yield core.CounterMetricFamily(f"softwalltime_{name}", description, getattr(status, field))
    for field, (name, description) in GAUGES.items():
        yield _gauge(name, description, getattr(status, field))
    yield from _of_rows(QUALITY, status.week, "mode", "predictor")
    yield from _of_rows(WAITS, status.waits, "processors", "widest")


def _live(live: LiveStatus) -> Iterator[core.Metric]:
    yield _gauge("live_up", "Whether PBS's queue can be read and altered", not live.problem)
    guard = "Whether the top job is late, so that waiting jobs are planned with their walltimes"
    yield _gauge("guard_on", guard, bool(live.late_job))
    alters = {("altered",): live.altered, ("shadow",): live.shadowed, ("refused",): live.refused}
    yield _counter("live_alters", "Alters of waiting and running jobs", alters, "result")
    names = {"kept": "kept", "broken": "late", "withdrawn": "withdrawn"}
    outcomes = {(outcome,): live.promises.get(name, 0) for outcome, name in names.items()}
    yield _counter("promises", "Promised starts that were kept, broken or withdrawn", outcomes, "outcome")
    yield _gauge("promises_open", "Waiting jobs with a promised start", live.promises.get("open", 0))


def _starts(starts: StartsStatus) -> Iterator[core.Metric]:
    yield _gauge("starts_up", "Whether starts can be forecast and stored", not starts.problem)
    yield _gauge("starts_time_seconds", "Time of the last forecast", starts.taken)
    yield _gauge("starts_duration_seconds", "Duration of the last forecast", starts.seconds)
    yield _gauge("starts_judged_jobs", "Jobs whose judged forecasts correct the present ones", starts.judged)
    factor = "Mean width of the 90% ranges, divided by what it was before any correction"
    yield _gauge("starts_range_factor", factor, starts.range_factor)
    yield core.CounterMetricFamily("softwalltime_starts_shown", "Jobs altered to show their start", starts.shown)
    yield core.CounterMetricFamily("softwalltime_starts_refused", "Such alters that PBS refused", starts.refused)
    yield from _of_rows(QUEUE_STARTS, starts.queues, "queue")
    yield from _of_rows(START_QUALITY, starts.quality, "queue")


def _gauge(name: str, description: str, value: float) -> core.Metric:
    return core.GaugeMetricFamily(f"softwalltime_{name}", description, value)


def _counter(name: str, description: str, counts: Mapping[Any, int], *labels: str) -> core.Metric:
    """Return a counter with a value for each tuple of label values."""
    counter = core.CounterMetricFamily(f"softwalltime_{name}", description, labels=labels)
    for values, count in counts.items():
        counter.add_metric(values, count)
    return counter


def _of_rows(figures: Mapping[str, tuple[str, str]], rows: Iterable[object], *labels: str) -> Iterator[core.Metric]:
    """Yield a gauge for each field of ``figures``, with a value for each row that has one."""
    for field, (name, description) in figures.items():
        gauge = core.GaugeMetricFamily(f"softwalltime_{name}", description, labels=labels)
        for row in rows:
            if (value := getattr(row, field)) is not None:
                gauge.add_metric([_label(getattr(row, label)) for label in labels], value)
        yield gauge


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _histogram(name: str, description: str, times: Histogram) -> core.HistogramMetricFamily:
    bounds = [*(f"{bound / 1e6:g}" for bound in times.bounds_us), "+Inf"]
    buckets = list(zip(bounds, accumulate(times.counts), strict=True))
    return core.HistogramMetricFamily(name, description, buckets=buckets, sum_value=times.total_us / 1e6)


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server: MetricsEndpoint

    def handle(self) -> None:
        """Serve the connection for at most ``TIMEOUT``: a client that sends byte by byte never times out otherwise."""
        deadline = Timer(TIMEOUT, self._hang_up)
        deadline.daemon = True
        deadline.start()
        try:
            super().handle()
        finally:
            deadline.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

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
