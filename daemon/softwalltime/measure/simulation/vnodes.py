"""The vnodes of a machine: for the jobs of which queue they are, and what a job takes of them that gets whole ones."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field

from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.run_limits import requested
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

REQUEST = ("ncpus", "nodect", "select", "place", "queue")
"""The fields of a job that say how many processors it takes."""
_EXCLUSIVE, _SHARED = re.compile(r"\bexcl(host)?\b"), re.compile(r"\bshared\b")


@dataclass(frozen=True, slots=True)
class Vnodes:
    """A number of equal vnodes."""

    count: Annotated[int, Field(ge=0)]
    """How many there are."""
    ncpus: Annotated[int, Field(ge=0)]
    """The processors of each."""
    queue: str = ""
    """The queue whose jobs they are for; empty: those of all queues without vnodes of their own."""
    sharing: str = ""
    """PBS's attribute of that name: whether a job gets them as a whole."""


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
    taken = (processors_taken(vnodes, *request) for request in records.rows(*REQUEST))
    return np.where(asked > 0, np.fromiter(taken, np.int64, len(records)), asked)


def jobs_on(vnodes: tuple[Vnodes, ...], jobs: Jobs) -> Jobs:
    """Return the jobs with the processors that they take on these vnodes (:func:`processors_on`)."""
    return replace(jobs, processors=tuple(processors_on(vnodes, jobs.completed).tolist())) if vnodes else jobs
