"""What the benchmarks run on: CEA-Curie where it is there, else a generated workload of as many jobs."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.workloads import TRACES

CURIE = TRACES / "CEA-Curie-2011-2.1-cln.swf.gz"
JOBS = 312_826


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished process: its output, wall-clock seconds, and the largest memory it had, in MB."""

    output: str
    seconds: float
    megabytes: float


def accounting_folder(folder: Path) -> tuple[str, Path]:
    """The workload as an accounting folder below ``folder``, with its name."""
    logs = folder / "accounting"
    if CURIE.exists():
        softwalltime("convert", CURIE, logs)
        return "CEA-Curie", logs
    softwalltime("generate", logs, "--jobs", str(JOBS), "--users", "582")
    return "generated", logs


def softwalltime(*arguments: str | Path) -> Finished:
    """Run the command in a process of its own and measure it as a whole."""
    # The wrapper reports its child's memory, so that this process's own does not count.
    wrapper = (
        "import resource, subprocess, sys; status = subprocess.call(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, file=sys.stderr); sys.exit(status)"
    )
    command = [sys.executable, "-c", wrapper, sys.executable, "-m", "softwalltime", *map(str, arguments)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{' '.join(command[5:])}: {done.stderr}")
    return Finished(done.stdout, seconds, float(done.stderr.split()[-1]))
