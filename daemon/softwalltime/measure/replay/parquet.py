"""Completed jobs in Parquet: read in a fraction of the time of a log, also by pandas, polars and DuckDB.

A file has a column for each field of a completed job, with its unit.  Names that many jobs share are stored once for
each row group.  A workload in a sorted file is read part by part: its memory does not grow with the number of jobs.
"""

import json
import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import FIELDS, FieldKind
from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import KINDS, NAMES, SHARED, JobColumns
from softwalltime.measure.replay.workload import REASONS, SCORED, Integers, Scoring, Workload

GROUP: Final = 1 << 18
"""Jobs of a row group, which are in memory twice while they are written or read."""
_VERSION: Final = 1
_KEY: Final = b"softwalltime"
"""Name of the file's own metadata: JSON with the version of the format, and what the writer adds."""
_COMPLETE: Final = SHARED | {"job_id", "submitted", "end", "runtime"}
"""Columns in which no value is missing."""
_UNITS: Final = {
    FieldKind.TIME: "epoch seconds", FieldKind.DURATION: "seconds", FieldKind.WALLTIME: "seconds",
    FieldKind.SIZE: "bytes",
}  # fmt: skip
_FIELDS: Final = [
    pa.field(field.name, KINDS[field.name], metadata={"unit": unit} if (unit := _UNITS.get(field.kind)) else None)
    for field in FIELDS
]


def write_parquet(groups: Iterable[JobColumns], file: IO[bytes], metadata: dict[str, Any]) -> int:
    """Write the jobs of each row group in their order, and return their number; equal jobs give equal files.

    :param metadata: for the reader, as JSON.
    """
    schema, count = pa.schema(_FIELDS, {_KEY: json.dumps({"version": _VERSION, **metadata})}), 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for jobs in groups:
            writer.write_table(
                pa.Table.from_arrays([_written(jobs, name) for name in NAMES], schema=schema), len(jobs) or 1
            )
            count += len(jobs)
    return count


def _written(jobs: JobColumns, name: str) -> pa.Array:
    column = jobs.column(name)
    # A new dictionary has the texts of these jobs only, in the order of the jobs.
    return column.dictionary_decode().dictionary_encode() if name in SHARED else column.cast(KINDS[name])


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file.

    :raises SourceError: if the file cannot be read, or was not written by :func:`write_parquet`; names it.
    """
    with _opened(path) as (_, metadata):
        return metadata


def read_groups(
    path: Path, names: Collection[str] = NAMES, begin: int = 0, which: Iterable[int] | None = None
) -> Iterator[JobColumns]:
    """Yield the jobs of each row group that has some, with these columns; otherwise as :func:`read_metadata`.

    :param begin: without the first so many of these row groups; ``which``: only those with these numbers.
    """
    with _opened(path) as (file, _):
        groups = [group for group in range(file.num_row_groups) if file.metadata.row_group(group).num_rows]
        for group in groups[begin:] if which is None else [groups[number] for number in which]:
            table = file.read_row_group(group, list(names))
            yield JobColumns({name: _read(name, table.column(name).combine_chunks()) for name in names})


def count_groups(path: Path) -> int:
    """Return the number of row groups; otherwise as :func:`read_metadata`."""
    with _opened(path) as (file, _):
        return int(file.num_row_groups)


def _read(name: str, column: pa.Array) -> pa.Array:
    if column.null_count and name in _COMPLETE:
        raise ValueError(f"column {name} lacks values")
    texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if name in SHARED:
        return column if column.type == KINDS[name] else texts.cast(pa.large_utf8()).dictionary_encode()
    return texts.cast(KINDS[name])


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as file:
            yield file, _metadata(path, file.schema_arrow)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise SourceError(f"{path}: not a file of softwalltime export: {reason}") from error


def _metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    own = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
    if not isinstance(own, dict) or "version" not in own:
        raise ValueError("it names no version")
    if own["version"] != _VERSION:
        raise SourceError(f"{path}: of version {own['version']!r}: export the jobs again, with this softwalltime")
    for name in NAMES:
        if name not in schema.names or not _is_kind(name, schema.field(name).type):
            raise ValueError(f"column {name} is missing, or of another type")
    return own


def _is_kind(name: str, kind: pa.DataType) -> bool:
    if KINDS[name] in (pa.int64(), pa.bool_()):
        return bool(kind == KINDS[name])
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(text) or pa.types.is_large_string(text))


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
