"""Ingest, replay, report, tune and a year's simulation of many jobs: time and memory, from logs and from Parquet."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import text

from tests.benchmarks.markdown import table
from tests.benchmarks.workload import Finished, empty_store, scratch_folder, softwalltime

GENERATED = (100_000, 400_000)
"""Jobs that are generated as logs; memory must be that of the first block."""
SIZES = (1_000_000, 10_000_000)
"""Jobs in Parquet; ``SOFTWALLTIME_BENCH_JOBS=100000000`` adds a larger size (an hour)."""
ONCE = 1_000_000
"""Jobs that are generated and ingested at a time: their logs have 1.1 kB a job."""
PROCESSORS = 1024
COMMANDS = {
    "replay": (),
    # Of any log as many jobs are simulated.
    "report": ("--simulated-jobs", "2000", "--seeds", "31-32", "--processes", "1"),
    "tune": (
        "--predictors", "percentile:p=75|95", "--simulated-jobs", "0", "--processes", "1", "--time-limit", "1e6",
    ),
    "simulate": (
        "--since", "2025-01-01", "--until", "2025-12-31", "--processors", str(PROCESSORS), "--waiting", "factor:0.5",
    ),
}  # fmt: skip
"""Commands with options; replay and report use the published predictors, simulate a year of the file."""
_TIMES = ("submitted", "start", "end", "qtime", "etime")


def main() -> None:
    """Generate, export and replay logs; then measure the export, repeated until there are enough jobs."""
    sizes = [*SIZES, *map(int, os.environ.get("SOFTWALLTIME_BENCH_JOBS", "").split())]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [row for jobs in GENERATED for row in _from_logs(folder, jobs)]
        print(table(["command", "jobs", "processor s", "us/job", "MB"], rows), flush=True)
        rows, first = [], dict[str, float]()
        for jobs in sizes:
            file = folder / f"{jobs}.parquet"
            repeat(folder / f"{GENERATED[-1]}.parquet", file, jobs)
            for command in COMMANDS:
                rows.append([command, f"{jobs:,}", *_of_file(command, file, jobs, first)])
                print(rows[-1], flush=True)
            file.unlink()
        header = ["command", "jobs", "Parquet, GB", "TMPDIR, GB", "processor s", "us/job", "of the first", "MB"]
        print(f"\n{table(header, rows)}", flush=True)
    header = ["ingest, jobs", "seconds", "jobs/s of the last million", "MB without PostgreSQL", "bytes a job on disk"]
    print(f"\n{table(header, list(_ingested(sizes)))}", flush=True)


def _ingested(sizes: list[int]) -> Iterator[list[str]]:
    """Ingest logs of a million jobs at a time, all of the same years, until there are enough jobs."""
    with scratch_folder() as folder, empty_store(folder, durable=True) as (dsn, engine):
        seconds, megabytes = 0.0, 0.0
        for number in range(max(sizes) // ONCE):
            logs = folder / "logs"
            size_of = ("--jobs", str(ONCE), "--users", "1000", "--processors", str(PROCESSORS))
            softwalltime("generate", logs, *size_of, "--seed", str(number))
            done = softwalltime("ingest", logs, "--dsn", dsn)
            shutil.rmtree(logs)
            seconds, megabytes = seconds + done.seconds, max(megabytes, done.megabytes)
            if (jobs := ONCE * (number + 1)) in sizes:
                with engine.connect() as connection:
                    stored, size = connection.execute(text(
                        "SELECT count(*), pg_database_size(current_database()) FROM softwalltime.completed_jobs"
                    )).one()  # fmt: skip
                assert stored > 0.999 * jobs
                speed = f"{ONCE / done.seconds:,.0f}"
                yield [f"{jobs:,}", f"{seconds:,.0f}", speed, f"{megabytes:.0f}", f"{size / stored:.0f}"]


def _of_file(command: str, file: Path, jobs: int, first: dict[str, float]) -> list[str]:
    """Run a command on a file.

    :param first: seconds for each job of the first file by command; added where it is missing.
    """
    page = ["-o", str(file.with_suffix(".html"))] if command == "report" else []
    done = softwalltime(command, file, *COMMANDS[command], *page, "--format", "json")
    document = json.loads(done.output)
    size, results = file.stat().st_size, 8 * jobs
    if command == "tune":
        # A copy of the file, and the results of one predictor at a time.
        assert all(not trial["failure"] for trial in document["trials"].values())
        results += size
    elif command == "simulate":
        assert 0 < document["jobs"] < jobs
        results = 0
    else:
        assert document["jobs"] == jobs
        results *= len(document["predictors"])
    each = done.processor_seconds / jobs
    return [
        f"{size / 1e9:.2f}", f"{results / 1e9:.2f}", f"{done.processor_seconds:,.0f}", f"{each * 1e6:.1f}",
        f"{each / first.setdefault(command, each):.2f}", f"{done.megabytes:,.0f}",
    ]  # fmt: skip


def _from_logs(folder: Path, jobs: int) -> Iterator[list[str]]:
    logs, file = folder / f"logs{jobs}", folder / f"{jobs}.parquet"
    runs: list[tuple[str, Finished]] = [
        ("generate", softwalltime("generate", logs, "--jobs", str(jobs), "--processors", str(PROCESSORS))),
        ("export", softwalltime("export", logs, "-o", file)),
        ("replay logs", softwalltime("replay", logs, "--format", "json")),
        ("replay Parquet", softwalltime("replay", file, "--format", "json")),
    ]
    for name, done in runs:
        seconds = done.processor_seconds
        yield [name, f"{jobs:,}", f"{seconds:.0f}", f"{seconds / jobs * 1e6:.1f}", f"{done.megabytes:,.0f}"]


def repeat(source: Path, target: Path, jobs: int) -> None:
    """Write so many jobs: those of the source again and again, later and with other job ids."""
    file = pq.ParquetFile(source)
    with pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        span = pc.max(file.read(["end"])["end"]).as_py() - pc.min(file.read(["submitted"])["submitted"]).as_py()
        written = repetition = 0
        while written < jobs:
            for group in range(file.num_row_groups):
                some = file.read_row_group(group)[: jobs - written]
                for column in _TIMES:
                    some = _replaced(some, column, pc.add(some[column], repetition * span))
                # 5.pbs1 becomes 5000.pbs1, 5001.pbs1 and so on.
                number = pc.replace_substring(some["job_id"], ".", f"{repetition:04}.", max_replacements=1)
                writer.write_table(_replaced(some, "job_id", number), max(len(some), 1))
                written += len(some)
            repetition += 1


def _replaced(some: pa.Table, column: str, values: pa.ChunkedArray) -> pa.Table:
    index = some.schema.get_field_index(column)
    return some.set_column(index, some.schema.field(index), values.cast(some.schema.field(index).type))
