"""How many small changes of the code no test notices, with a list of them.

Each mutation (see mutations.py) is made in a copy of the checkout, in which the tests of its group then run until the
first failure.  A mutation whose tests pass has survived: a test is missing, or the change has no effect.  Tests that
take five times as long as without a mutation, and 20 s more, are stopped, and count as failed.

SOFTWALLTIME_BENCH_MUTATIONS is the number of mutations of each group, drawn at random (0: all; default 60),
SOFTWALLTIME_BENCH_SEED the seed of the draw, SOFTWALLTIME_BENCH_GROUPS names some of the groups, separated by commas.
SOFTWALLTIME_BENCH_ONLY keeps the mutations of lines that contain a text.
"""

import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from softwalltime.store.embedded.server import embedded_postgres
from softwalltime.text_table import table
from tests.benchmarks.mutations import Mutation, mutations
from tests.samples import ROOT

COPIED = ("daemon", "deploy", "hooks", "migrations", "sql", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")


@dataclass(frozen=True, slots=True)
class Group:
    """Sources, and the tests that must notice a change in them, fast ones first."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


PREDICTORS = "daemon/softwalltime/predictors"
GROUPS = {
    "policy": Group(("daemon/softwalltime/policy/*.py",), ("tests/policy",)),
    "predictors": Group(
        tuple(f"{PREDICTORS}/{name}.py" for name in ("last2", "last_jobs", "like_jobs", "percentile", "usage")),
        ("tests/predictors/test_published.py", "tests/predictors/test_like_jobs.py"),
    ),
    "accounting": Group(
        ("daemon/softwalltime/accounting/pbs.py",),
        ("tests/accounting/test_pbs.py", "tests/accounting/test_values.py", "tests/accounting/test_shapes.py"),
    ),
    "hook": Group(("hooks/*.py",), ("tests/hooks", "tests/security")),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file, by its path below the checkout."""

    file: str
    mutation: Mutation


class Checkout:
    """A copy of the checkout in which tests run."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self._dsn = dsn
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)

    def passes(self, tests: tuple[str, ...], timeout: float) -> bool:
        """Return whether the tests pass within ``timeout`` seconds."""
        environment = {"PYTHONPATH": str(self.folder / "daemon"), "SOFTWALLTIME_TEST_DSN": self._dsn}
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
            cwd=self.folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return run.wait(timeout) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()

    def survives(self, mutant: Mutant, tests: tuple[str, ...], timeout: float) -> bool:
        """Return whether the tests pass with a mutation."""
        file = self.folder / mutant.file
        original = file.read_bytes()
        compiled = Path(cache_from_source(str(file)))
        try:
            file.write_text(mutant.mutation.source, encoding="utf-8")
            # A change within a second that keeps the size is no change for Python.
            compiled.unlink(missing_ok=True)
            return self.passes(tests, timeout)
        finally:
            file.write_bytes(original)
            compiled.unlink(missing_ok=True)


def main() -> None:
    """Print the survivors and a table; the exit status is 1 if tests fail without a mutation."""
    names = os.environ.get("SOFTWALLTIME_BENCH_GROUPS", ",".join(GROUPS)).split(",")
    if unknown := set(names) - GROUPS.keys():
        sys.exit(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    rows = []
    with tempfile.TemporaryDirectory() as scratch, embedded_postgres(Path(scratch) / "data", durable=False) as dsn:
        checkouts: queue.SimpleQueue[Checkout] = queue.SimpleQueue()
        processes = min(4, os.cpu_count() or 1)
        for number in range(processes):
            checkouts.put(Checkout(Path(scratch) / str(number), dsn))
        with ThreadPoolExecutor(processes) as pool:
            rows.extend([name, *_measure(GROUPS[name], checkouts, pool)] for name in names)
    print()
    print(table(["group", "mutations", "run", "survived", "share"], rows))


def _measure(group: Group, checkouts: "queue.SimpleQueue[Checkout]", pool: ThreadPoolExecutor) -> list[str]:
    checkout = checkouts.get()
    begin = time.monotonic()
    if not checkout.passes(group.tests, 3600):
        sys.exit(f"{' '.join(group.tests)} fail without a mutation: mend them first")
    timeout = 5 * (time.monotonic() - begin) + 20
    checkouts.put(checkout)
    known = _mutants(group)
    chosen = _sample(known)

    def survives(mutant: Mutant) -> bool:
        checkout = checkouts.get()
        try:
            return checkout.survives(mutant, group.tests, timeout)
        finally:
            checkouts.put(checkout)

    survivors = 0
    for mutant, survived in zip(chosen, pool.map(survives, chosen), strict=True):
        if survived:
            survivors += 1
            change = mutant.mutation
            print(f"{mutant.file}:{change.line}\n  - {change.before}\n  + {change.after}", flush=True)
    share = f"{survivors / len(chosen):.1%}" if chosen else ""
    return [f"{len(known):,}", f"{len(chosen):,}", f"{survivors:,}", share]


def _mutants(group: Group) -> list[Mutant]:
    wanted = os.environ.get("SOFTWALLTIME_BENCH_ONLY", "")
    files = sorted(file for pattern in group.sources for file in ROOT.glob(pattern))
    return [
        Mutant(str(file.relative_to(ROOT)), mutation)
        for file in files
        for mutation in mutations(file.read_text(encoding="utf-8"))
        if wanted in mutation.before
    ]


def _sample(mutants: list[Mutant]) -> list[Mutant]:
    count = int(os.environ.get("SOFTWALLTIME_BENCH_MUTATIONS", "60"))
    if not count or count >= len(mutants):
        return mutants
    draw = random.Random(int(os.environ.get("SOFTWALLTIME_BENCH_SEED", "1")))
    places = sorted(draw.sample(range(len(mutants)), count))
    return [mutants[place] for place in places]
