"""Write every job of a replay and its soft walltimes: ``softwalltime replay --dump``."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.errors import SourceError, UsageError
from softwalltime.replay.workload import Workload
from softwalltime.written import replaced, require_folder, write_csv

JOB_COLUMNS = ("job_id", "user", "queue", "walltime", "runtime")
"""The first columns; a column for each predictor follows."""
_TEXTS = frozenset({"job_id", "user", "queue"})
_PARQUET = ".parquet"


def require_dump(path: Path) -> None:
    """Require that the file can be written, before minutes of work.

    :raises SourceError: if its folder is not writable.
    :raises UsageError: if it is Parquet, and the package for it is missing.
    """
    require_folder(path)
    if path.suffix == _PARQUET and find_spec("duckdb") is None:
        raise UsageError("Parquet needs DuckDB: pip install 'pbs-softwalltime[parquet]', or name a .csv file")


def write_dump(path: Path, workload: Workload, soft_walltimes: Mapping[str, NDArray[np.int64]]) -> None:
    """Write the jobs and their soft walltimes by column, -1 for none: Parquet if the name says so, else CSV.

    :raises SourceError: if the file cannot be written.
    """
    if path.suffix == _PARQUET:
        _write_parquet(path, workload, soft_walltimes)
    else:
        write_csv(path, (*JOB_COLUMNS, *soft_walltimes), _rows(workload, soft_walltimes))


def _rows(workload: Workload, soft_walltimes: Mapping[str, NDArray[np.int64]]) -> Iterator[tuple[object, ...]]:
    lists = [values.tolist() for values in soft_walltimes.values()]
    for job, *values in zip(workload.rows(*JOB_COLUMNS), *lists, strict=True):
        yield (*job, *(None if value < 0 else value for value in values))


def _write_parquet(path: Path, workload: Workload, soft_walltimes: Mapping[str, NDArray[np.int64]]) -> None:
    import duckdb
    from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

    jobs: dict[str, NDArray[Any]] = {}
    for name in JOB_COLUMNS:
        jobs[name] = np.array(list(workload.values(name)), object) if name in _TEXTS else workload.numbers(name)
    jobs |= soft_walltimes
    columns = [
        ColumnExpression(name) if name in _TEXTS
        else FunctionExpression("nullif", ColumnExpression(name), ConstantExpression(-1)).alias(name)
        for name in jobs
    ]  # fmt: skip
    with replaced(path) as stream:
        try:
            with duckdb.connect() as connection:
                connection.register("jobs", jobs)
                connection.table("jobs").select(*columns).write_parquet(stream.name)
        except duckdb.Error as error:
            raise SourceError(f"{path}: cannot be written: {error}") from error
