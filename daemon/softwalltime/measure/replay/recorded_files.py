"""Read the completed jobs of files: accounting logs and traces, and Parquet from ``softwalltime export``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob, Values
from softwalltime.measure.replay.job_columns import NAMES, JobColumns
from softwalltime.measure.replay.parquet import read_groups, read_metadata
from softwalltime.measure.replay.sorted_runs import sorted_runs

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
    ) -> JobColumns:  # fmt: skip
        """Return the jobs, each run once however many records describe it: Parquet first, then logs, then ``more``.

        :param tally: counts what cannot be read of logs.
        :raises SourceError: if a file in Parquet cannot be read.
        """
        logged = JobColumns.of(self._logged(tally, progress, more))
        jobs, tally.repeated = JobColumns.joined(chain(self._stored(), [logged])).each_run_once()
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
