"""Input of the benchmarks: CEA-Curie if available, else a synthetic workload of the same size; and a store."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from softwalltime.store.migrations import upgrade
from tests.traces import TRACES

CURIE = TRACES / "CEA-Curie-2011-2.1-cln.swf.gz"
JOBS = 312_826


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished process: its output, wall-clock seconds, the largest memory it had in MB, and processor seconds."""

    output: str
    seconds: float
    megabytes: float
    processor_seconds: float


def accounting_folder(folder: Path) -> tuple[str, Path]:
    """The workload as an accounting folder below ``folder``, with its name."""
    logs = folder / "accounting"
    if CURIE.exists():
        softwalltime("convert", CURIE, logs)
        return "CEA-Curie", logs
    softwalltime("generate", logs, "--jobs", str(JOBS), "--users", "582")
    return "generated", logs


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, for a store and all that belongs to it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        # If this runs as root, PostgreSQL's unprivileged user must reach it.
        folder.chmod(0o755)
        yield folder


@contextmanager
def empty_store(folder: Path, *, durable: bool = False) -> Iterator[tuple[str, Engine]]:
    """A PostgreSQL below ``folder`` with all tables: its DSN, and an engine.

    :param durable: whether it writes to disk as in production, which only a benchmark of writing needs.
    """
    with embedded_postgres(folder / "data", durable=durable) as dsn:
        engine = connect(dsn)
        upgrade(engine)
        try:
            yield dsn, engine
        finally:
            engine.dispose()


def softwalltime(*arguments: str | Path) -> Finished:
    """Run the command in a process of its own and measure it as a whole."""
    # The wrapper reports its child's memory, so that this process's own does not count.
    wrapper = (
        "import resource, subprocess, sys; status = subprocess.call(sys.argv[1:]);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, file=sys.stderr); sys.exit(status)"
    )
    command = [sys.executable, "-c", wrapper, sys.executable, "-m", "softwalltime", *map(str, arguments)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{' '.join(command[5:])}: {done.stderr}")
    return Finished(done.stdout, seconds, *map(float, done.stderr.split()[-2:]))
