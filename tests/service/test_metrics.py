"""The metrics for Prometheus, and that scrapes do not delay the hook's answers."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from softwalltime.core.errors import UsageError
from softwalltime.core.jobs import DecisionRecord
from softwalltime.core.settings import load_settings
from softwalltime.service import metrics
from softwalltime.service.metrics import CONNECTION_BURST, CONNECTION_INTERVAL_S, PAGE_MAX_AGE_S, MetricsEndpoint
from softwalltime.service.protocol import ask
from softwalltime.service.status import BOUNDS, Histogram, RequestMetrics, Status
from tests.samples import job
from tests.service.running import PATIENT, Daemon, until
from tests.service.statuses import new_status


def decision(took: int = 100, timeouts: int = 0, exchange: int | None = None, action: str = "set") -> DecisionRecord:
    return DecisionRecord(
        0, "postqueuejob", job().submission, "on", "v1", 1.0, 60, action, "", took, timeouts, exchange
    )  # fmt: skip


def scrape(address: tuple[str, int]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENT)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    page = answer.read().decode()
    connection.close()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.fixture
def start(tmp_path: Path, database: str) -> Iterator[Callable[..., tuple[Daemon, tuple[str, int]]]]:
    """Start a daemon with metrics; return their address."""
    daemons = []

    def begin(settings: str = "") -> tuple[Daemon, tuple[str, int]]:
        daemon = Daemon(tmp_path, database)
        top, _, policy = daemon.config.read_text().partition("[policy]")
        daemon.config.write_text(f'{top}metrics = "127.0.0.1:0"\n{settings}\n[policy]{policy}')
        daemons.append(daemon.start())
        # Port 0: the daemon logs the port that it uses.
        told = "metrics at http://127.0.0.1:"
        until(lambda: "/metrics" in daemon.output.read_text().partition(told)[2])
        return daemon, ("127.0.0.1", int(daemon.output.read_text().partition(told)[2].partition("/")[0]))

    yield begin
    for daemon in daemons:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end()


@pytest.mark.postgres
def test_metrics_of_a_daemon(start: Callable[..., tuple[Daemon, tuple[str, int]]]) -> None:
    now = int(time.time())
    daemon, address = start("refresh_seconds = 1")
    daemon.append(
        [job(job_id=f"{n}.srv", submitted=now - 900, end=now - 60 * n, runtime=600, walltime=3600) for n in (1, 2)]
    )
    with daemon.log.open("a") as log:
        log.write("rubbish\n")
    until(lambda: daemon.status()["learnt"] == 2 and daemon.status()["malformed"] == 1)
    asked = {"op": "predict", "event": "postqueuejob", "job": {"user": "alice", "walltime": 3600, "job_id": "9.srv"}}
    assert ask(daemon.socket, {**asked, "timeouts": 4, "previous_us": 700}, PATIENT)["soft_walltime"] == 600
    daemon.predict("runjob", job_id="9.srv")
    daemon.predict("postqueuejob", job_id="10.srv", user="bob")
    # The page may be one second old.
    until(lambda: value(scrape(address), "softwalltime_answer_seconds_count") == 3)
    samples = scrape(address)
    event = {"event": "postqueuejob", "mode": "on"}
    assert value(samples, "softwalltime_decisions_total", **event, action="set") == 1
    assert value(samples, "softwalltime_decisions_total", **event, action="none") == 1
    assert value(samples, "softwalltime_requests_total", operation="predict") == 3
    for nothing_yet in ("failed", "refused"):
        assert value(samples, "softwalltime_requests_total", operation=nothing_yet) == 0
    assert value(samples, "softwalltime_answer_seconds_count") == 3
    assert value(samples, "softwalltime_answer_seconds_bucket", le="+Inf") == 3
    assert 0 < value(samples, "softwalltime_answer_seconds_sum") < PATIENT
    assert value(samples, "softwalltime_exchange_seconds_count") == 1
    assert value(samples, "softwalltime_exchange_seconds_sum") == pytest.approx(0.0007)
    assert value(samples, "softwalltime_hook_timeouts_total") == 4
    assert value(samples, "softwalltime_ready") == value(samples, "softwalltime_store_up") == 1
    assert value(samples, "softwalltime_accounting_up") == 1
    assert value(samples, "softwalltime_malformed_lines_total") == 1
    assert value(samples, "softwalltime_jobs_learnt") == 2
    assert now <= value(samples, "softwalltime_start_time_seconds") <= time.time()
    policies = [dict(labels) for name, labels in samples if name == "softwalltime_policy_info"]
    assert policies == [
        {
            "preset": "custom", "mode": "on", "waiting": "v1", "running": "walltime", "ordering": "", "minimum": "60",
            "share": "1.0", "rules": "0",
        }
    ]  # fmt: skip
    until(lambda: scrape(address)["softwalltime_figures_refreshed_seconds", frozenset()] > 0)
    for _, labels in samples:
        assert not {"user", "user_name", "project", "job_id", "queue"} & dict(labels).keys()
        assert not {"alice", "bob", "9.srv"} & set(dict(labels).values())


@pytest.mark.postgres
def test_metrics_of_the_last_week_by_predictor(start: Callable[..., tuple[Daemon, tuple[str, int]]]) -> None:
    daemon, address = start("refresh_seconds = 1")
    now = int(time.time())
    daemon.append([job(job_id="1.srv", submitted=now - 900, end=now - 60, runtime=600, walltime=3600)])
    until(lambda: daemon.status()["learnt"] == 1)
    daemon.predict("postqueuejob", job_id="9.srv", now=now)
    daemon.append(
        [job(job_id="9.srv", submitted=now, end=now + 1, runtime=1, walltime=3600, start=int(time.time()) + 1)]
    )
    until(lambda: daemon.status()["stored"] == 2)
    until(lambda: daemon.status()["week"])
    until(lambda: any(name == "softwalltime_week_accuracy_ratio" for name, _ in scrape(address)))
    samples = scrape(address)
    assert value(samples, "softwalltime_week_jobs", mode="on", predictor="v1") == 1
    assert value(samples, "softwalltime_week_accuracy_ratio", mode="on", predictor="v1") == pytest.approx(1 / 600)
    of_walltimes = value(samples, "softwalltime_week_request_accuracy_ratio", mode="on", predictor="v1")
    assert of_walltimes == pytest.approx(1 / 3600)
    assert value(samples, "softwalltime_week_underestimated_ratio", mode="on", predictor="v1") == 0


@pytest.mark.postgres
def test_a_port_in_use_is_logged_and_stops_no_prediction(tmp_path: Path, database: str) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        daemon = Daemon(tmp_path, database)
        top, _, policy = daemon.config.read_text().partition("[policy]")
        daemon.config.write_text(f'{top}metrics = "127.0.0.1:{used.getsockname()[1]}"\n[policy]{policy}')
        daemon.start()
        try:
            assert "error" not in daemon.predict()
        finally:
            assert daemon.end() == 0
    assert "metrics: cannot listen at 127.0.0.1:" in daemon.output.read_text()


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    asked = MetricsEndpoint(("127.0.0.1", 0), new_status)
    asked.start()
    yield asked
    asked.close()


def test_a_problem_is_0_and_an_unused_metric_is_absent(endpoint: MetricsEndpoint) -> None:
    samples = scrape(endpoint.address)
    assert value(samples, "softwalltime_ready") == value(samples, "softwalltime_store_up") == 0
    assert not [name for name, _ in samples if name == "softwalltime_accounting_up"]


def test_only_the_metrics_are_served(endpoint: MetricsEndpoint) -> None:
    for method, path, status in (("GET", "/", 404), ("GET", "/metrics/../etc/passwd", 404), ("POST", "/metrics", 501)):
        connection = http.client.HTTPConnection(*endpoint.address, timeout=PATIENT)
        connection.request(method, path)
        assert connection.getresponse().status == status
        connection.close()


def test_a_page_is_rendered_once_a_second_and_a_client_without_pause_is_slowed_down() -> None:
    now = [1000.0]
    rendered: list[float] = []
    slept: list[float] = []

    def status() -> Status:
        rendered.append(now[0])
        return new_status()

    endpoint = MetricsEndpoint(("127.0.0.1", 0), status, lambda: now[0], slept.append)
    endpoint.start()
    try:
        for _ in range(CONNECTION_BURST + 10):
            scrape(endpoint.address)
        assert rendered == [1000.0]
        assert slept == [CONNECTION_INTERVAL_S] * 10
        now[0] += PAGE_MAX_AGE_S + CONNECTION_INTERVAL_S
        scrape(endpoint.address)
        assert rendered == [1000.0, now[0]]
        assert len(slept) == 10
    finally:
        endpoint.close()


def test_silent_clients_delay_no_scrape(endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a timeout a scrape that waits for a silent client waits until the test fails.
    monkeypatch.setattr(metrics, "TIMEOUT", 10 * PATIENT)
    monkeypatch.setattr(metrics._Handler, "timeout", 10 * PATIENT)
    silent = [socket.create_connection(endpoint.address) for _ in range(CONNECTION_BURST + 5)]
    scrape(endpoint.address)
    for client in silent:
        client.close()


def test_a_silent_client_is_disconnected(endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TIMEOUT", 0.1)
    with socket.create_connection(endpoint.address, timeout=PATIENT) as silent:
        assert silent.recv(1) == b""


def test_a_client_that_sends_byte_by_byte_is_disconnected(
    endpoint: MetricsEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "TIMEOUT", 0.5)
    with socket.create_connection(endpoint.address) as slow, suppress(OSError):
        deadline = time.monotonic() + PATIENT
        while time.monotonic() < deadline:
            slow.send(b"G")
            time.sleep(0.05)
        pytest.fail("it may send for ever")


def test_ipv6_addresses_work() -> None:
    try:
        endpoint = MetricsEndpoint(("::1", 0), new_status)
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")
    endpoint.start()
    try:
        assert value(scrape(endpoint.address), "softwalltime_ready") == 0
    finally:
        endpoint.close()


def test_durations_are_counted_in_buckets() -> None:
    metrics = RequestMetrics()
    for took in (0, 25, 26, 75, 10**9):
        metrics.add(decision(took, exchange=took))
    metrics.add(decision(30))
    counts = metrics.answers.counts
    assert (counts[0], counts[1], counts[2], counts[-1], sum(counts)) == (2, 2, 1, 1, 6)
    assert (sum(metrics.exchanges.counts), metrics.exchanges.total_us) == (5, 126 + 10**9)
    assert metrics.answers.copy().bounds_us == BOUNDS


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([0, 0], 0), ([0, 3, 0], 3), ([0, 2, 2, 0], 4), ([0, 1, 2, 3, 0], 3), ([3, 1], 4), ([5], 5),
    ],
)  # fmt: skip
def test_timeouts_that_are_reported_again_are_counted_once(told: list[int], expected: int) -> None:
    metrics = RequestMetrics()
    for count in told:
        metrics.add(decision(timeouts=count))
    assert metrics.timeouts == expected


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [([0, 0, 0], 0.5, None), ([4, 4, 0], 0.5, 10), ([4, 4, 0], 0.75, 15), ([0, 0, 4], 0.99, 20)],
)
def test_percentiles_from_buckets(counts: list[int], share: float, expected: float | None) -> None:
    assert Histogram([10, 20], counts, 0).percentile(share) == expected


@pytest.mark.parametrize("address", ["9105", "localhost:", ":9105", "localhost:x", "localhost:70000"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"metrics: .*must be host and port"):
        load_settings(metrics=address)


def test_an_address_is_split_into_host_and_port() -> None:
    assert load_settings().metrics_address is None
    assert load_settings(metrics="127.0.0.1:9105").metrics_address == ("127.0.0.1", 9105)
    assert load_settings(metrics="[::1]:0").metrics_address == ("::1", 0)


@pytest.mark.postgres
def test_a_failed_refresh_does_not_stop_the_worker(
    start: Callable[..., tuple[Daemon, tuple[str, int]]], engine: Engine
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE softwalltime.daily_hook RENAME TO gone")
    daemon, address = start("refresh_seconds = 1")
    now = int(time.time())
    daemon.predict("postqueuejob", job_id="1.srv")
    until(lambda: "monitoring figures cannot be refreshed" in daemon.output.read_text())
    daemon.append([job(job_id=f"{n}.srv", submitted=now - 900, end=now - 60, runtime=600) for n in (1, 2)])
    until(lambda: daemon.status()["learnt"] == 2)
    assert daemon.status()["store"] == "ok"
    assert value(scrape(address), "softwalltime_figures_refreshed_seconds") == 0
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE softwalltime.gone RENAME TO daily_hook")
    until(lambda: daemon.status()["refreshed"] > 0)
    assert "Traceback" not in daemon.output.read_text()
