"""Read the completed jobs of files: accounting logs and traces, and Parquet from ``softwalltime export``."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.log_file import size_on_disk
from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob, Values
from softwalltime.measure.replay.job_columns import NAMES, JobColumns

SUFFIX = ".parquet"
"""End of the name of a file in Parquet."""
PROCESSORS = "processors"
"""Name in the metadata of such a file of the size of the machine; 0: unknown."""
SORTED = "sorted"
"""Name in the metadata of whether the jobs are in order of submission, each run once."""


def is_sorted(path: Path) -> bool:
    """Return whether it is a file in Parquet with the jobs in order of submission, each run once.

    :raises SourceError: if such a file cannot be read.
    """
    if path.suffix != SUFFIX:
        return False
    from softwalltime.measure.replay.parquet import read_metadata

    return read_metadata(path).get(SORTED) is True


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
        logs = self._logs
        tally.left_out_files, tally.broken = logs.left_out, logs.broken
        rows: Iterable[Values | CompletedJob] = chain(read_values(logs.files, tally, progress), more or ())
        if self._tables:
            from softwalltime.measure.replay.parquet import read_parquet

            stored, metadata = read_parquet(self._tables)
            # The columns of Parquet alone need not become rows.
            rows = stored if more is None and not logs.files else chain(stored.rows(*NAMES), rows)
            processors = metadata[0].get(PROCESSORS)
            tally.machine = processors if isinstance(processors, int) else 0
        jobs, tally.repeated = JobColumns.of(rows).each_run_once()
        if len(logs.files) + len(self._tables) > 1 or more is not None:
            tally.machine = 0
        return jobs
