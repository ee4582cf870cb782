"""Completed jobs as columns of Apache Arrow: about 150 bytes per job instead of 1,400 for an object."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import islice, starmap
from operator import itemgetter
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from softwalltime.core.jobs import CompletedJob, Submission, Values, jobs_of_columns, values_of
from softwalltime.core.states import State, state_of

CHUNK = 8192
"""Maximum jobs that are objects or rows at one time."""
BLOCK, BLOCKS = 256, 256
"""Access by index creates the objects of a block of so many jobs; the last so many blocks are kept."""

Integers = NDArray[np.int64] | NDArray[np.int32]

NAMES = tuple(field.name for field in (*fields(Submission), *fields(CompletedJob)[1:]))
"""The columns: the fields of a submission, then those of a completed job."""
SHARED = frozenset({"user", "group", "project", "account", "job_name", "queue", "select", "place", "script", "server"})
"""The columns of texts that many jobs share: each text is stored once."""
KINDS = (
    dict.fromkeys(NAMES, pa.int64())
    | {"job_id": pa.large_utf8(), "interactive": pa.bool_()}
    | dict.fromkeys(SHARED, pa.dictionary(pa.int32(), pa.large_utf8()))
)
"""Arrow's type of each column; numbers take 4 bytes where all of them fit."""
_RUN = ("server", "job_id", "submitted", "start")
_run_of = itemgetter(*map(NAMES.index, _RUN))


