"""Ingest from files to committed, indexed rows, against pbsparse (PyPI) merely parsing the same files."""

import tempfile
import time
from pathlib import Path
from typing import Any

from pbsparse import get_pbs_records

from softwalltime.reports.table import table
from tests.benchmarks.workload import accounting_folder, softwalltime


def main() -> None:
    """Ingest into an empty embedded store, again into the full one, and parse with pbsparse in three ways."""
    # A folder that the unprivileged user can reach whom PostgreSQL runs as where this runs as root.
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        Path(scratch).chmod(0o755)
        name, logs = accounting_folder(Path(scratch))
        store = ("--data-dir", f"{scratch}/store")
        softwalltime("db", "upgrade", *store)
        first = softwalltime("ingest", logs, *store)
        again = softwalltime("ingest", logs, *store)
        jobs = int(first.output.split("jobs stored")[1].split()[0].replace(",", ""))
        rows = [("softwalltime ingest, empty store", first.seconds), ("softwalltime ingest, once more", again.seconds)]
        files = sorted(logs.iterdir())
        rows += [
            ("pbsparse, all records", parse(files)),
            ("pbsparse, E records, processed", parse(files, process=True, type_filter="E")),
            ("pbsparse, E records, not processed", parse(files, type_filter="E")),
        ]
    print(
        table(
            [f"{name}, {jobs:,} completed jobs", "seconds", "jobs/s", "of ingest's time"],
            [[what, f"{took:.2f}", f"{jobs / took:,.0f}", f"{took / first.seconds:.2f}"] for what, took in rows],
        )
    )
    print(f"\nmemory of ingest, without PostgreSQL's: {first.megabytes:.0f} MB")


def parse(files: list[Path], **options: Any) -> float:
    """Seconds that pbsparse takes."""
    begin = time.perf_counter()
    for file in files:
        for _ in get_pbs_records(str(file), **options):
            pass
    return time.perf_counter() - begin
