"""One log on several processes, and on paper on 200 workers: a sweep of four million jobs.

On paper each task of a log of a hundred million jobs takes as long as the last span here, and goes to the first worker
that is free; what the command itself does before is added.
"""

import heapq
import tempfile
import time
from collections.abc import Iterable
from itertools import repeat as repeated
from pathlib import Path

from softwalltime.cli.sweep import GRID
from softwalltime.core.states import TEACHING
from softwalltime.measure.replay.accuracy_metrics import WARM_UP_SHARE, scored_range
from softwalltime.measure.replay.parquet import ParquetWorkload
from softwalltime.measure.replay.sweep.grid import expand_all
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.sweep.pieces import TrialPiece, run_piece
from softwalltime.measure.replay.sweep.spans import spans_of
from softwalltime.measure.replay.sweep.trial import Part, TrialTask
from softwalltime.measure.replay.workload import Scoring
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.bench_large import repeat
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import softwalltime

ONCE, JOBS, ON_PAPER = 400_000, 4_000_000, 100_000_000
WORKERS = (1, 20, 200)
PROCESSES = (1, 2, 8)
"""Eight are more than predictors, which divides them."""
MEASURED = "v1,v3,percentile:keys=user|project"
SLOWEST = "calibrated"


def main() -> None:
    """Measure a sweep on some processes, and a task of each predictor; print both tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        softwalltime("generate", folder / "logs", "--jobs", str(ONCE), "--users", "1000")
        softwalltime("export", folder / "logs", "-o", folder / "once.parquet")
        log = folder / "log.parquet"
        repeat(folder / "once.parquet", log, JOBS)
        print(_on_processes(folder, log), flush=True)
        print(f"\n{_on_paper(folder, log)}", flush=True)


def _on_processes(folder: Path, log: Path) -> str:
    rows, found = [], set[str]()
    for processes in PROCESSES:
        results = folder / "results.csv"
        done = softwalltime("sweep", log, "-o", results, "--predictors", MEASURED, "--processes", str(processes))
        lines = (line.split(",") for line in results.read_text().splitlines())
        # The last columns are the seconds and the version.
        found.add("\n".join(",".join(line[:-2]) for line in sorted(lines)))
        rows.append([str(processes), f"{done.seconds:.0f}", f"{done.megabytes:,.0f}"])
    assert len(found) == 1
    return table([f"processes, {JOBS:,} jobs", "seconds", "MB of the largest"], rows)


def _on_paper(folder: Path, log: Path) -> str:
    specs = expand_all(["request", *GRID])
    workload = ParquetWorkload(log, None, TEACHING, Scoring())
    begin = time.perf_counter()
    snapshot = take(workload, folder / "jobs.parquet")
    spans = spans_of(snapshot.path, TEACHING, {make(spec).history for spec in (*specs, SLOWEST)})
    ranges = tuple(scored_range(workload, *part) for part in (Part(), Part(WARM_UP_SHARE)))
    serial = (time.perf_counter() - begin) * ON_PAPER / JOBS
    seconds = {}
    for spec in (*specs, SLOWEST):
        task = TrialTask("", snapshot, spec, (Part(), Part(WARM_UP_SHARE)), 60)
        begin = time.perf_counter()
        figures = run_piece(TrialPiece(task, spans[make(spec).history][-2], ranges))
        assert not figures.failure
        seconds[spec] = time.perf_counter() - begin
    pieces = -(-ON_PAPER // spans[make(specs[0]).history][0].jobs)
    rows = []
    for what, grid in (("sweep's grid", specs), (SLOWEST, [SLOWEST])):
        tasks = [each for spec in grid for each in repeated(seconds[spec], pieces)]
        for workers in WORKERS:
            end = ended(tasks, workers)
            rows.append([
                what, str(workers), f"{len(tasks):,}", f"{max(tasks):.0f}", f"{serial + end:,.0f}",
                f"{1 - sum(tasks) / workers / end:.0%}",
            ])  # fmt: skip
    header = [f"{ON_PAPER:,} jobs on paper", "workers", "tasks", "longest, s", "end, s", "idle meanwhile"]
    return table(header, rows) + f"\n\nof it before the first task: {serial:.0f} s"


def ended(tasks: Iterable[float], workers: int) -> float:
    """Seconds until all tasks have ended, in their order, each on the first worker that is free."""
    free = [0.0] * workers
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
