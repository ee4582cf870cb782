"""A workload in a file in Parquet that is read part by part: its memory does not grow with the number of jobs."""

import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from softwalltime.core.errors import SourceError
from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import NAMES, JobColumns
from softwalltime.measure.replay.parquet import read_groups
from softwalltime.measure.replay.workload import REASONS, SCORED, Integers, Scoring, Workload


class ParquetWorkload:
    """The jobs of a file that is sorted by submission, as :class:`.workload.Recorded`.

    :param limit: only the first so many jobs.
    :param change: returns those jobs of a part that are used, with their walltimes; ``changed_by``: columns it needs.
    :raises SourceError: here and later, if the file cannot be read or is not sorted.
    """

    def __init__(
        self, path: Path, limit: int | None, teaching: Collection[State], scoring: Scoring,
        change: Callable[[JobColumns], JobColumns], changed_by: Collection[str],
    ) -> None:  # fmt: skip
        self._path, self._limit, self._teaching, self._scoring = path, limit, teaching, scoring
        self._change, self._changed_by = change, changed_by
        self._maps: list[mmap.mmap] = []
        self._count, self._skipped = 0, Counter[str]()
        for part in self.parts(SCORED):
            self._count += len(part)
            self._skipped.update(part.skipped())

    def __len__(self) -> int:
        return self._count

    def parts(self, names: Collection[str] = NAMES) -> Iterator[Workload]:
        """Yield the jobs of each row group; see :meth:`.Recorded.parts`."""
        first, last = 0, None
        for group in read_groups(self._path, dict.fromkeys((*names, *self._changed_by))):
            jobs = self._change(group)
            left = None if self._limit is None else self._limit - first
            if left == 0:
                break
            if not len(jobs):
                continue
            part = Workload(jobs, left, self._teaching, self._scoring, first)
            if last is not None and part.submitted[0] < last:
                raise SourceError(f"{self._path}: not sorted by submission: export the jobs again")
            yield part
            first, last = first + len(part), part.submitted[-1]
            for array in self._maps:
                # What was written stays in the file; its pages need not stay in memory.
                array.madvise(mmap.MADV_DONTNEED)

    def numbers(self) -> Integers:
        """Return an array in a temporary file, 8 bytes for each job.

        :raises SourceError: if there is no space for it.
        """
        with tempfile.TemporaryFile() as file:
            try:
                os.posix_fallocate(file.fileno(), 0, 8 * len(self))
            except OSError as error:
                message = f"{tempfile.gettempdir()}: no space for {8 * len(self):,} bytes of results: {error.strerror}"
                raise SourceError(f"{message}; name another folder with TMPDIR") from error
            memory = mmap.mmap(file.fileno(), 8 * len(self))
        self._maps.append(memory)
        return np.frombuffer(memory, np.int64)

    def skipped(self) -> dict[str, int]:
        """Count the jobs that are not scored; see :meth:`.Recorded.skipped`."""
        return {reason: self._skipped[reason] for reason in REASONS if reason in self._skipped}