class JobColumns(Sequence[CompletedJob]):
    """Many completed jobs; a job becomes an object when it is accessed."""

    def __init__(self, columns: Mapping[str, pa.Array], texts: dict[str, list[str]] | None = None) -> None:
        """:param columns: all columns of :data:`NAMES`, or those that will be used.

        :param texts: those of the dictionary of each column, as far as they are known.
        """
        self._columns = columns
        self._texts = {} if texts is None else texts
        self._blocks: dict[int, list[CompletedJob]] = {}
        """Objects of the jobs that were accessed by index, by block."""

    @classmethod
    def of(cls, rows: Iterable[Values | CompletedJob]) -> "JobColumns":
        """Return the columns of jobs, given as objects or as their values; columns are returned as they are."""
        if isinstance(rows, JobColumns):
            return rows
        return cls.joined(_chunks(rows))

    @classmethod
    def groups_of(cls, rows: Iterable[Values | CompletedJob], size: int) -> "Iterator[JobColumns]":
        """Yield the columns of consecutive jobs, ``size`` at a time."""
        iterator = iter(rows)
        while jobs := cls.of(islice(iterator, size)):
            yield jobs

    @classmethod
    def joined(cls, parts: "Iterable[JobColumns]") -> "JobColumns":
        """Return the jobs of all parts, which have the same columns."""
        chunks: dict[str, list[pa.Array]] = {name: [] for name in NAMES}
        for part in parts:
            for name, column in part._columns.items():
                chunks[name].append(column)
        return cls({name: _joined(name, chunks.pop(name)) for name in NAMES})

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    @overload
    def __getitem__(self, index: int) -> CompletedJob: ...
    @overload
    def __getitem__(self, index: slice) -> "JobColumns": ...
    def __getitem__(self, index: int | slice) -> "CompletedJob | JobColumns":
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                return self.select(np.arange(first, last, step))
            return self._with(lambda column: column.slice(first, max(last - first, 0)))
        if index < 0:
            index += len(self)
        number, place = divmod(index, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            if not 0 <= index < len(self):
                raise IndexError(index)
            if len(self._blocks) == BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = list(self[number * BLOCK : (number + 1) * BLOCK])
        return block[place]

    def __iter__(self) -> Iterator[CompletedJob]:
        for chunk in self.in_groups(CHUNK):
            yield from jobs_of_columns([chunk._values(name) for name in NAMES])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobColumns) and list(self.rows(*NAMES)) == list(other.rows(*NAMES))

    def _with(self, change: Callable[[pa.Array], pa.Array]) -> "JobColumns":
        return JobColumns({name: change(column) for name, column in self._columns.items()}, self._texts)

    def _values(self, name: str) -> list[Any]:
        column = self.column(name)
        if name not in SHARED:
            return _listed(column)
        # Equal texts are one object, whose hash is known.
        texts = self._texts.get(name) or self._texts.setdefault(name, _listed(column.dictionary))
        return [texts[code] for code in column.indices.to_pylist()]

    def column(self, name: str) -> pa.Array:
        return self._columns[name]

    def select(self, which: Integers) -> "JobColumns":
        """Return the jobs with these indexes in this order."""
        indexes = pa.array(which)
        return self._with(lambda column: column.take(indexes))

    def in_groups(self, size: int) -> "Iterator[JobColumns]":
        """Yield consecutive jobs, ``size`` at a time."""
        for first in range(0, len(self), size):
            yield self[first : first + size]

    def by_submission(self) -> "JobColumns":
        """Return the jobs in order of submission; those submitted at once keep their order."""
        return self.select(np.argsort(self.numbers("submitted"), kind="stable"))

    def each_run_once(self) -> "tuple[JobColumns, int]":
        """Return the jobs without further records of the same runs, and the number of those records.

        :func:`run_key` identifies a run.
        """
        # Hashes of 8 bytes instead of millions of keys.
        hashes = np.fromiter(map(hash, self.rows(*_RUN)), np.int64, len(self))
        ordered = np.sort(hashes)
        several = np.isin(hashes, ordered[1:][ordered[1:] == ordered[:-1]])
        if not several.any():
            return self, 0
        seen: set[object] = set()
        for index in np.flatnonzero(several).tolist():
            key = run_key(values_of(self[index]))
            several[index] = key in seen
            seen.add(key)
        return self.select(np.flatnonzero(~several)), int(several.sum())

    def replaced(self, name: str, values: Sequence[Any]) -> "JobColumns":
        """Return the same jobs with other values of a field, one for each job."""
        return JobColumns({**self._columns, name: _array(name, values)})

    def numbers(self, name: str, missing: int = -1) -> NDArray[np.int64]:
        if KINDS[name] != pa.int64():
            raise KeyError(f"{name} is not a field of numbers")
        filled = self.column(name).cast(pa.int64()).fill_null(missing)
        numbers: NDArray[np.int64] = filled.to_numpy(zero_copy_only=False, writable=True)
        return numbers

    def teaching(self, teaching: Collection[State]) -> NDArray[np.bool_]:
        """Return which jobs ended in one of these states, so that predictors learn from them."""
        states = starmap(state_of, self.rows("exit_status", "runtime", "walltime", "start"))
        return np.fromiter((state in teaching for state in states), np.bool_, len(self))

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the values of these fields, one tuple per job."""
        for chunk in self.in_groups(CHUNK):
            yield from zip(*map(chunk._values, names), strict=True)

    def values(self, name: str) -> Iterator[Any]:
        for chunk in self.in_groups(CHUNK):
            yield from chunk._values(name)


def run_key(values: Values) -> Values:
    """Return what identifies a run of a job: server, job id, submission and start.

    For a trace, which names no server and whose job ids other traces have too, all values do.
    """
    run: Values = _run_of(values)
    return run if run[0] else values


def with_queue_walltimes(jobs: Sequence[CompletedJob], walltimes: Mapping[str, int]) -> JobColumns:
    """Return the jobs, those without a walltime with that of their queue in seconds, if it is known (``*``: others)."""
    columns = JobColumns.of(jobs)
    others = walltimes.get("*")
    values = [walltime or walltimes.get(queue, others) for walltime, queue in columns.rows("walltime", "queue")]
    return columns.replaced("walltime", values)


def _chunks(rows: Iterable[Values | CompletedJob]) -> Iterator[JobColumns]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK)):
        values = zip(*(row if isinstance(row, tuple) else values_of(row) for row in chunk), strict=True)
        yield JobColumns({name: _array(name, column) for name, column in zip(NAMES, values, strict=True)})


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    if KINDS[name] == pa.int64():
        with suppress(pa.ArrowInvalid, OverflowError):
            return pa.array(values, pa.int32())
    if KINDS[name] in (pa.int64(), pa.bool_()):
        return pa.array(values, KINDS[name])
    try:
        texts = pa.array(values, pa.large_utf8())
    except UnicodeEncodeError:
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        texts = pa.array(encoded, pa.large_binary()).view(pa.large_utf8())
    return texts.dictionary_encode() if name in SHARED else texts


def _joined(name: str, chunks: Sequence[pa.Array]) -> pa.Array:
    kind = KINDS[name]
    if kind == pa.int64() and chunks and all(chunk.type == pa.int32() for chunk in chunks):
        kind = pa.int32()
    column = pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)
    return column.unify_dictionaries().combine_chunks()


def _listed(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        encoded = column.view(pa.large_binary()).to_pylist()
        values = [text.decode("utf-8", "surrogatepass") for text in encoded]
    return values
