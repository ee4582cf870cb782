"""How many small changes of the code no test notices, with a list of them.

Each mutation (see mutations.py) is made in a copy of the checkout, in which the tests then run until the first failure
(see mutation_server.py): those tests of the group that run the changed line, or all of them where the line runs at
import.  A mutation whose tests pass has survived: a test is missing, or the change has no effect.  A test that takes
5 s more than five times as long as without a mutation has failed.

Of the hook's mutations 250 are drawn at random, of the other groups all are made.  SOFTWALLTIME_BENCH_MUTATIONS is
another number for each group (0: all), SOFTWALLTIME_BENCH_SEED the seed of the draw.  SOFTWALLTIME_BENCH_GROUPS names
some of the groups, separated by commas.
SOFTWALLTIME_BENCH_ONLY keeps the mutations of lines that contain a text.  SOFTWALLTIME_BENCH_PROCESSES is the number
of processes (default 2, and no more than processors).
"""

import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from softwalltime.store.embedded.postgres_process import embedded_postgres
from tests.benchmarks import mutation_server
from tests.benchmarks.markdown import table
from tests.benchmarks.mutation_reasons import REASONS
from tests.benchmarks.mutation_server import RECORD
from tests.benchmarks.mutations import Mutation, mutations, recording
from tests.samples import ROOT

