"""Completed jobs in Parquet: read in a fraction of the time of a log, also by pandas, polars and DuckDB.

A file has a column for each field of a completed job, with its unit.  Names that many jobs share are stored once for
each row group.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import FIELDS, FieldKind
from softwalltime.measure.replay.job_columns import (
    NAMES,
    NONE,
    TEXTS,
    CategoryColumn,
    IntegerColumn,
    JobColumns,
    StringColumn,
    ValueColumn,
)

GROUP: Final = 1 << 18
"""Jobs of a row group, which are in memory twice while they are written or read."""
_VERSION: Final = 1
_KEY: Final = b"softwalltime"
"""Name of the file's own metadata: JSON with the version of the format, and what the writer adds."""
_TRUTH: Final = "interactive"
_OPTIONAL: Final = (frozenset(NAMES) - TEXTS - {"submitted", "end", "runtime"}) | {_TRUTH}
"""Fields that may be ``None``."""
_UNITS: Final = {
    FieldKind.TIME: "epoch seconds", FieldKind.DURATION: "seconds", FieldKind.WALLTIME: "seconds",
    FieldKind.SIZE: "bytes",
}  # fmt: skip
_UNIT_OF: Final = {field.name: _UNITS.get(field.kind, "") for field in FIELDS}


def write_parquet(groups: Iterable[JobColumns], file: IO[bytes], metadata: dict[str, Any]) -> int:
    """Write the jobs of each row group in their order, and return their number; equal jobs give equal files.

    :param metadata: for the reader, as JSON.
    """
    iterator = iter(groups)
    first = next(iterator, JobColumns.of(()))
    own, count = json.dumps({"version": _VERSION, **metadata}), 0
    schema = pa.schema([_field(first, name) for name in NAMES], {_KEY: own})
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for jobs in chain([first], iterator):
            arrays = [_array(jobs, name, schema.field(name).type) for name in NAMES]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), max(len(jobs), 1))
            count += len(jobs)
    return count


def read_parquet(paths: Iterable[Path]) -> tuple[JobColumns, list[dict[str, Any]]]:
    """Return the jobs of the files, one after the other, and the metadata of each file.

    :raises SourceError: if a file cannot be read, or was not written by :func:`write_parquet`; names it.
    """
    columns: dict[str, ValueColumn] = {}
    found: list[dict[str, Any]] = []
    count = 0
    for path in paths:
        with _opened(path) as (file, metadata):
            found.append(metadata)
            for group in range(file.num_row_groups):
                count += _read_group(file, group, NAMES, columns)
    if not columns:
        return JobColumns.of(()), found
    return JobColumns.filled(columns, count), found


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a file; otherwise as :func:`read_parquet`."""
    with _opened(path) as (_, metadata):
        return metadata


def read_groups(path: Path, names: Collection[str] = NAMES, begin: int = 0) -> Iterator[JobColumns]:
    """Yield the jobs of each row group that has some, with these columns; otherwise as :func:`read_parquet`.

    :param begin: without the first so many of these row groups.
    """
    with _opened(path) as (file, _):
        groups = [group for group in range(file.num_row_groups) if file.metadata.row_group(group).num_rows]
        for group in groups[begin:]:
            columns: dict[str, ValueColumn] = {}
            yield JobColumns.filled(columns, _read_group(file, group, names, columns))


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


def _read_group(file: pq.ParquetFile, group: int, names: Collection[str], columns: dict[str, ValueColumn]) -> int:
    """Add the jobs of a row group to the columns; return their number."""
    table = file.read_row_group(group, list(names))
    for name in names:
        array = table.column(name).combine_chunks()
        if array.null_count and name not in _OPTIONAL:
            raise ValueError(f"column {name} lacks values")
        _extend(columns.setdefault(name, _column(array.type)), array)
    return len(table)


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
    if name not in TEXTS:
        return bool(pa.types.is_int64(kind))
    if name == _TRUTH:
        return bool(pa.types.is_boolean(kind))
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(text) or pa.types.is_large_string(text))


def _field(jobs: JobColumns, name: str) -> pa.Field:
    if name not in TEXTS:
        kind = pa.int64()
    elif name == _TRUTH:
        kind = pa.bool_()
    else:
        kind = pa.large_utf8() if jobs.is_concatenated(name) else pa.dictionary(pa.int32(), pa.large_utf8())
    return pa.field(name, kind, metadata={"unit": _UNIT_OF[name]} if _UNIT_OF[name] else None)


def _array(jobs: JobColumns, name: str, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        numbers = jobs.numbers(name, NONE)
        return pa.array(numbers, kind, mask=numbers == NONE)
    if pa.types.is_boolean(kind):
        return pa.array(list(jobs.values(name)), kind)
    values = list(jobs.values(name))
    if not pa.types.is_dictionary(kind):
        return _texts(values)
    names = list(dict.fromkeys(values))
    codes = dict(zip(names, range(len(names)), strict=True))
    return pa.DictionaryArray.from_arrays(pa.array([codes[value] for value in values], pa.int32()), _texts(names))


def _texts(values: Sequence[str]) -> pa.Array:
    """Return an array of texts, also of those that are not valid UTF-8, which ``pa.array`` refuses."""
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    ends = np.fromiter(accumulate(map(len, encoded), initial=0), np.int64, len(encoded) + 1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_utf8(), len(encoded), buffers)


def _column(kind: pa.DataType) -> ValueColumn:
    if pa.types.is_integer(kind):
        return IntegerColumn()
    return CategoryColumn() if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) else StringColumn()


def _extend(column: ValueColumn, array: pa.Array) -> None:
    if isinstance(column, IntegerColumn):
        column.extend_numbers(array.fill_null(NONE).to_numpy())
    elif isinstance(column, StringColumn):
        # The first file chose the kind of the column; this one may have the other kind.
        texts = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        column.extend_encoded(*_encoded(texts))
    elif isinstance(column, CategoryColumn):
        if pa.types.is_boolean(array.type):
            column.extend(array.to_pylist())
            return
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        column.extend_codes(array.indices.to_numpy(), _decoded(array.dictionary))


def _encoded(texts: pa.Array) -> tuple[bytes, NDArray[np.int64]]:
    """Return the texts as one, in UTF-8, and the end of each."""
    _, ends, content = texts.cast(pa.large_utf8()).buffers()
    bounds = np.frombuffer(ends, np.int64, len(texts) + 1, 8 * texts.offset) if len(texts) else np.zeros(1, np.int64)
    begin, end = int(bounds[0]), int(bounds[-1])
    return (b"" if content is None else content[begin:end].to_pybytes()), bounds[1:] - begin


def _decoded(texts: pa.Array) -> list[str]:
    content, ends = _encoded(texts)
    begins = [0, *ends.tolist()]
    return [
        content[begin:end].decode("utf-8", "surrogatepass") for begin, end in zip(begins, ends.tolist(), strict=False)
    ]
