"""What jobs take of a machine: their requests, limits on running jobs, and vnodes that they get as a whole."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from softwalltime.accounting.chunks import Chunks, chunks_of
from softwalltime.core.jobs import DEFAULT_PROJECT, Submission
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Integers

JOBS = ""
"""Resource name of limits on the number of jobs."""
GENERIC, ALL = "PBS_GENERIC", "PBS_ALL"
"""Names for each, and for all together."""


@dataclass(frozen=True, slots=True)
class RunLimit:
    """A limit on running jobs."""

    queue: str
    """The queue; empty: the server."""
    kind: Literal["o", "u", "g", "p"]
    """o: of all together, u: of a user, g: of a group, p: of a project."""
    name: str
    """PBS_ALL, PBS_GENERIC for each, or one user, group or project."""
    resource: Literal["", "ncpus", "ngpus", "nodect", "mem"]
    """The resource; memory is in bytes; empty: jobs are counted."""
    most: Annotated[int, Field(ge=0)]
    """The limit."""


def limits_of_job(run_limits: Sequence[RunLimit], submission: Submission) -> Iterator[tuple[RunLimit, str]]:
    """Yield the limits that hold for a job, each with the entity that shares it.

    A limit holds for a queue or for the whole server, and for everybody together (``o:PBS_ALL``), for each user, group
    or project (``PBS_GENERIC``), or for one of them by name, which then replaces the generic limit for that one.
    """
    project = submission.project or DEFAULT_PROJECT
    entities = {"u": submission.user, "g": submission.group, "p": project, "o": ALL}
    named = {(limit.queue, limit.kind, limit.resource, limit.name) for limit in run_limits}
    for limit in run_limits:
        who = entities[limit.kind]
        own = (limit.queue, limit.kind, limit.resource, who)
        holds = limit.name == who or (limit.name == GENERIC and own not in named)
        if holds and limit.queue in ("", submission.queue):
            yield limit, who


def amount(submission: Submission, resource: str) -> int:
    """How much a job counts for a limit of this resource."""
    if resource == "ngpus":
        return gpus(submission)
    amounts = {"ncpus": submission.ncpus or 1, "nodect": submission.nodect or 1, "mem": submission.mem or 0}
    return amounts.get(resource, 1)


def gpus(submission: Submission) -> int:
    if submission.ngpus is not None:
        return submission.ngpus
    return sum(chunk.count * chunk.resources[2] for chunk in request_of(submission).chunks) if submission.select else 0


class ResourceRequest(NamedTuple):
    """A job's request: chunks, and their arrangement (free, pack, scatter, vscatter)."""

    chunks: tuple[Chunks, ...]
    arrangement: str


def request_of(job: Submission) -> ResourceRequest:
    """Return a job's request; without a readable ``select``: ``nodect`` equal chunks, or chunks of one processor."""
    return requested(job.select, job.place, job.ncpus or 1, job.nodect or 0, job.mem or 0, job.ngpus or 0)


# Not more: users choose how many chunks their jobs have.
@lru_cache(maxsize=1 << 12)
def requested(select: str, place: str, ncpus: int, nodect: int, mem: int = 0, ngpus: int = 0) -> ResourceRequest:
    """Return the request of a job with these attributes (:func:`request_of`)."""
    words = place.replace(":", " ").split()
    arrangement = next((word for word in words if word in ("free", "pack", "scatter", "vscatter")), "free")
    if select:
        with suppress(ValueError):
            return ResourceRequest(chunks_of(select), arrangement)
    count = nodect if 1 < nodect <= ncpus else ncpus
    per_chunk = (-(-ncpus // count), mem // count, -(-ngpus // count))
    return ResourceRequest((Chunks(count, per_chunk),), arrangement)


REQUEST = ("ncpus", "nodect", "select", "place", "queue")
"""The fields of a job that say how many processors it takes."""
_EXCLUSIVE, _SHARED = re.compile(r"\bexcl(host)?\b"), re.compile(r"\bshared\b")


@dataclass(frozen=True, slots=True)
class Vnodes:
    """A number of equal vnodes."""

    count: Annotated[int, Field(ge=0, le=1_000_000)]
    """How many there are."""
    ncpus: Annotated[int, Field(ge=0)]
    """The processors of each."""
    queue: str = ""
    """The queue whose jobs they are for; empty: those of all queues without vnodes of their own."""
    sharing: str = ""
    """PBS's attribute of that name: whether a job gets them as a whole."""
    mem: Annotated[int, Field(ge=0)] = 0
    """The memory of each in bytes; 0: unknown, or not considered by the scheduler."""
    ngpus: Annotated[int, Field(ge=0)] = 0
    """The GPUs of each."""


def total_processors(vnodes: Iterable[Vnodes]) -> int:
    return sum(kind.count * kind.ncpus for kind in vnodes)


def processors_of_queues(vnodes: Iterable[Vnodes]) -> dict[str, int]:
    """Return the processors of the vnodes for each queue, and of those for others; empty if no queue has its own."""
    found = Counter[str]()
    for kind in vnodes:
        found[kind.queue] += kind.count * kind.ncpus
    return {} if set(found) <= {""} else dict(found)


def gets_whole(place: str, sharing: str) -> bool:
    """Return whether a job with this placement gets a vnode as a whole, as PBS's scheduler decides."""
    if sharing.startswith("force_excl"):
        return True
    if sharing.startswith("ignore_excl"):
        return False
    return bool(_EXCLUSIVE.search(place)) or (sharing.startswith("default_excl") and not _SHARED.search(place))


# Not more: users choose how long their requests are.
@lru_cache(maxsize=1 << 12)
def processors_taken(
    vnodes: tuple[Vnodes, ...], ncpus: int | None, nodect: int | None, select: str, place: str, queue: str
) -> int:
    """Return the processors that a job takes when it starts: those of whole vnodes, or those that it requests."""
    asked = ncpus or 1
    own = queue if any(kind.queue == queue for kind in vnodes) else ""
    usable = [kind for kind in vnodes if kind.queue == own and kind.count and kind.ncpus]
    if not usable or not all(gets_whole(place or "", kind.sharing) for kind in usable):
        return asked
    sizes = Counter[int]()
    for kind in usable:
        sizes[kind.ncpus] += kind.count
    size = sizes.most_common(1)[0][0]
    request = requested(select or "", place or "", asked, nodect or 0)
    counts = Counter[int]()
    for chunks in request.chunks:
        counts[max(chunks.resources[0], 1)] += chunks.count
    scatter = request.arrangement.endswith("scatter")
    count = sum(counts.values()) if scatter else sum(-(-n // max(size // each, 1)) for each, n in counts.items())
    return max(count * size, asked)


def processors_on(vnodes: tuple[Vnodes, ...], records: JobColumns) -> Integers:
    """Return the processors that each job takes on these vnodes; those that it requests where there are none."""
    asked = records.numbers("ncpus")
    if not vnodes:
        return asked
    # Vnodes that differ in memory alone are one kind here: the kinds are compared for each job.
    counts = Counter[tuple[int, str, str]]()
    for kind in vnodes:
        counts[kind.ncpus, kind.queue, kind.sharing] += kind.count
    kinds = tuple(Vnodes(count, *kind) for kind, count in counts.items())
    taken = (processors_taken(kinds, *request) for request in records.rows(*REQUEST))
    return np.where(asked > 0, np.fromiter(taken, np.int64, len(records)), asked)
