"""A workload in a file for other processes, read once from its source: Parquet with the states that teach."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import file_digest
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from softwalltime.core.errors import SourceError
from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.parquet import (
    GROUP,
    ParquetWorkload,
    count_groups,
    read_groups,
    read_metadata,
    write_parquet,
)
from softwalltime.measure.replay.recorded_files import SORTED
from softwalltime.measure.replay.workload import Recorded, Scoring, Workload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The jobs of one source in a file; ``digest`` depends on all jobs and on the states that teach.

    ``groups``: the number of row groups; 0: the jobs are not in order of submission.
    """

    path: Path
    digest: str
    jobs: int
    groups: int = 0


def take(workload: Recorded, path: Path) -> Snapshot:
    """Write the jobs, in the order of their source, to a file.

    :raises SourceError: if the file cannot be written.
    """
    metadata = {"teaching": sorted(workload.teaching), SORTED: workload.is_sorted}
    groups = chain.from_iterable(jobs.in_groups(GROUP) for jobs in workload.in_source_order())
    try:
        with path.open("wb") as stream:
            write_parquet(groups, stream, metadata)
        with path.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
    return Snapshot(path, digest[:16], len(workload), count_groups(path) if workload.is_sorted else 0)


def read(path: Path) -> tuple[JobColumns, frozenset[State]]:
    """Return the jobs of a snapshot, and how jobs must have ended to teach; :class:`SourceError` if unreadable."""
    return JobColumns.joined(read_groups(path)), read_teaching(path)


def read_teaching(path: Path) -> frozenset[State]:
    """Return how jobs must have ended to teach; :class:`SourceError` if the snapshot is unreadable."""
    return frozenset(map(State, read_metadata(path)["teaching"]))


def load(path: Path) -> Recorded:
    """Return the workload of a snapshot, read part by part if it is sorted; :class:`SourceError` if unreadable."""
    metadata = read_metadata(path)
    teaching = frozenset(map(State, metadata["teaching"]))
    if metadata[SORTED]:
        return ParquetWorkload(path, None, teaching, Scoring())
    return Workload(read(path)[0], teaching=teaching)


_turn = Lock()
_last: tuple[Path, Any] | None = None


def load_once(path: Path, make: Callable[[Path], T]) -> T:
    """Return what is made of a snapshot; the last one is cached, because a process gets many tasks on the same one.

    Its path names it, as no other run will have the same.  The threads of a Dask worker take turns.

    :raises SourceError: if it cannot be read.
    """
    global _last
    with _turn:
        if _last is None or _last[0] != path:
            # Free the previous workload first: two may not fit into memory.
            _last = None
            try:
                _last = path, make(path)
            except SourceError as error:
                raise SourceError(
                    f"{error} on {socket.gethostname()}: the file must be in a folder that all workers can read"
                ) from error
        return _last[1]
