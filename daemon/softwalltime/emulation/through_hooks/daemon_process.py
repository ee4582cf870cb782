"""``softwalltime serve`` as in production: a process with its settings file, accounting logs and PostgreSQL."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from softwalltime.accounting.writer import record
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import State
from softwalltime.predict.policy.plan_file import toml_value
from softwalltime.service.protocol import NoAnswerError, ask
from softwalltime.service.status import OK, Status

READY_TIMEOUT_S = 120.0
"""Seconds without progress after which the daemon has failed."""
_LOOK = 0.02
_FOLLOWING = (
    "from softwalltime.service import worker; worker.POLL_INTERVAL_S = 0.005; from softwalltime.cli import main; main()"
)
"""What Python runs for a daemon that reads its log as often as it can, because virtual time does not wait."""

OpenPostgres = Callable[[Path], AbstractContextManager[str]]
"""Runs a PostgreSQL in a folder and returns its DSN."""


class DaemonError(SoftwalltimeError):
    """The daemon of a replay has failed."""


class Daemon:
    """A daemon with the store ``dsn`` names; its socket, logs and output are in ``folder``.

    :param policy: values of the policy by their names.
    :param teaching: end states of the jobs to learn.
    :param follows: whether it is to follow its log event by event, which keeps it busy all the time.
    """

    def __init__(
        self, folder: Path, dsn: str, policy: Mapping[str, object], teaching: Collection[State], *, follows: bool
    ) -> None:
        self.follows = follows
        self.socket = folder / "hook.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._accounting = folder / "accounting"
        self._accounting.mkdir()
        self._written = 0
        """Number of jobs in the logs that are learnt."""
        self._lines = 0
        """Number of lines that were written for the daemon to follow."""
        self._teaching = frozenset(teaching)
        self._config = folder / "softwalltime.toml"
        self._output = folder / "output"
        settings = {
            "dsn": dsn, "socket": str(self.socket), "accounting": str(self._accounting), "teaching": sorted(teaching),
        }  # fmt: skip
        lines = [f"{name} = {toml_value(value)}" for name, value in settings.items()]
        lines += ["[policy]", *(f"{name} = {toml_value(value)}" for name, value in policy.items())]
        self._config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def append(self, jobs: Sequence[CompletedJob]) -> None:
        """Write E records, as PBS does when jobs end, into the log of the day; in the order of their ends."""
        self._write(record(job, "E", job.end, UTC) for job in jobs)
        self._written += sum(job.state in self._teaching for job in jobs)

    def _write(self, records: Iterable[tuple[str, str]]) -> None:
        for day, some in groupby(records, itemgetter(0)):
            with (self._accounting / day).open("a", encoding="utf-8", errors="surrogateescape", newline="\n") as log:
                log.writelines(line for _, line in some)

    def follow(self, records: Sequence[tuple[str, str]]) -> None:
        """Write records, each with the day of its log, and wait until the predictors have observed them.

        :raises DaemonError: if the daemon makes no progress.
        """
        if not records:
            return
        self._write(records)
        self._lines += len(records)
        deadline, observed = time.monotonic() + READY_TIMEOUT_S, math.inf
        while (status := self._status()) is None or status.rounds < observed:
            if status is not None and status.lines == self._lines:
                # They were read in a round that may still have to learn them.
                observed = min(observed, status.rounds + 1)
            if time.monotonic() > deadline:
                raise DaemonError(f"the daemon makes no progress: {status or self._last_words()}")
            time.sleep(_LOOK / 10)

    def prepare(self) -> None:
        command = ("db", "upgrade", "--config", str(self._config))
        done = subprocess.run(  # noqa: S603 - our own command
            _command(*command), capture_output=True, text=True, check=False, env=_environment()
        )
        if done.returncode:
            raise DaemonError(f"softwalltime {' '.join(command)}: {done.stderr.strip()}")

    def start(self) -> None:
        """Start the daemon, and wait as in :meth:`wait`."""
        command = _command("serve", "--config", str(self._config))
        if self.follows:
            command[1:3] = "-c", _FOLLOWING
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdout=output, stderr=output, env=_environment()
            )
        self.wait()

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

    def wait(self) -> None:
        """Wait until the daemon answers and has every job of its logs, learnt or queued until its end time.

        :raises DaemonError: if it has ended, reads a record as malformed, has more jobs than there are, or makes no
            progress.
        """
        deadline, before = time.monotonic() + READY_TIMEOUT_S, -1
        while True:
            if self.process is None or self.process.poll() is not None:
                raise DaemonError(f"the daemon has ended: {self._last_words()}")
            status = self._status()
            if status is not None:
                jobs = status.learnt + status.from_the_future
                if status.malformed or jobs > self._written:
                    raise DaemonError(
                        f"the daemon has read {status.malformed:,} records as malformed and knows {jobs:,} jobs of "
                        f"{self._written:,}: {self._last_words()}"
                    )
                if status.ready and status.store == OK and jobs == self._written:
                    return
                if status.stored + jobs != before:
                    deadline, before = time.monotonic() + READY_TIMEOUT_S, status.stored + jobs
            if time.monotonic() > deadline:
                raise DaemonError(f"the daemon makes no progress: {status or self._last_words()}")
            time.sleep(_LOOK)

    def _status(self) -> Status | None:
        """Return the daemon's status; ``None`` while it does not answer."""
        try:
            return Status.from_json(ask(self.socket, {"op": "status"}))
        except NoAnswerError:
            return None

    def _last_words(self) -> str:
        return " ".join(self._output.read_text(encoding="utf-8", errors="replace").split())[-400:] or "it said nothing"


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "softwalltime", *arguments]


def _environment() -> dict[str, str]:
    """Return this environment without settings of the host's store and daemon, and without the hook's state."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SOFTWALLTIME_", "PSYCOPG_"))}
