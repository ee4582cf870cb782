"""Completed jobs as columns: about 150 bytes per job instead of 1,400 for an object."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import accumulate, islice, repeat
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from softwalltime.jobs import CompletedJob, Submission, Values, jobs_of_columns, values_of

CHUNK = 8192
"""Jobs that are objects or rows at one time."""

Integers = NDArray[np.int64] | NDArray[np.int32]

NAMES = tuple(field.name for field in (*fields(Submission), *fields(CompletedJob)[1:]))
"""The columns: the fields of a submission, then those of a completed job."""
_TEXTS = frozenset(
    {"job_id", "user", "group", "project", "account", "job_name", "queue", "select", "place", "interactive", "server"}
)
_SMALLEST = {"i": -(2**31), "q": -(2**63)}
"""The value for ``None`` in an array of this type."""


class _IntegerColumn:
    """A column of integers or ``None``; 4 bytes each, or 8 after the first greater value."""

    def __init__(self) -> None:
        # An array grows in place; many small pieces would fragment the memory.
        self._array = array("i")
        self._missing = _SMALLEST["i"]
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
        """Convert to 8 bytes."""
        wide = np.array(self._array, np.int64)
        wide[wide == self._missing] = _SMALLEST["q"]
        self._array, self._missing = array("q", wide.tobytes()), _SMALLEST["q"]

    def finish(self) -> None:
        """Nothing is left to do."""

    @property
    def _numbers(self) -> NDArray[Any]:
        return np.frombuffer(self._array, np.int32 if self._array.typecode == "i" else np.int64)

    def take(self, which: Integers) -> Iterable[int | None]:
        """The values of some jobs."""
        values: list[int | None] = self._numbers[which].tolist()
        if not self._some_missing:
            return values
        missing = self._missing
        return [None if value == missing else value for value in values]

    def filled(self, which: Integers, missing: int) -> NDArray[np.int64]:
        """Return the values of some jobs, with this number for ``None``."""
        found = self._numbers[which].astype(np.int64)
        if self._some_missing:
            found[found == self._missing] = missing
        return found


class _CategoryColumn:
    """A column of values that many jobs share, such as users; each is stored once."""

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}
        self._codes = array("i")
        self._names: list[Any] = []
        self._array: NDArray[Any] = np.empty(0, np.int8)

    def extend(self, values: Sequence[Any]) -> None:
        index = self._index
        self._codes.extend([index.setdefault(value, len(index)) for value in values])

    def finish(self) -> None:
        """Free the memory that only further values need."""
        self._names = list(self._index)
        self._index.clear()
        self._array = np.frombuffer(self._codes, np.int32).astype(np.min_scalar_type(-max(len(self._names), 1)))
        self._codes = array("i")

    def take(self, which: Integers) -> Iterable[Any]:
        """The values of some jobs."""
        names = self._names
        if len(names) == 1:
            return repeat(names[0], len(which))
        return [names[code] for code in self._array[which].tolist()]


class _TextColumn:
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

    def finish(self) -> None:
        """Nothing is left to do."""

    def take(self, which: Integers) -> Iterable[str]:
        """The values of some jobs."""
        content, ends = self._content, np.frombuffer(self._ends, np.int64)
        starts = np.where(which > 0, ends[which - 1], 0)
        return [
            content[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts.tolist(), ends[which].tolist(), strict=True)
        ]


_Column = _IntegerColumn | _CategoryColumn | _TextColumn


class JobColumns(Sequence[CompletedJob]):
    """Many completed jobs; a job becomes an object when it is accessed."""

    def __init__(self, columns: dict[str, _Column], which: Integers) -> None:
        """Use finished columns and select the jobs with these indexes; :meth:`of` makes the columns."""
        self._columns = columns
        self._which = which

    @classmethod
    def of(cls, rows: Iterable[Values | CompletedJob]) -> "JobColumns":
        """Build the columns from jobs, given as objects or as their values."""
        iterator = iter(rows)
        columns: dict[str, _Column] = {}
        count = 0
        while chunk := list(islice(iterator, CHUNK)):
            values = [row if isinstance(row, tuple) else values_of(row) for row in chunk]
            for name, column in zip(NAMES, zip(*values, strict=True), strict=True):
                if name not in columns:
                    columns[name] = _kind(name, column)
                columns[name].extend(column)
            count += len(chunk)
        for name in NAMES:
            columns.setdefault(name, _IntegerColumn() if name not in _TEXTS else _CategoryColumn()).finish()
        return cls(columns, np.arange(count, dtype=np.int32))

    def __len__(self) -> int:
        return len(self._which)

    @overload
    def __getitem__(self, index: int) -> CompletedJob: ...
    @overload
    def __getitem__(self, index: slice) -> "JobColumns": ...
    def __getitem__(self, index: int | slice) -> "CompletedJob | JobColumns":
        if isinstance(index, slice):
            return JobColumns(self._columns, self._which[index])
        return self.take(np.array([index]))[0]

    def __iter__(self) -> Iterator[CompletedJob]:
        for first in range(0, len(self), CHUNK):
            yield from self._take(self._which[first : first + CHUNK])

    def take(self, which: Integers) -> list[CompletedJob]:
        """Return the jobs with these indexes as objects, in this order."""
        return self._take(self._which[which])

    def _take(self, which: Integers) -> list[CompletedJob]:
        return jobs_of_columns([self._columns[name].take(which) for name in NAMES])

    def select(self, which: Integers) -> "JobColumns":
        """Return the jobs with these indexes in this order; they share the columns."""
        return JobColumns(self._columns, self._which[which])

    def numbers(self, name: str, missing: int = -1) -> NDArray[np.int64]:
        """Return all values of a field, with ``missing`` for ``None``."""
        column = self._columns[name]
        if not isinstance(column, _IntegerColumn):
            raise KeyError(f"{name} is not a field of numbers")
        return column.filled(self._which, missing)

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the values of these fields, one tuple per job."""
        for first in range(0, len(self), CHUNK):
            which = self._which[first : first + CHUNK]
            yield from zip(*(self._columns[name].take(which) for name in names), strict=True)


def _kind(name: str, first: Sequence[Any]) -> _Column:
    """Return the column type for a field, by its first values."""
    if name not in _TEXTS:
        return _IntegerColumn()
    return _TextColumn() if len(set(first)) > max(len(first) // 2, 100) else _CategoryColumn()
