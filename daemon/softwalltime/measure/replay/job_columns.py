"""Completed jobs as columns: about 150 bytes per job instead of 1,400 for an object."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, islice, repeat, starmap
from operator import itemgetter
from typing import Any, overload

import numpy as np
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
TEXTS = frozenset(
    {
        "job_id", "user", "group", "project", "account", "job_name", "queue", "select", "place", "interactive",
        "script", "server",
    }
)  # fmt: skip
_RUN = ("server", "job_id", "submitted", "start")
_run_of = itemgetter(*map(NAMES.index, _RUN))
NONE = -(2**63)
"""The number that represents ``None``."""
_NONE_VALUES = {"i": -(2**31), "q": NONE}
"""The value that represents ``None``, by array type."""


class ValueColumn(ABC):
    @abstractmethod
    def extend(self, values: Sequence[Any]) -> None: ...

    @abstractmethod
    def take(self, which: Integers) -> Iterable[Any]:
        """Return the values of the jobs with these indexes."""

    def finish(self) -> None:  # noqa: B027  # most columns need not know
        """Note that no more values follow."""


class IntegerColumn(ValueColumn):
    """A column of integers or ``None``; 4 bytes each, or 8 after the first greater value."""

    def __init__(self) -> None:
        # One array that grows in place does not fragment the memory.
        self._array = array("i")
        self._missing = _NONE_VALUES["i"]
        self._some_missing = False

    def extend(self, values: Sequence[int | None]) -> None:
        self._some_missing = self._some_missing or None in values
        # Convert the values first: an array that is extended by an invalid value keeps the values before it.
        try:
            more = self._made(values)
        except OverflowError:
            self._widen()
            more = self._made(values)
        self._array.extend(more)

    def _made(self, values: Sequence[int | None]) -> "array[int]":
        missing, nones = self._missing, values.count(None)
        numbers = [missing if value is None else value for value in values]
        if self._array.typecode == "q":
            return array("q", numbers)
        made = array("i", numbers)
        if np.count_nonzero(np.frombuffer(made, np.int32) == missing) > nones:
            raise OverflowError("a number is the one that stands for None")
        return made

    def _widen(self) -> None:
        wide = np.array(self._array, np.int64)
        wide[wide == self._missing] = _NONE_VALUES["q"]
        self._array, self._missing = array("q", wide.tobytes()), _NONE_VALUES["q"]

    @property
    def _numbers(self) -> NDArray[Any]:
        return np.frombuffer(self._array, np.int32 if self._array.typecode == "i" else np.int64)

    def take(self, which: Integers) -> Iterable[int | None]:
        values: list[int | None] = self._numbers[which].tolist()
        if not self._some_missing:
            return values
        missing = self._missing
        return [None if value == missing else value for value in values]

    def extend_numbers(self, numbers: NDArray[np.int64]) -> None:
        """Add numbers, of which :data:`NONE` stands for ``None``."""
        none = numbers == NONE
        known = numbers[~none]
        if self._array.typecode == "i" and len(known) and (known.min() <= self._missing or known.max() >= 2**31):
            self._widen()
        self._some_missing = self._some_missing or bool(none.any())
        kind = np.int32 if self._array.typecode == "i" else np.int64
        self._array.frombytes(np.where(none, self._missing, numbers).astype(kind).tobytes())

    def filled(self, which: Integers, missing: int) -> NDArray[np.int64]:
        values = self._numbers[which].astype(np.int64)
        if self._some_missing:
            values[values == self._missing] = missing
        return values


class CategoryColumn(ValueColumn):
    """A column of values that many jobs share, such as users; each is stored once."""

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}
        self._codes = array("i")
        self._names: list[Any] = []
        self._array: NDArray[Any] = np.empty(0, np.int8)

    def extend(self, values: Sequence[Any]) -> None:
        index = self._index
        self._codes.extend([index.setdefault(value, len(index)) for value in values])

    def extend_codes(self, codes: Integers, names: Sequence[Any]) -> None:
        """Add values that are given as indexes of names."""
        own = np.array([self._index.setdefault(name, len(self._index)) for name in names], np.int32)
        self._codes.frombytes(own[codes].tobytes())

    def finish(self) -> None:
        self._names = list(self._index)
        self._index.clear()
        self._array = np.frombuffer(self._codes, np.int32).astype(np.min_scalar_type(-max(len(self._names), 1)))
        self._codes = array("i")

    def take(self, which: Integers) -> Iterable[Any]:
        names = self._names
        if len(names) == 1:
            return repeat(names[0], len(which))
        return [names[code] for code in self._array[which].tolist()]


class StringColumn(ValueColumn):
    """A column of mostly different texts, such as job ids, concatenated in UTF-8."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._ends = array("q")

    def extend(self, values: Sequence[str]) -> None:
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        before = len(self._content)
        self._content += b"".join(encoded)
        self._ends.extend(accumulate(map(len, encoded), initial=before))
        # The first offset is the known end of the previous texts.
        del self._ends[-len(encoded) - 1]

    def extend_encoded(self, content: bytes, ends: NDArray[np.int64]) -> None:
        """Add texts that are given as one, in UTF-8, with the end of each in it."""
        self._ends.frombytes((ends + len(self._content)).tobytes())
        self._content += content

    def take(self, which: Integers) -> Iterable[str]:
        content, ends = self._content, np.frombuffer(self._ends, np.int64)
        starts = np.where(which > 0, ends[which - 1], 0)
        return [
            content[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts.tolist(), ends[which].tolist(), strict=True)
        ]


