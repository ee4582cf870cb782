"""Where jobs come from: accounting logs, traces, or the store."""

from collections.abc import Iterator
from pathlib import Path

import click

from softwalltime.accounting.files import expand
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli.options import LazySettings
from softwalltime.cli.progress import progress_bar
from softwalltime.errors import SourceError
from softwalltime.jobs import CompletedJob

STORE = "store"
SHOWN = 10
"""How many malformed lines are shown one by one."""


def load_jobs(sources: tuple[str, ...], settings: LazySettings, server: str = "") -> tuple[list[CompletedJob], Tally]:
    """All completed jobs of the sources, each run of a job once however many sources hold it.

    :raises SourceError: if a source is not there or there is no job in any of them.
    """
    tally = Tally()
    paths = expand(Path(source) for source in sources if source != STORE)
    with progress_bar("reading", sum(path.stat().st_size for path in paths)) as progress:
        jobs = list(read_jobs(paths, tally, progress, server))
    if STORE in sources:
        from softwalltime.store.jobs import read_jobs as read_stored_jobs
        from softwalltime.store.opening import open_store

        with open_store(settings()) as engine, engine.connect() as connection:
            jobs.extend(read_stored_jobs(connection))
    if len(sources) > 1:
        jobs = list(_once(jobs))
    if not jobs:
        for line in problems(tally):
            click.echo(line, err=True)
        raise SourceError(f"no completed job in {' '.join(sources)}")
    return jobs, tally


def _once(jobs: list[CompletedJob]) -> Iterator[CompletedJob]:
    seen: set[tuple[str, str, int | None]] = set()
    for job in jobs:
        run = (job.server, job.submission.job_id, job.start)
        # A trace's jobs have bare numbers, which other traces have too.
        if not job.server or run not in seen:
            seen.add(run)
            yield job


def problems(tally: Tally) -> Iterator[str]:
    """What could not be read, a line each: broken files, then the first malformed lines, then how many more."""
    for broken in tally.broken:
        yield str(broken)
    for malformed in tally.kept[:SHOWN]:
        yield str(malformed)
    if tally.malformed > SHOWN:
        yield f"... and {tally.malformed - SHOWN:,} more malformed lines"
    if tally.unfinished:
        yield f"{tally.unfinished} last line without a line end, left alone"
