"""The daemon under load: floods of requests and of signals."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.samples import ROOT
from tests.service.running import PATIENT, Daemon, until

CLIENTS = 64
FLOOD = 60.0
"""Seconds after which a flood ends by itself, long after the test has ended it."""

pytestmark = pytest.mark.postgres


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, database)
    daemon.environment["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


@pytest.fixture
def watchdog(daemon: Daemon) -> Iterator[Iterator[str]]:
    """The watchdog notifications of the daemon, about one a second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(daemon.environment["NOTIFY_SOCKET"])
        systemd.settimeout(PATIENT)
        daemon.start()
        yield (state for state in iter(lambda: systemd.recv(1000).decode(), "") if "WATCHDOG=1" in state)


@pytest.fixture
def flood(daemon: Daemon, watchdog: Iterator[str]) -> Iterator[subprocess.Popen[str]]:
    """64 clients that send requests without pause."""
    command = [sys.executable, "-m", "tests.service.flood", str(daemon.socket), str(CLIENTS), str(FLOOD)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_flood_delays_neither_the_watchdog_nor_learning_nor_the_end(
    daemon: Daemon, flood: subprocess.Popen[str], watchdog: Iterator[str]
) -> None:
    # The first may have been sent before the flood.
    for _ in range(4):
        assert next(watchdog)
    with daemon.log.open("a") as log:
        log.write("malformed\n")
    until(lambda: daemon.status()["malformed"] == 1 and daemon.status()["recorded"] > 0)
    assert daemon.end() == 0
    assert flood.wait(PATIENT) == 0, "the daemon ended before the flood did"


def test_many_sighups_are_one_reload(daemon: Daemon, watchdog: Iterator[str]) -> None:
    for _ in range(100):
        daemon.send(signal.SIGHUP)
        assert daemon.answers()
    until(lambda: "reloaded: " in daemon.output.read_text())
    assert next(watchdog)
    reloads = daemon.output.read_text().count("reloaded: ")
    for _ in range(3):
        assert next(watchdog)
    assert daemon.output.read_text().count("reloaded: ") <= reloads + 1, "none is left over"
