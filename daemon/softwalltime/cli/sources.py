"""Read jobs from accounting logs, traces or the store, and report what could not be read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.completing import STORE
from softwalltime.cli.options import SOURCES, LazySettings, StoreOptions
from softwalltime.cli.output import progress_bar
from softwalltime.cli.parameters import options
from softwalltime.cli.selection import ALL_JOBS, JobSelection
from softwalltime.core.errors import SoftwalltimeError, SourceError, summary
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import CompletedJob, Values

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally
    from softwalltime.measure.replay.job_columns import JobColumns
    from softwalltime.measure.replay.recorded_files import RecordedFiles
    from softwalltime.measure.replay.workload import Recorded, Scoring
    from softwalltime.measure.simulation.resources import Vnodes
    from softwalltime.measure.simulation.simulated_jobs import Jobs

MAX_SHOWN_PROBLEMS = 10
"""Number of malformed lines to print."""


def problems(tally: "Tally") -> Iterator[str]:
    """Yield lines about what could not be read: files, the first malformed lines, how many more, omitted values."""
    yield from summary(tally.broken)
    for line in summary(tally.left_out_files):
        yield f"left out: {line}"
    for malformed in tally.kept[:MAX_SHOWN_PROBLEMS]:
        yield str(malformed)
    if tally.malformed > MAX_SHOWN_PROBLEMS:
        yield f"... and {tally.malformed - MAX_SHOWN_PROBLEMS:,} more malformed lines"
    if tally.left_out:
        fields = ", ".join(f"{name} ({count:,})" for name, count in tally.left_out.most_common(MAX_SHOWN_PROBLEMS))
        yield f"{tally.left_out.total():,} values of optional fields cannot be read and were left out: {fields}"
    if tally.repeated:
        yield f"{plural(tally.repeated, 'record')} of runs that other records describe too: each run counts once"
    for path in tally.unfinished[:MAX_SHOWN_PROBLEMS]:
        yield f"{path}: the last line has no line end and was not read: PBS may still be writing it"
    if len(tally.unfinished) > MAX_SHOWN_PROBLEMS:
        yield f"... and the last lines of {len(tally.unfinished) - MAX_SHOWN_PROBLEMS:,} more files"


@contextmanager
def _opened(
    sources: tuple[str, ...], settings: LazySettings
) -> "Iterator[tuple[RecordedFiles, Callable[[int], None], Iterator[Values | CompletedJob] | None]]":
    """Open the sources: files, the progress of reading them, and the jobs of the store if it is one of them."""
    from softwalltime.measure.replay.recorded_files import RecordedFiles

    files = RecordedFiles([Path(source) for source in sources if source != STORE])
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar("reading", files.size))
        stored: Iterator[Values | CompletedJob] | None = None
        if STORE in sources:
            from softwalltime.store.completed_jobs import read_jobs as read_stored_jobs
            from softwalltime.store.opening import open_store

            connection = stack.enter_context(stack.enter_context(open_store(settings(), create=False)).connect())
            stored = read_stored_jobs(connection)
        yield files, progress, stored


def _nothing(sources: tuple[str, ...], tally: "Tally", selection: JobSelection = ALL_JOBS) -> SoftwalltimeError:
    """Print what could not be read; return the error that there is no job."""
    for line in problems(tally):
        click.echo(line, err=True)
    message = f"no completed job in {' '.join(sources)}"
    message += f" is selected ({selection}): correct the options" if selection else ""
    return SoftwalltimeError(message) if tally.broken else SourceError(message)


def load_columns(
    sources: tuple[str, ...], settings: LazySettings, selection: JobSelection = ALL_JOBS,
    walltimes: Mapping[str, int] | None = None,
) -> "tuple[JobColumns, Tally]":  # fmt: skip
    """The completed jobs of the sources, each run of a job once however many records describe it.

    :param walltimes: of jobs that have none, in seconds by queue.
    :raises SourceError: if a source is not there or there is no job in any of them.
    :raises SoftwalltimeError: if there is no job, and a file cannot be read.
    """
    # The help of a command needs neither numpy nor the parsers, which take long to import.
    from softwalltime.accounting.tally import Tally
    from softwalltime.measure.replay.job_columns import with_queue_walltimes

    tally = Tally()
    with _opened(sources, settings) as (files, progress, stored):
        jobs = files.read(tally, progress, stored, selection.part_of)
    if not jobs:
        raise _nothing(sources, tally, selection)
    return with_queue_walltimes(jobs, walltimes) if walltimes else jobs, tally


@options
class RecordedJobs:
    """Recorded jobs: their sources, which of them a command uses, and the settings of the store."""

    sources: tuple[str, ...] = SOURCES
    selection: JobSelection
    settings: StoreOptions

    @property
    def source(self) -> str:
        return " ".join(self.sources)

    @property
    def selected(self) -> str | None:
        return str(self.selection) or None

    @property
    def label(self) -> str:
        return f"{self.source} ({self.selection})" if self.selection else self.source

    def columns(self, walltimes: Mapping[str, int] | None = None) -> "tuple[JobColumns, Tally]":
        """Read all sources as :func:`load_columns` does."""
        return load_columns(self.sources, self.settings, selection=self.selection, walltimes=walltimes)

    def sorted_groups(self, folder: Path, size: int) -> "tuple[Iterator[JobColumns], Tally]":
        """Return the jobs in order of submission, ``size`` at a time; otherwise as :func:`load_columns`.

        Memory does not grow with their number: they are sorted in files in ``folder``.
        """
        from softwalltime.accounting.tally import Tally
        from softwalltime.measure.replay.job_columns import JobColumns
        from softwalltime.measure.replay.recorded_files import merged

        tally = Tally()
        with _opened(self.sources, self.settings) as (files, progress, stored):
            runs = files.sorted_runs(tally, progress, stored, folder, self.selection.part_of)
        if not runs:
            raise _nothing(self.sources, tally, self.selection)
        return JobColumns.groups_of(merged(runs, tally), size), tally

    def workload(
        self, walltimes: Mapping[str, int], limit: int | None = None, scoring: "Scoring | None" = None, *,
        in_memory: bool = False,
    ) -> "tuple[Recorded, Tally]":  # fmt: skip
        """Return the first jobs up to ``limit`` as a workload; otherwise as :func:`load_columns`.

        :param in_memory: whether also a sorted file, alone, is read into memory, not part by part.
        """
        from softwalltime.accounting.tally import Tally
        from softwalltime.measure.replay.job_columns import JobColumns, with_queue_walltimes
        from softwalltime.measure.replay.parquet import ParquetWorkload
        from softwalltime.measure.replay.recorded_files import machine_of_sorted
        from softwalltime.measure.replay.workload import Scoring, Workload

        teaching, scoring = self.settings().teaching, scoring or Scoring()
        machine = None if in_memory or len(self.sources) > 1 else machine_of_sorted(Path(self.source))
        if machine is None:
            jobs, tally = self.columns(walltimes)
            return Workload(jobs, limit, teaching, scoring), tally

        def used(jobs: JobColumns) -> JobColumns:
            return self.selection.part_of(with_queue_walltimes(jobs, walltimes) if walltimes else jobs)

        needed = ("walltime", "queue", "user", "project") if walltimes or self.selection else ()
        workload = ParquetWorkload(Path(self.source), limit, teaching, scoring, used, needed)
        if not len(workload):
            raise _nothing(self.sources, Tally(), self.selection)
        return workload, Tally(machine=machine)

    def simulable(self, walltimes: Mapping[str, int], vnodes: "tuple[Vnodes, ...]" = ()) -> "tuple[Jobs, Tally]":
        """Return the completed jobs as the simulator takes them; otherwise as :func:`load_columns`.

        :raises SourceError: also if no job can be simulated, or none has a walltime.
        """
        from softwalltime.measure.simulation.simulated_jobs import jobs_of

        completed, tally = self.columns(walltimes)
        jobs = jobs_of(completed, self.settings().teaching, vnodes=vnodes)
        if not len(jobs):
            raise SourceError(f"no job in {self.source} has a runtime and processors")
        if not jobs.scored.any():
            raise SourceError(
                f"none of the {len(jobs):,} jobs in {self.source} that ran has a walltime: give those of the queues, "
                "--walltime-from queue=HH:MM:SS,..."
            )
        return jobs, tally
