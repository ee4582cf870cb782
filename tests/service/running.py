"""The daemon as in production: the command in a separate process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from softwalltime.accounting.writer import end_record
from softwalltime.core.jobs import CompletedJob
from softwalltime.service.protocol import NoAnswerError, ask

PATIENT = 120.0
"""Seconds after which a test fails: far longer than any step takes on a busy machine."""


def until(condition: Callable[[], object], seconds: float = PATIENT) -> None:
    """Wait until the condition is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


class Daemon:
    """``softwalltime serve`` in a test folder, with an accounting log and a settings file."""

    def __init__(self, folder: Path, dsn: str, policy: str = 'mode = "on"\nwaiting = "v1"\n') -> None:
        self.socket = folder / "hook.sock"
        self.accounting = folder / "accounting"
        self.accounting.mkdir(exist_ok=True)
        self.log = self.accounting / "20261120"
        self.log.touch()
        self.config = folder / "softwalltime.toml"
        self.dsn = dsn
        self.output = folder / "output"
        self.configure(policy)
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        self.prefix: tuple[str, ...] = ()
        """A command that runs the daemon's in its place."""
        self.program: tuple[str, ...] = ("-m", "softwalltime")
        """What Python runs."""

    def configure(self, policy: str) -> None:
        """Write the configuration file."""
        self.config.write_text(
            f'dsn = "{self.dsn}"\nsocket = "{self.socket}"\naccounting = "{self.accounting}"\n[policy]\n{policy}'
        )

    def start(self, *, ready: bool = True) -> "Daemon":
        """Start it and wait until it answers."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, *self.program, "serve", "--config", self.config],
                stderr=output,
                stdout=output,
                env={**os.environ, **self.environment},
            )
        until(lambda: self.answers() and (not ready or self.status()["ready"]))
        return self

    def answers(self) -> bool:
        """Whether the daemon answers."""
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        try:
            return bool(ask(self.socket, {"op": "ping"}, PATIENT))
        except NoAnswerError:
            return False

    def status(self) -> dict[str, Any]:
        """Return the daemon's status."""
        return ask(self.socket, {"op": "status"}, PATIENT)

    def predict(self, event: str = "queuejob", **job: object) -> dict[str, Any]:
        """Return the response to a request of the hook."""
        asked = {"op": "predict", "event": event, "job": {"user": "alice", "walltime": 3600, **job}}
        return ask(self.socket, asked, PATIENT)

    def explain(self, **job: object) -> dict[str, Any]:
        """Return the decision about such a job, with its reason."""
        asked = {"op": "explain", "event": "queuejob", "job": {"user": "alice", **job}}
        return ask(self.socket, asked, PATIENT)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the daemon; return its exit status."""
        self.send(number)
        assert self.process is not None
        return self.process.wait(PATIENT)

    def append(self, jobs: Iterable[CompletedJob]) -> None:
        """Write E records as PBS does."""
        with self.log.open("a") as log:
            for job in jobs:
                log.write(f"11/20/2026 10:16:10;E;{job.submission.job_id};{end_record(job)}\n")


def suspend_postgres(data: Path, number: signal.Signals) -> None:
    """Send a signal to every process of the PostgreSQL with this data folder."""
    postmaster = (data / "postmaster.pid").read_text().split()[0]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[1] == postmaster:
            os.kill(int(stat.parent.name), number)
    os.kill(int(postmaster), number)
