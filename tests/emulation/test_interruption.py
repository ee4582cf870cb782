"""``replay --through-hooks`` in a terminal that is closed: nothing of it is left running."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from pathlib import Path

import pytest

from softwalltime.accounting.writer import write_logs
from softwalltime.measure.workloads.synthetic import generate
from tests.service.running import until

pytestmark = pytest.mark.postgres

COMMAND = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from softwalltime.cli import main
main(sys.argv[1:])
"""
Process = subprocess.Popen[bytes]


def close_terminal(process: Process, terminal: int) -> None:
    os.close(terminal)


def hang_up_twice(process: Process, terminal: int) -> None:
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)


def press_ctrl_c(process: Process, terminal: int) -> None:
    os.write(terminal, b"\x03")


def terminate(process: Process, terminal: int) -> None:
    process.send_signal(signal.SIGTERM)


def folder_of_daemon(parent: int) -> Path | None:
    """The folder of the configuration file of the daemon that a replay has started."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            words = (process / "cmdline").read_text().split("\0")
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent and "serve" in words:
                return Path(words[words.index("--config") + 1]).parent
    return None


def processes_in(folder: Path) -> list[str]:
    """Command lines of the processes that name the folder or run in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_text()
            if str(folder) in words or (process / "cwd").readlink().is_relative_to(folder):
                found.append(words)
    return found


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More jobs than are replayed until a signal comes, on any machine."""
    folder = tmp_path_factory.mktemp("logs") / "accounting"
    write_logs(generate(8000, seed=1), folder, UTC)
    return folder


@pytest.mark.parametrize("end", [close_terminal, hang_up_twice, press_ctrl_c, terminate])
def test_an_interrupted_replay_stops_its_daemon_and_postgresql(logs: Path, end: Callable[[Process, int], None]) -> None:
    master, terminal = os.openpty()
    os.set_blocking(master, False)
    arguments = ["replay", str(logs), "--predictors", "v1", "--through-hooks"]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        output = b""

        def read() -> None:
            nonlocal output
            # A closed terminal has nothing to read.  An open one must be read: a full one blocks its writer.
            with suppress(OSError):
                output += os.read(master, 65536)

        def ended() -> bool:
            read()
            return process.poll() is not None

        def replaying() -> bool:
            read()
            assert process.poll() is None, output
            folder = folder_of_daemon(process.pid)
            # The first jobs have ended: their log is there.
            return folder is not None and any((folder / "accounting").iterdir())

        until(replaying)
        folder = folder_of_daemon(process.pid)
        assert folder is not None
        running = processes_in(folder)
        assert any("postgres" in words for words in running)
        end(process, master)
        try:
            until(ended)
        finally:
            process.kill()
        assert process.returncode == 1, output
    assert processes_in(folder) == []
    assert not folder.exists()
    if end is not close_terminal:
        os.close(master)