class JobColumns(Sequence[CompletedJob]):
    """Many completed jobs; a job becomes an object when it is accessed."""

    def __init__(self, columns: dict[str, tuple[ValueColumn, Integers]]) -> None:
        """:param columns: existing columns, and the indexes of the jobs in each; :meth:`of` creates columns."""
        self._columns = columns
        self._blocks: dict[int, list[CompletedJob]] = {}
        """Objects of the jobs that were accessed by index, by block."""

    @classmethod
    def of(cls, rows: Iterable[Values | CompletedJob]) -> "JobColumns":
        """Return the columns of jobs, given as objects or as their values; columns are returned as they are."""
        if isinstance(rows, JobColumns):
            return rows
        iterator = iter(rows)
        columns: dict[str, ValueColumn] = {}
        count = 0
        while chunk := list(islice(iterator, CHUNK)):
            values = [row if isinstance(row, tuple) else values_of(row) for row in chunk]
            for name, column in zip(NAMES, zip(*values, strict=True), strict=True):
                if name not in columns:
                    columns[name] = _kind(name, column)
                columns[name].extend(column)
            count += len(chunk)
        return cls.filled({name: columns.get(name) or _kind(name, ()) for name in NAMES}, count)

    @classmethod
    def filled(cls, columns: Mapping[str, ValueColumn], count: int) -> "JobColumns":
        """Return ``count`` jobs of columns to which no more is added: :data:`NAMES`, or those that will be used."""
        which = np.arange(count, dtype=np.int32)
        for column in columns.values():
            column.finish()
        return cls({name: (column, which) for name, column in columns.items()})

    @classmethod
    def groups_of(cls, rows: Iterable[Values | CompletedJob], size: int) -> "Iterator[JobColumns]":
        """Yield the columns of consecutive jobs, ``size`` at a time."""
        iterator = iter(rows)
        while jobs := cls.of(islice(iterator, size)):
            yield jobs

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))[1])

    @overload
    def __getitem__(self, index: int) -> CompletedJob: ...
    @overload
    def __getitem__(self, index: slice) -> "JobColumns": ...
    def __getitem__(self, index: int | slice) -> "CompletedJob | JobColumns":
        if isinstance(index, slice):
            return self.select(np.arange(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        number, place = divmod(index, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            if not 0 <= index < len(self):
                raise IndexError(index)
            if len(self._blocks) == BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = self.take(np.arange(number * BLOCK, min((number + 1) * BLOCK, len(self))))
        return block[place]

    def __iter__(self) -> Iterator[CompletedJob]:
        for first in range(0, len(self), CHUNK):
            yield from self.take(np.arange(first, min(first + CHUNK, len(self))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobColumns) and list(self.rows(*NAMES)) == list(other.rows(*NAMES))

    def take(self, which: Integers) -> list[CompletedJob]:
        return jobs_of_columns(self._values(NAMES, which))

    def _values(self, names: Iterable[str], which: Integers) -> list[Iterable[Any]]:
        return [column.take(indexes[which]) for column, indexes in map(self._columns.__getitem__, names)]

    def select(self, which: Integers) -> "JobColumns":
        """Return the jobs with these indexes in this order; they share the columns."""
        chosen = {id(indexes): indexes[which] for _, indexes in self._columns.values()}
        return JobColumns({name: (column, chosen[id(indexes)]) for name, (column, indexes) in self._columns.items()})

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
        return JobColumns({**self._columns, name: (_column(name, values), np.arange(len(self), dtype=np.int32))})

    def is_concatenated(self, name: str) -> bool:
        """Return whether the texts of this field are mostly different, and stored one after the other."""
        return isinstance(self._columns[name][0], StringColumn)

    def numbers(self, name: str, missing: int = -1) -> NDArray[np.int64]:
        column, which = self._columns[name]
        if not isinstance(column, IntegerColumn):
            raise KeyError(f"{name} is not a field of numbers")
        return column.filled(which, missing)

    def teaching(self, teaching: Collection[State]) -> NDArray[np.bool_]:
        """Return which jobs ended in one of these states, so that predictors learn from them."""
        states = starmap(state_of, self.rows("exit_status", "runtime", "walltime", "start"))
        return np.fromiter((state in teaching for state in states), np.bool_, len(self))

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the values of these fields, one tuple per job."""
        for first in range(0, len(self), CHUNK):
            yield from zip(*self._values(names, np.arange(first, min(first + CHUNK, len(self)))), strict=True)

    def values(self, name: str) -> Iterator[Any]:
        for first in range(0, len(self), CHUNK):
            yield from self._values((name,), np.arange(first, min(first + CHUNK, len(self))))[0]


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


def _column(name: str, values: Sequence[Any]) -> ValueColumn:
    column = _kind(name, values[:CHUNK])
    for first in range(0, len(values), CHUNK):
        column.extend(values[first : first + CHUNK])
    column.finish()
    return column


def _kind(name: str, first: Sequence[Any]) -> ValueColumn:
    """Return the column type for a field, by its first values."""
    if name not in TEXTS:
        return IntegerColumn()
    return StringColumn() if len(set(first)) > max(len(first) // 2, 100) else CategoryColumn()
