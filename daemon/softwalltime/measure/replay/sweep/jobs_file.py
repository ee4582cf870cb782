"""A workload in a file for other processes, read once from its source: Parquet with the states that teach."""

import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The jobs of one source in a file; ``digest`` depends on all jobs and on the states that teach."""

    path: Path
    digest: str
    jobs: int


def take(jobs: Sequence[CompletedJob], teaching: Collection[State], path: Path) -> Snapshot:
    """Write the jobs, in their order, to a new file.

    :raises SourceError: if the file cannot be written.
    """
    from softwalltime.measure.replay.parquet import GROUP, write_parquet

    try:
        with path.open("xb") as stream:
            write_parquet(JobColumns.of(jobs).in_groups(GROUP), stream, {"teaching": sorted(teaching)})
        with path.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
    return Snapshot(path, digest[:16], len(jobs))


def read(path: Path) -> tuple[JobColumns, frozenset[State]]:
    """Return the jobs of a snapshot, and how jobs must have ended to teach; :class:`SourceError` if unreadable."""
    from softwalltime.measure.replay.parquet import read_parquet

    jobs, (metadata,) = read_parquet([path])
    return jobs, frozenset(map(State, metadata["teaching"]))


def load(path: Path) -> Workload:
    """Return the workload of a snapshot; :class:`SourceError` if it is unreadable."""
    jobs, teaching = read(path)
    return Workload(jobs, teaching=teaching)


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
