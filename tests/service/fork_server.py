"""Start commands quickly for tests that kill them: ``python -m tests.service.fork_server`` imports their modules once.

Each line on standard input is a command's arguments as JSON.  The response is the id of a process that runs it with
small transactions, frequent polls and early worker processes; a kill then interrupts one of these.
SOFTWALLTIME_TEST_MIN_PARALLEL_BYTES is the number of bytes after which worker processes start.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from softwalltime.accounting import daily_files
from softwalltime.service import daemon, follow, ingest, reading, worker
from tests.samples import ROOT

LINES = 25
BLOCK = 16384
INTERVAL = 0.01
MIN_PARALLEL_BYTES = int(os.environ.get("SOFTWALLTIME_TEST_MIN_PARALLEL_BYTES", 1 << 20))


class ForkServer:
    """Client of the process, as a context manager."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors

    def __enter__(self) -> "ForkServer":
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.service.fork_server"],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        return self

    def start(self, *arguments: object) -> int:
        """Return the id of a new process that runs this command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(map(str, arguments))) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=300)


def main() -> None:
    """Fork a process for each line; kill all at the end of the input."""
    from softwalltime.cli import main as run

    assert daemon
    ingest.MAX_BATCH_LINES, daily_files.BLOCK_BYTES = LINES, BLOCK
    reading.MIN_PARALLEL_BYTES = MIN_PARALLEL_BYTES
    follow.POLL_INTERVAL_S = worker.POLL_INTERVAL_S = INTERVAL
    follow.FIRST_RETRY_PAUSE_S = 0.1
    follow.CHECK_INTERVAL_S = 0.5
    # No parent waits for the killed processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children: list[int] = []
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            os.dup2(2, 1)
            run(json.loads(line))
        children.append(child)
        print(child, flush=True)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
