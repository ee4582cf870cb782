"""Completed jobs in Parquet: read in a fraction of the time of a log, also by pandas, polars and DuckDB.

A file has a column for each field of a completed job, with its unit.  Names that many jobs share are stored once for
each row group.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import FIELDS, FieldKind
from softwalltime.measure.replay.job_columns import KINDS, NAMES, SHARED, JobColumns

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


def read_groups(path: Path, names: Collection[str] = NAMES, begin: int = 0) -> Iterator[JobColumns]:
    """Yield the jobs of each row group that has some, with these columns; otherwise as :func:`read_metadata`.

    :param begin: without the first so many of these row groups.
    """
    with _opened(path) as (file, _):
        groups = [group for group in range(file.num_row_groups) if file.metadata.row_group(group).num_rows]
        for group in groups[begin:]:
            table = file.read_row_group(group, list(names))
            yield JobColumns({name: _read(name, table.column(name).combine_chunks()) for name in names})


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