Run = Callable[..., tuple[int, list[Any]]]
"""Runs tests (their ids with the seconds that each takes; none: all); returns pytest's exit status and their lines."""
COPIED = ("daemon", "deploy", "hooks", "migrations", "sql", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")
MAX_SURVIVING_SHARE = 0.05
SEED = int(os.environ.get("SOFTWALLTIME_BENCH_SEED", 1))


@dataclass(frozen=True, slots=True)
class Group:
    """Sources, and the tests that must notice a change in them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    imported: bool = True
    """Whether the sources are modules; if not, tests read them as files."""
    sample: int = 0
    """Number of mutations to draw; 0: all."""


PREDICTORS = "daemon/softwalltime/predict/predictors"
GROUPS = {
    "accounting": Group(
        ("daemon/softwalltime/accounting/pbs_records.py", "daemon/softwalltime/accounting/fields.py"),
        tuple(f"tests/accounting/test_{name}.py" for name in ("pbs_records", "values", "shapes", "changes", "fuzz")),
    ),
    "policy": Group(("daemon/softwalltime/predict/policy/*.py",), ("tests/policy",)),
    "predictors": Group(
        tuple(f"{PREDICTORS}/{name}.py" for name in ("last2", "last_jobs", "like_jobs", "percentile", "usage")),
        ("tests/predictors/test_published.py", "tests/predictors/test_like_jobs.py"),
    ),
    "hook": Group(
        ("hooks/softwalltime_hook.py",), ("tests/hooks", "tests/security/test_hook.py"), imported=False, sample=250
    ),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file, by its path below the checkout."""

    file: str
    mutation: Mutation

    @property
    def reason(self) -> str:
        """Why no test can notice it, if that is known."""
        return REASONS.get((self.file, self.mutation.before, self.mutation.after), "")


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

    def server(self, group: Group, preload: list[str] | None = None) -> AbstractContextManager[Run]:
        """Start a process that runs tests of a group; without ``preload``, to find out which there are."""
        collected = not group.imported and preload is not None
        start = {"collected": collected, "preload": preload or [], "paths": group.tests}
        return serving(self.folder, start, {"SOFTWALLTIME_TEST_DSN": self._dsn})

    @contextmanager
    def changed(self, name: str, source: str) -> Iterator[None]:
        """Replace a file."""
        file = self.folder / name
        original = file.read_bytes()
        compiled = Path(cache_from_source(str(file)))
        try:
            file.write_text(source, encoding="utf-8")
            # A change within a second that keeps the size is no change for Python.
            compiled.unlink(missing_ok=True)
            yield
        finally:
            file.write_bytes(original)
            compiled.unlink(missing_ok=True)


@contextmanager
def serving(folder: Path, start: Mapping[str, object], environment: Mapping[str, str]) -> Iterator[Run]:
    """Start a process that runs tests in a folder (see mutation_server.py); yield a function to run some."""
    output, temporary = folder / "output.json", folder / "t"
    server = subprocess.Popen(
        [sys.executable, mutation_server.__file__],
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": f"{folder / 'daemon'}:{folder}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server, server.stdin as requests, server.stdout as answers:
        requests.write(json.dumps({**start, "options": [f"--basetemp={temporary}"]}) + "\n")

        def run(tests: Mapping[str, float], *, record: bool = False) -> tuple[int, list[Any]]:
            # pytest would delete the files of the last tests within the time limit of the first one.
            shutil.rmtree(temporary, ignore_errors=True)
            requests.write(json.dumps({"tests": tests, "record": record, "output": str(output)}) + "\n")
            requests.flush()
            status = json.loads(answers.readline())
            # The last lines may be a traceback of a test that was stopped.
            lines = output.read_text(encoding="utf-8").splitlines()
            return status, [json.loads(line) for line in lines if line.startswith("{")]

        yield run


@dataclass(slots=True)
class Coverage:
    """The tests of a group: how long each takes, and which lines it runs.

    A line that runs at import may matter to every test, in a file that tests execute to those that run another line.
    """

    imported: bool
    seconds: dict[str, float] = field(default_factory=dict)
    of_line: defaultdict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    at_import: set[tuple[str, int]] = field(default_factory=set)
    using_store: set[str] = field(default_factory=set)
    modules: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    """How many mutations each test has noticed."""

    def tests(self, mutant: Mutant) -> dict[str, float]:
        """Return the tests that may notice a mutation, those first that notice many in little time."""
        place = mutant.file, mutant.mutation.statement
        tests = self.of_line.get(place) if place not in self.at_import else None
        if not tests:
            tests = set(self.seconds) if self.imported else set().union(*self.of_line.values())

        def rank(test: str) -> tuple[bool, float]:
            return test in self.using_store, (self.seconds[test] + 0.001) / (1 + self.killed[test])

        return {test: self.seconds[test] for test in sorted(tests, key=rank)}


def main() -> None:
    """Print the survivors and a table; the exit status is 1 where more than 5% of a group survive."""
    names = os.environ.get("SOFTWALLTIME_BENCH_GROUPS", ",".join(GROUPS)).split(",")
    if unknown := set(names) - GROUPS.keys():
        sys.exit(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    processes = int(os.environ.get("SOFTWALLTIME_BENCH_PROCESSES", min(2, os.cpu_count() or 1)))
    rows = []
    failed = []
    # A short path: the tests make sockets below it.
    with (
        tempfile.TemporaryDirectory(prefix="swt") as scratch,
        embedded_postgres(Path(scratch) / "data", durable=False) as dsn,
    ):
        checkouts = [Checkout(Path(scratch) / str(number), dsn) for number in range(processes)]
        for name in names:
            total, drawn, survivors = _measure(GROUPS[name], checkouts)
            unexplained = sum(not mutant.reason for mutant in survivors)
            counts = total, len(drawn), len(drawn) - len(survivors), len(survivors), unexplained
            share = len(survivors) / len(drawn) if drawn else 0
            rows.append([name, *(f"{count:,}" for count in counts), f"{share:.1%}"])
            if share > MAX_SURVIVING_SHARE:
                failed.append(name)
    print()
    print(table(["group", "mutations", "run", "killed", "survived", "unexplained", "share"], rows), flush=True)
    if failed:
        sys.exit(f"more than {MAX_SURVIVING_SHARE:.0%} of the mutations survived: {', '.join(failed)}")


def _measure(group: Group, checkouts: list[Checkout]) -> tuple[int, list[Mutant], list[Mutant]]:
    """Return the number of mutations of a group, those that were run, and the survivors, which are printed."""
    coverage = _coverage(group, checkouts[0])
    known = _mutants(group, checkouts[0].folder)
    drawn = _sample(known, group.sample)
    if len(drawn) < len(known):
        print(f"{len(drawn):,} of {len(known):,} mutations, drawn with seed {SEED}:", flush=True)
    survivors = []
    with ExitStack() as stack:
        servers: queue.SimpleQueue[tuple[Checkout, Run]] = queue.SimpleQueue()
        for checkout in checkouts:
            servers.put((checkout, stack.enter_context(checkout.server(group, coverage.modules))))
        checkout, run = servers.get()
        status, lines = run(coverage.seconds)
        if status:
            sys.exit(f"{_last(lines)} fails without a mutation, alone or after others: mend it first")
        servers.put((checkout, run))

        def survives(mutant: Mutant) -> bool:
            checkout, run = servers.get()
            try:
                with checkout.changed(mutant.file, mutant.mutation.source):
                    status, lines = run(coverage.tests(mutant))
                if status == 0:
                    return True
                coverage.killed[_last(lines)] += 1
                return False
            finally:
                servers.put((checkout, run))

        pool = stack.enter_context(ThreadPoolExecutor(len(checkouts)))
        stack.callback(pool.shutdown, cancel_futures=True)
        for mutant, survived in zip(drawn, pool.map(survives, drawn), strict=True):
            if survived:
                survivors.append(mutant)
                change = mutant.mutation
                print(f"{mutant.file}:{change.line}: {mutant.reason or 'no reason is known'}")
                print(f"  - {change.before}\n  + {change.after}", flush=True)
    return len(known), drawn, survivors


def _coverage(group: Group, checkout: Checkout) -> Coverage:
    coverage = Coverage(group.imported)
    with checkout.server(group) as run:
        status, lines = run({})
        if status:
            sys.exit(f"{_last(lines)} fails without a mutation: mend it first")
        for line in lines:
            if test := line.get("test"):
                coverage.seconds[test] = line["seconds"]
                if line["store"]:
                    coverage.using_store.add(test)
            coverage.modules.extend(line.get("modules", ()))
        for file in _files(group, checkout.folder):
            source = (checkout.folder / file).read_text(encoding="utf-8")
            with checkout.changed(file, recording(source, RECORD)):
                lines = run({}, record=True)[1]
            for line in lines:
                for place in ((file, number) for number in line.get("lines", ())):
                    if line["test"]:
                        coverage.of_line[place].add(line["test"])
                    else:
                        coverage.at_import.add(place)
    return coverage


def _last(lines: list[Any]) -> str:
    """Return the last test that began."""
    return next((line["begin"] for line in reversed(lines) if "begin" in line), "the collection")


def _files(group: Group, folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for pattern in group.sources for file in folder.glob(pattern))


def _mutants(group: Group, folder: Path) -> list[Mutant]:
    wanted = os.environ.get("SOFTWALLTIME_BENCH_ONLY", "")
    return [
        Mutant(file, mutation)
        for file in _files(group, folder)
        for mutation in mutations((folder / file).read_text(encoding="utf-8"))
        if wanted in mutation.before
    ]


def _sample(mutants: list[Mutant], default: int) -> list[Mutant]:
    count = int(os.environ.get("SOFTWALLTIME_BENCH_MUTATIONS", default))
    if not count or count >= len(mutants):
        return mutants
    places = sorted(random.Random(SEED).sample(range(len(mutants)), count))
    return [mutants[place] for place in places]
