"""A daemon to be measured: started on a store, and ended afterwards."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from softwalltime.service.protocol import NoAnswerError, ask

PAUSE = 0.002
"""Seconds between an answer and the next question, so that asking takes little of the processors."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A daemon that has learnt its history: where it answers and writes, and what that took, in seconds and MB.

    ``answered`` is when it answered first, ``loading`` how long each answer took while it learnt, in seconds.
    """

    socket: Path
    output: Path
    start: float
    learnt: int
    megabytes: float
    answered: float
    loading: tuple[float, ...]


@contextmanager
def serving(folder: Path, dsn: str, policy: str, settings: str = "") -> Iterator[Serving]:
    """One that follows an accounting folder without jobs.

    :param policy: lines of the settings' [policy].
    :param settings: further lines of the settings.
    """
    path, accounting = folder / "hook.sock", folder / "accounting"
    accounting.mkdir(exist_ok=True)
    (accounting / "20240101").touch()
    config = folder / "softwalltime.toml"
    config.write_text(f'dsn = "{dsn}"\nsocket = "{path}"\naccounting = "{accounting}"\n{settings}[policy]\n{policy}')
    begin = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "softwalltime", "serve", "--config", str(config)], stdout=output, stderr=output
        )
    try:
        answered, loading = 0.0, []
        while True:
            asked = time.monotonic()
            ready = _ready(path)
            if ready is not None:
                now = time.monotonic()
                answered = answered or now - begin
                loading.append(now - asked)
            if ready:
                break
            time.sleep(PAUSE if answered else 0.05)
        start = time.monotonic() - begin
        learnt = ask(path, {"op": "status"})["learnt"]
        yield Serving(path, folder / "output", start, learnt, _megabytes(process.pid), answered, tuple(loading))
    finally:
        process.terminate()
        process.wait()


def _ready(path: Path) -> bool | None:
    """Whether it has learnt; none: it does not answer."""
    try:
        return bool(ask(path, {"op": "ping"})["ready"])
    except NoAnswerError:
        return None


def _megabytes(pid: int) -> float:
    """The largest memory that the process had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
