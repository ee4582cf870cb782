"""Read the completed jobs of files: accounting logs and traces, and Parquet from ``softwalltime export``.

Or sort them by submission, each run once, in memory that the number of jobs does not set: a million at a time into
temporary files, which are then merged.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import CompletedJob, Values
from softwalltime.measure.replay.job_columns import NAMES, JobColumns, run_key
from softwalltime.measure.replay.parquet import read_groups, read_metadata, write_parquet

RUN = 1_000_000
"""Jobs that are sorted in memory, of 150 bytes each."""
GROUP = 1 << 12
"""Jobs of a row group of a run: while runs are merged, one row group of each is in memory."""
_SUBMITTED = NAMES.index("submitted")


def sorted_runs(
    rows: Iterable[Values | CompletedJob], folder: Path, chosen: Callable[[JobColumns], JobColumns]
) -> list[Iterable[JobColumns]]:
    """Return the jobs as runs, each sorted by submission; all but the last are in files in ``folder``.

    :param chosen: returns those of some jobs that are wanted.
    :raises SourceError: if a file cannot be written.
    """
    runs: list[Iterable[JobColumns]] = []
    for jobs in JobColumns.groups_of(rows, RUN):
        run = chosen(jobs).by_submission()
        if not run:
            continue
        if len(jobs) < RUN:
            runs.append(run.in_groups(GROUP))
            break
        path = folder / f"{len(runs)}.parquet"
        try:
            with path.open("xb") as stream:
                write_parquet(run.in_groups(GROUP), stream, {})
        except OSError as error:
            message = f"{folder}: the jobs cannot be sorted there: {error.strerror or error}"
            raise SourceError(f"{message}; name another folder with TMPDIR") from error
        runs.append(read_groups(path))
    return runs


def merged(runs: Sequence[Iterable[JobColumns]], tally: Tally) -> Iterator[Values]:
    """Yield the values of all jobs in order of submission; those submitted at once in the order of the runs.

    :param runs: sorted by submission.
    :param tally: counts further records of the same run of a job, which are left out.
    """
    rows = (chain.from_iterable(group.rows(*NAMES) for group in run) for run in runs)
    now, seen = None, set[object]()
    for row in heapq.merge(*rows, key=itemgetter(_SUBMITTED)):
        if row[_SUBMITTED] != now:
            now, seen = row[_SUBMITTED], set()
        key = run_key(row)
        if key in seen:
            tally.repeated += 1
        else:
            seen.add(key)
            yield row


SUFFIX = ".parquet"
"""End of the name of a file in Parquet."""
PROCESSORS = "processors"
"""Name in the metadata of such a file of the size of the machine; 0: unknown."""
SORTED = "sorted"
"""Name in the metadata of whether the jobs are in order of submission, each run once."""


def machine_of_sorted(path: Path) -> int | None:
    """Return the processors of the machine, 0 for unknown, of a file with the jobs in order of submission, each once.

    ``None``: it is another file.

    :raises SourceError: if it is a file in Parquet, and cannot be read.
    """
    if path.suffix != SUFFIX:
        return None
    metadata = read_metadata(path)
    return _processors(metadata) if metadata.get(SORTED) is True else None


def _processors(metadata: Mapping[str, object]) -> int:
    processors = metadata.get(PROCESSORS)
    return processors if isinstance(processors, int) else 0


class RecordedFiles:
    """The recorded files of some paths: logs, traces, folders of logs, and files in Parquet.

    :raises SourceError: if a path does not exist, or a folder has no log.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._tables = list(dict.fromkeys(path for path in paths if path.suffix == SUFFIX))
        self._logs = find_logs(path for path in paths if path.suffix != SUFFIX)
        self.size = sum(map(size_on_disk, self._logs.files))
        """Bytes of logs and traces, for the progress of reading; files in Parquet do not count."""

    def read(
        self, tally: Tally, progress: Callable[[int], None] = lambda _: None,
        more: Iterable[Values | CompletedJob] | None = None,
        chosen: Callable[[JobColumns], JobColumns] = lambda jobs: jobs,
    ) -> JobColumns:  # fmt: skip
        """Return the jobs, each run once however many records describe it: Parquet first, then logs, then ``more``.

        :param tally: counts what cannot be read of logs.
        :param chosen: returns those of some jobs that are wanted; only they are kept in memory.
        :raises SourceError: if a file in Parquet cannot be read.
        """
        logged = JobColumns.groups_of(self._logged(tally, progress, more), RUN)
        jobs, tally.repeated = JobColumns.joined(map(chosen, chain(self._stored(), logged))).each_run_once()
        self._note_machine(tally, more)
        return jobs

    def sorted_runs(
        self, tally: Tally, progress: Callable[[int], None], more: Iterable[Values | CompletedJob] | None,
        folder: Path, chosen: Callable[[JobColumns], JobColumns],
    ) -> list[Iterable[JobColumns]]:  # fmt: skip
        """Return the chosen jobs as runs, all but the last in files in ``folder``; otherwise as :meth:`read`."""
        stored = (group.rows(*NAMES) for group in self._stored())
        rows = chain(chain.from_iterable(stored), self._logged(tally, progress, more))
        runs = sorted_runs(rows, folder, chosen)
        self._note_machine(tally, more)
        return runs

    def _stored(self) -> Iterable[JobColumns]:
        return chain.from_iterable(map(read_groups, self._tables))

    def _logged(
        self, tally: Tally, progress: Callable[[int], None], more: Iterable[Values | CompletedJob] | None
    ) -> Iterable[Values | CompletedJob]:
        tally.left_out_files, tally.broken = self._logs.left_out, self._logs.broken
        return chain(read_values(self._logs.files, tally, progress), more or ())

    def _note_machine(self, tally: Tally, more: object) -> None:
        """Correct the size of the machine: known if there is one source, which says it."""
        if len(self._logs.files) + len(self._tables) > 1 or more is not None:
            tally.machine = 0
        elif self._tables:
            tally.machine = _processors(read_metadata(self._tables[0]))
