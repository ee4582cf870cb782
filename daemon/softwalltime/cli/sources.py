"""Read jobs from accounting logs, traces or the store."""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy

from softwalltime.accounting.files import expand
from softwalltime.accounting.opening import size_on_disk
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.errors import SoftwalltimeError, SourceError
from softwalltime.jobs import CompletedJob, values_of

STORE = "store"
SHOWN = 10
"""Number of malformed lines to print."""


def load_jobs(sources: tuple[str, ...], settings: LazySettings, server: str = "") -> tuple[list[CompletedJob], Tally]:
    """All completed jobs of the sources, each run of a job once however many sources hold it.

    :raises SourceError: if a source is not there or there is no job in any of them.
    :raises SoftwalltimeError: if there is no job, and a file cannot be read.
    """
    tally = Tally()
    paths = expand(Path(source) for source in sources if source != STORE)
    with progress_bar("reading", sum(map(size_on_disk, paths))) as progress:
        jobs = list(read_jobs(paths, tally, progress, server))
    if STORE in sources:
        from softwalltime.store.jobs import read_jobs as read_stored_jobs
        from softwalltime.store.opening import open_store

        with open_store(settings()) as engine, engine.connect() as connection:
            jobs.extend(read_stored_jobs(connection))
    if len(paths) + (STORE in sources) > 1:
        jobs = each_run_once(jobs)
    if not jobs:
        for line in problems(tally):
            click.echo(line, err=True)
        message = f"no completed job in {' '.join(sources)}"
        raise SoftwalltimeError(message) if tally.broken else SourceError(message)
    return jobs, tally


def each_run_once(jobs: list[CompletedJob]) -> list[CompletedJob]:
    """Return the jobs without duplicates from other sources, as from copies of a log under other names.

    Two records describe the same run if server, job id and start are equal.  A trace's jobs have bare numbers, which
    other traces have too: they are the same if all their values are.
    """
    # Only hashes of all jobs are kept, 8 bytes each, not millions of keys.
    hashes = numpy.fromiter((hash(_run(job)) for job in jobs), numpy.int64, len(jobs))
    ordered = numpy.sort(hashes)
    several = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if not several:
        return jobs
    seen: set[object] = set()
    once = []
    for job, number in zip(jobs, hashes.tolist(), strict=True):
        if number in several:
            run = _run(job)
            key = run if job.server else (run, values_of(job))
            if key in seen:
                continue
            seen.add(key)
        once.append(job)
    return once


def _run(job: CompletedJob) -> tuple[str, str, int | None]:
    return job.server, job.submission.job_id, job.start


def problems(tally: Tally) -> Iterator[str]:
    """Say what could not be read, a line each: files, the first malformed lines, how many more, values left out."""
    for broken in tally.broken:
        yield str(broken)
    for malformed in tally.kept[:SHOWN]:
        yield str(malformed)
    if tally.malformed > SHOWN:
        yield f"... and {tally.malformed - SHOWN:,} more malformed lines"
    if tally.left_out:
        fields = ", ".join(f"{name} ({count:,})" for name, count in tally.left_out.most_common(SHOWN))
        yield f"{tally.left_out.total():,} values of optional fields cannot be read and were left out: {fields}"
    if tally.unfinished:
        yield f"{tally.unfinished} last line without a line end, left alone"
