"""A workload in a file for other processes, read once from its source.

The file has a line of JSON for the states that teach, then one line per field of :class:`CompletedJob` with its values
for all jobs.  Equal jobs give equal files.  Unlike pickle, it contains no code, and it is faster to read.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from softwalltime.errors import SourceError
from softwalltime.jobs import CompletedJob, Submission
from softwalltime.replay.workload import Workload
from softwalltime.states import State

_SUBMISSION = tuple(field.name for field in fields(Submission))
_COMPLETION = tuple(field.name for field in fields(CompletedJob) if field.name != "submission")
_READERS: tuple[Callable[[CompletedJob], object], ...] = (
    *(attrgetter(f"submission.{name}") for name in _SUBMISSION),
    *(attrgetter(name) for name in _COMPLETION),
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The jobs of one source in a file.

    ``digest`` depends on all jobs and on the states that teach; ``jobs`` is the number of jobs.
    """

    path: Path
    digest: str
    jobs: int


def take(jobs: Sequence[CompletedJob], teaching: Collection[State], path: Path) -> Snapshot:
    """Write the jobs, in their order, to a new file.

    :param teaching: how jobs must have ended to teach.
    :raises SourceError: if the file cannot be written.
    """
    digest = sha256()
    try:
        with path.open("xb") as stream:
            for values in (sorted(teaching), *([read(job) for job in jobs] for read in _READERS)):
                line = json.dumps(values).encode() + b"\n"
                digest.update(line)
                stream.write(line)
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}") from error
    return Snapshot(path, digest.hexdigest()[:16], len(jobs))


def load(path: Path) -> Workload:
    """Read the workload of a snapshot.

    :raises OSError: if it cannot be read.
    """
    with path.open("rb") as stream:
        teaching = frozenset(map(State, json.loads(stream.readline())))
        columns = [_column(line) for line in stream]
    submissions = map(Submission, *columns[: len(_SUBMISSION)])
    jobs = list(map(CompletedJob, submissions, *columns[len(_SUBMISSION) :]))
    return Workload(jobs, teaching=teaching)


def _column(line: bytes) -> list[object]:
    values: list[object] = json.loads(line)
    if values and type(values[0]) is str:
        # Users, projects and queues are few; each text once takes less memory than one for every job.
        texts: dict[object, object] = {}
        return [texts.setdefault(value, value) for value in values]
    return values
