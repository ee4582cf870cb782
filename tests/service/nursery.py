"""Fork commands quickly, to be killed: ``python -m tests.service.nursery`` imports all of them once.

Each line on its standard input holds a command's arguments, as JSON; it answers with the number of a process that runs
it, with small transactions, frequent polls and early worker processes, so that a kill always interrupts something.
SOFTWALLTIME_TEST_LEAST says after how many bytes those come.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from softwalltime.accounting import files
from softwalltime.service import daemon, follow, ingest, parsing, worker
from tests.samples import ROOT

LINES = 25
BLOCK = 16384
INTERVAL = 0.01
LEAST = int(os.environ.get("SOFTWALLTIME_TEST_LEAST", 1 << 20))


class Nursery:
    """Such a process, as the one that kills sees it; a context manager."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors

    def __enter__(self) -> "Nursery":
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.service.nursery"],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        return self

    def start(self, *arguments: object) -> int:
        """The number of a new process that runs this command."""
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
    """Fork a process for each line; end all at the end of the input."""
    from softwalltime.cli import main as run

    assert daemon
    ingest.LINES, files.BLOCK = LINES, BLOCK
    parsing.LEAST = LEAST
    follow.INTERVAL = worker.INTERVAL = INTERVAL
    # Nobody waits for those that were killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    born: list[int] = []
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            os.dup2(2, 1)
            run(json.loads(line))
        born.append(number)
        print(number, flush=True)
    for number in born:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
