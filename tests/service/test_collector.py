"""The garbage collector in the daemon: no collection of all objects delays an answer."""

import gc
import signal
import socket
from pathlib import Path

import pytest

from softwalltime.service.daemon import LOADING_GC_THRESHOLDS
from tests.service.running import PATIENT, Daemon

SPY = """
import gc, sys

def told(name):
    real = getattr(gc, name)
    def tell(*values):
        print("collector:", name, gc.get_freeze_count() > 0, *values, file=sys.stderr, flush=True)
        real(*values)
    setattr(gc, name, tell)

told("freeze")
told("set_threshold")
"""


@pytest.mark.postgres
def test_the_daemon_leaves_out_its_history_before_it_says_that_it_is_ready(tmp_path: Path, database: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(SPY)
    daemon = Daemon(tmp_path, database)
    daemon.environment = {"PYTHONPATH": str(tmp_path), "NOTIFY_SOCKET": str(tmp_path / "notify")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(daemon.environment["NOTIFY_SOCKET"])
        systemd.settimeout(PATIENT)
        try:
            # Who waits for readiness without receiving lets the queue of a few datagrams fill up, and the daemon waits.
            daemon.start(ready=False)
            while "READY=1" not in systemd.recv(1000).decode():
                pass
            told = [line for line in daemon.output.read_text().splitlines() if line.startswith("collector: ")]
            usual = " ".join(map(str, gc.get_threshold()))
            assert told == [
                "collector: freeze False",
                f"collector: set_threshold True {' '.join(map(str, LOADING_GC_THRESHOLDS))}",
                "collector: freeze True",
                f"collector: set_threshold True {usual}",
            ]
        finally:
            daemon.end(signal.SIGKILL)
