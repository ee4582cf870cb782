"""``softwalltime serve`` as in production: a process with its settings file, accounting logs and PostgreSQL."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from softwalltime.accounting.writer import end_record
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import State
from softwalltime.predict.policy.plan_file import toml_value
from softwalltime.service.protocol import NoAnswerError, ask
from softwalltime.service.status import OK, Status

READY_TIMEOUT_S = 120.0
"""Seconds without progress after which the daemon has failed."""
_LOOK = 0.02

OpenPostgres = Callable[[Path], AbstractContextManager[str]]
"""Runs a PostgreSQL in a folder and returns its DSN."""


class DaemonError(SoftwalltimeError):
    """The daemon of a replay has failed."""


class Daemon:
    """A daemon with the store ``dsn`` names; its socket, logs and output are in ``folder``.

    :param policy: values of the policy by their names.
    :param teaching: end states of the jobs to learn.
    """

    def __init__(self, folder: Path, dsn: str, policy: Mapping[str, object], teaching: Collection[State]) -> None:
        self.socket = folder / "hook.sock"
        self.accounting = folder / "accounting"
        self.accounting.mkdir()
        self.written = 0
        """Number of jobs in the logs that are learnt."""
        self._teaching = frozenset(teaching)
        self._config = folder / "softwalltime.toml"
        self._output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "dsn": dsn, "socket": str(self.socket), "accounting": str(self.accounting), "teaching": sorted(teaching),
        }  # fmt: skip
        lines = [f"{name} = {toml_value(value)}" for name, value in settings.items()]
        lines += ["[policy]", *(f"{name} = {toml_value(value)}" for name, value in policy.items())]
        self._config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def append(self, jobs: Sequence[CompletedJob]) -> None:
        """Write E records, as PBS does when jobs end, into the log of the day."""
        by_day: dict[str, list[str]] = {}
        for job in jobs:
            stamp = datetime.fromtimestamp(job.end, UTC)
            record = f"{stamp:%m/%d/%Y %H:%M:%S};E;{job.submission.job_id};{end_record(job)}\n"
            by_day.setdefault(f"{stamp:%Y%m%d}", []).append(record)
        for day, records in by_day.items():
            with (self.accounting / day).open("a", encoding="utf-8", errors="surrogateescape", newline="\n") as log:
                log.writelines(records)
        self.written += sum(job.state in self._teaching for job in jobs)

    def prepare(self) -> None:
        command = ("db", "upgrade", "--config", str(self._config))
        done = subprocess.run(  # noqa: S603 - our own command
            _command(*command), capture_output=True, text=True, check=False, env=_environment()
        )
        if done.returncode:
            raise DaemonError(f"softwalltime {' '.join(command)}: {done.stderr.strip()}")

    def start(self) -> None:
        """Start the daemon; wait until it answers and has learnt its history."""
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                _command("serve", "--config", str(self._config)), stdout=output, stderr=output, env=_environment()
            )
        self._until(lambda: (status := self.status()) is not None and status.ready, "is ready")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(READY_TIMEOUT_S)
            finally:
                self.kill()

    def status(self) -> Status | None:
        """Return the daemon's status; ``None`` while it does not answer."""
        try:
            return Status.from_json(ask(self.socket, {"op": "status"}))
        except NoAnswerError:
            return None

    def wait_for(self, teaching: int) -> None:
        """Wait until the daemon has that many jobs, learnt or queued until their end time.

        :raises DaemonError: if it has read a record as malformed, knows more jobs than there are, or makes no progress.
        """
        self._until(lambda: self._knows(teaching), f"knows {teaching:,} jobs")

    def _knows(self, teaching: int) -> bool:
        status = self.status()
        if status is None:
            return False
        known = status.learnt + status.from_the_future
        if status.malformed or known > self.written:
            raise DaemonError(
                f"the daemon has read {status.malformed:,} records as malformed and knows {known:,} jobs of "
                f"{self.written:,}: {self._last_words()}"
            )
        return status.ready and status.store == OK and known >= teaching

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline, before = time.monotonic() + READY_TIMEOUT_S, 0
        while not condition():
            if self.process is None or self.process.poll() is not None:
                raise DaemonError(f"the daemon has ended: {self._last_words()}")
            status = self.status()
            known = status.stored + status.learnt + status.from_the_future if status is not None else 0
            if known != before:
                deadline, before = time.monotonic() + READY_TIMEOUT_S, known
            if time.monotonic() > deadline:
                raise DaemonError(f"the daemon has not come to where it {what}: {status or self._last_words()}")
            time.sleep(_LOOK)

    def _last_words(self) -> str:
        return " ".join(self._output.read_text(encoding="utf-8", errors="replace").split())[-400:] or "it said nothing"


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "softwalltime", *arguments]


def _environment() -> dict[str, str]:
    """Return this environment without settings of the host's store and daemon, and without the hook's state."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SOFTWALLTIME_", "PSYCOPG_"))}


class LogWriter:
    """Write E records in portions, and wait until the daemon has read those up to the current virtual time.

    It is one portion ahead, so that the daemon reads while events are fired.

    :param ends: the jobs in the order of their ends.
    """

    def __init__(self, daemon: Daemon, ends: list[CompletedJob], portion: int) -> None:
        self._daemon = daemon
        self._ends = ends
        self._portion = portion
        self._known: list[tuple[int, int]] = []
        self._written = 0
        self.due: float = ends[0].end if ends else math.inf
        """The virtual time from which on the daemon must have read more records."""

    def write(self) -> None:
        some = self._ends[self._written : self._written + self._portion]
        if some:
            self._daemon.append(some)
            self._written += len(some)
            self._known.append((self._written, self._daemon.written))

    def reach(self, time: int) -> None:
        """Wait until the daemon has read all jobs that end by this time."""
        while self.due <= time:
            if not self._known:
                self.write()
            written, teaching = self._known.pop(0)
            self._daemon.wait_for(teaching)
            self.due = self._ends[written].end if written < len(self._ends) else math.inf
            if not self._known:
                self.write()
