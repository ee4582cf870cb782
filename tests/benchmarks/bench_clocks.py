"""The test suite at times of the day and of the year at which tests and programs fail more often than at others.

libfaketime shifts the clock of the tests, of all processes that they start, and of the embedded PostgreSQL by a fixed
number of seconds, and the clock goes on from there.  Timeouts use the monotonic clock, which is not shifted, and
neither are the times of files: tests that compare these with the clock see files that are years old.

libfaketime does not shift the clock within its calls that wait, and a signal handler that interrupts one sees the
unshifted time.  PostgreSQL's timeouts (SIGALRM) therefore never end a statement that waits, as in pg_sleep or for a
lock, if the clock is shifted to the future: the handler takes them for early.  They end a statement that computes.

SOFTWALLTIME_BENCH_CLOCKS names some of the clocks, separated by commas, SOFTWALLTIME_BENCH_TESTS files and folders of
tests in place of all tests, and SOFTWALLTIME_BENCH_PROCESSES the number of processes: with 0 none waits for another,
which costs a whole core under libfaketime.  The exit status is 1 if a test fails under a clock, 2 if libfaketime is
missing.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from softwalltime.store.embedded.programs import find_programs, server_account
from tests.benchmarks.markdown import table
from tests.samples import ROOT

LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
OUTPUT_LINES = 60
"""Last lines of pytest's output to print where a test failed."""
# libfaketime 0.9.10 subtracts the shift from the deadline of clock_nanosleep, also with DONT_FAKE_MONOTONIC.
SITECUSTOMIZE = """
import select, time

def sleep(seconds):
    select.select((), (), (), seconds)

time.sleep = sleep
"""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time at which a run of the tests begins, and the time zone of its processes."""

    name: str
    begin: str
    zone: str = "UTC"

    def offset(self, now: float) -> int:
        """Return the seconds from ``now`` to the begin."""
        return round(datetime.fromisoformat(self.begin).replace(tzinfo=UTC).timestamp() - now)


# The changes of summer time come two minutes after the begin.
CLOCKS = (
    Clock("after-midnight", "2027-05-12 00:05"),
    Clock("before-three", "2027-05-12 02:55"),
    Clock("before-midnight", "2027-05-12 23:58"),
    Clock("new-year", "2028-01-01 00:05"),
    Clock("1-january", "2028-01-01 12:00"),
    Clock("28-february", "2027-02-28 23:58"),
    Clock("29-february", "2028-02-29 00:05"),
    Clock("summer-time-berlin", "2027-03-28 00:58", "Europe/Berlin"),
    Clock("winter-time-berlin", "2027-10-31 00:58", "Europe/Berlin"),
    Clock("summer-time-new-york", "2027-03-14 06:58", "America/New_York"),
    Clock("winter-time-new-york", "2027-11-07 05:58", "America/New_York"),
)


def main() -> None:
    """Run the tests under each clock; print failed tests and a table."""
    library = next((path for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])), None)
    if library is None:
        print("libfaketime is missing: install the package libfaketime", file=sys.stderr)
        sys.exit(2)
    names = os.environ.get("SOFTWALLTIME_BENCH_CLOCKS", ",".join(clock.name for clock in CLOCKS)).split(",")
    if unknown := set(names) - {clock.name for clock in CLOCKS}:
        sys.exit(f"no clock is called {', '.join(unknown)}; there are {', '.join(clock.name for clock in CLOCKS)}")
    clocks = [clock for clock in CLOCKS if clock.name in names]
    tests = os.environ.get("SOFTWALLTIME_BENCH_TESTS", "tests").split()
    rows, failed = [], False
    for clock in clocks:
        run = _run(clock, library, tests)
        summary = run.stdout.rstrip().rpartition("\n")[2].strip("= ")
        failed |= run.returncode != 0
        if run.returncode:
            print("\n".join(run.stdout.splitlines()[-OUTPUT_LINES:]), run.stderr, flush=True)
        rows.append([clock.name, f"{clock.begin} UTC", clock.zone, re.sub(r" in .*", "", summary)])
        print(" | ".join(rows[-1]), flush=True)
    print()
    print(table(["clock", "begin", "TZ", " ".join(tests)], rows))
    if failed:
        sys.exit(1)


def _run(clock: Clock, library: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    shift = {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{clock.offset(time.time()):+d}",
        "DONT_FAKE_MONOTONIC": "1",
        "TZ": clock.zone,
    }
    processes = os.environ.get("SOFTWALLTIME_BENCH_PROCESSES", "auto")
    pytest = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--numprocesses={processes}", "--maxprocesses=4"]
    with _shifted_postgres(shift) as packages:
        return subprocess.run(
            [*pytest, "--dist=loadgroup", "--no-loadscope-reorder", *tests],
            env=os.environ | shift | {"PYTHONPATH": str(packages)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def _shifted_postgres(shift: dict[str, str]) -> Iterator[Path]:
    """Create a folder for PYTHONPATH with the package of the embedded PostgreSQL, whose programs run with ``shift``.

    The product starts these programs in a clean environment, which a preloaded library does not survive.
    """
    with tempfile.TemporaryDirectory(prefix="softwalltime-clock-", dir="/tmp") as folder:
        packages = Path(folder)
        packages.chmod(0o755)
        original = find_programs(server_account(packages / "none")).folder
        install = packages / original.parent.name / original.name
        (install / "bin").mkdir(parents=True)
        (install.parent / "__init__.py").touch()
        (packages / "sitecustomize.py").write_text(SITECUSTOMIZE)
        for part in original.iterdir():
            if part.name != "bin":
                (install / part.name).symlink_to(part)
        exports = "".join(f"export {name}={quote(value)}\n" for name, value in shift.items())
        for program in (original / "bin").iterdir():
            wrapper = install / "bin" / program.name
            wrapper.write_text(f'#!/bin/sh\n{exports}exec {quote(str(program))} "$@"\n')
            wrapper.chmod(0o755)
        yield packages
