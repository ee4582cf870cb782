"""Replay of many jobs: processor time and memory for each number of jobs, from logs and from Parquet."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.benchmarks.markdown import table
from tests.benchmarks.workload import Finished, softwalltime

GENERATED = (100_000, 400_000)
"""Jobs that are generated as logs; memory must be that of the first block."""
SIZES = (1_000_000, 10_000_000)
"""Jobs in Parquet; ``SOFTWALLTIME_BENCH_JOBS=100000000`` adds a larger size (an hour)."""
PROCESSORS = 1024
_TIMES = ("submitted", "start", "end", "qtime", "etime")


def main() -> None:
    """Generate, export and replay logs; then replay the export, repeated until there are enough jobs."""
    sizes = [*SIZES, *map(int, os.environ.get("SOFTWALLTIME_BENCH_JOBS", "").split())]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [row for jobs in GENERATED for row in _from_logs(folder, jobs)]
        print(table(["command", "jobs", "processor s", "us/job", "MB"], rows), flush=True)
        rows, reference = [], 0.0
        for jobs in sizes:
            file = folder / f"{jobs}.parquet"
            repeat(folder / f"{GENERATED[-1]}.parquet", file, jobs)
            done = softwalltime("replay", file, "--format", "json")
            document = json.loads(done.output)
            assert document["jobs"] == jobs
            size, results = file.stat().st_size / 1e9, 8 * jobs * len(document["predictors"]) / 1e9
            each = done.processor_seconds / jobs
            reference = reference or each
            rows.append(
                [
                    f"{jobs:,}", f"{size:.2f}", f"{results:.2f}", f"{done.processor_seconds:,.0f}", f"{each * 1e6:.1f}",
                    f"{each / reference:.2f}", f"{done.megabytes:,.0f}",
                ]
            )  # fmt: skip
            file.unlink()
        header = ["jobs", "Parquet, GB", "TMPDIR, GB", "processor s", "us/job", "of the first", "MB"]
        print(f"\n{table(header, rows)}", flush=True)


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
