"""Limits on running jobs: to which jobs each one applies, and how much a job counts for it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from softwalltime.accounting.chunks import Chunks, chunks_of
from softwalltime.core.jobs import DEFAULT_PROJECT, Submission

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
