"""A workload in a file in Parquet that is read part by part: its memory does not grow with the number of jobs."""

import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np

from softwalltime.core.errors import SourceError
from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import NAMES, JobColumns
from softwalltime.measure.replay.parquet import read_groups
from softwalltime.measure.replay.workload import REASONS, SCORED, Integers, Scoring, Workload


@dataclass(frozen=True, slots=True)
class _Share:
    """Share ``number`` of ``of`` shares of the users; ``files`` are those of the arrays of the whole."""

    number: int
    of: int
    files: Sequence[Path]

    def which(self, jobs: JobColumns) -> Integers:
        """Return the indexes of the jobs of these users."""
        own = cache(lambda user: crc32(user.encode("utf-8", "surrogatepass")) % self.of == self.number)
        return np.flatnonzero(np.fromiter(map(own, jobs.values("user")), np.bool_, len(jobs)))


class ParquetWorkload:
    """The jobs of a file that is sorted by submission, as :class:`.workload.Recorded`.

    :param limit: only the first so many jobs.
    :param change: returns those jobs of a part that are used, with their walltimes; ``changed_by``: columns it needs.
    :raises SourceError: here and later, if the file cannot be read or is not sorted.
    """

    is_sorted = True

    def __init__(
        self, path: Path, limit: int | None, teaching: Collection[State], scoring: Scoring,
        change: Callable[[JobColumns], JobColumns] = lambda jobs: jobs, changed_by: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._path, self._limit, self.teaching, self._scoring = path, limit, teaching, scoring
        self._change, self._changed_by = change, changed_by
        self._arrays: list[tuple[weakref.ref[mmap.mmap], int]] = []
        """The arrays, and the descriptors of their files."""
        self._share: _Share | None = None
        self._ends: list[int] = []
        """Number of jobs up to the end of each row group."""
        self._skipped = Counter[str]()
        for part in self.parts(SCORED):
            self._skipped.update(part.skipped())

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def parts(self, names: Collection[str] = NAMES, begin: int = 0) -> Iterator[Workload]:
        """Yield the jobs of each row group; see :meth:`.Recorded.parts`.

        :param begin: only the row groups that have jobs from this number on.
        """
        known = bisect_right(self._ends, begin)
        first, submitted = self._ends[known - 1] if known else 0, np.empty(0, np.int64)
        for group in read_groups(self._path, dict.fromkeys((*names, *self._changed_by)), known):
            jobs = self._change(group)[: None if self._limit is None else self._limit - first]
            submitted = np.concatenate([submitted[-1:], jobs.numbers("submitted")])
            if (submitted[1:] < submitted[:-1]).any():
                raise SourceError(f"{self._path}: not sorted by submission: export the jobs again")
            numbers = first + np.arange(len(jobs))
            first += len(jobs)
            if known == len(self._ends):
                self._ends.append(first)
            known += 1
            if self._share is not None:
                own = self._share.which(jobs)
                jobs, numbers = jobs.select(own), numbers[own]
            if not jobs:
                continue
            part = Workload(jobs, None, self.teaching, self._scoring)
            part.numbers = part.source_order = numbers
            yield part
            for array, _ in self._arrays:
                # What was written stays in the file; its pages need not stay in memory.
                if (used := array()) is not None:
                    used.madvise(mmap.MADV_DONTNEED)
            if first == self._limit:
                break

    def array(self) -> Integers:
        """Return an array in a temporary file, 8 bytes for each job, which is removed with the array.

        :raises SourceError: if there is no space for it.
        """
        size = 8 * len(self)
        try:
            with self._share.files[len(self._arrays)].open("r+b") if self._share else tempfile.TemporaryFile() as file:
                os.posix_fallocate(file.fileno(), 0, size)
                array = mmap.mmap(file.fileno(), size)
                # Shares in other processes open the file, which has no name.
                self._arrays.append((weakref.ref(array), os.dup(file.fileno())))
        except OSError as error:
            message = f"{tempfile.gettempdir()}: no space for {size:,} bytes of results: {error.strerror}"
            raise SourceError(f"{message}; name another folder with TMPDIR") from error
        weakref.finalize(array, os.close, self._arrays[-1][1])
        return np.frombuffer(array, np.int64)

    def chosen(self, numbers: Integers) -> JobColumns:
        ordered = np.sort(numbers)
        parts = self.parts(begin=int(ordered[0])) if len(ordered) else iter(())
        here = (part.jobs.select(np.flatnonzero(np.isin(part.numbers, ordered))) for part in parts)
        return JobColumns.joined(here).select(np.searchsorted(ordered, numbers))

    def in_source_order(self) -> Iterator[JobColumns]:
        return (part.jobs for part in self.parts())

    def share(self, number: int, of: int) -> "ParquetWorkload":
        """Return a share of the users' jobs, for another process; its arrays are those of this one, in their order."""
        share = copy(self)
        files = [Path(f"/proc/{os.getpid()}/fd/{file}") for array, file in self._arrays if array() is not None]
        share._share, share._arrays = _Share(number, of, files), []
        return share

    def skipped(self) -> dict[str, int]:
        """Count the jobs that are not scored; see :meth:`.Recorded.skipped`."""
        return {reason: self._skipped[reason] for reason in REASONS if reason in self._skipped}
