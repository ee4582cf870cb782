"""Limits on running jobs, as PBS writes them: ``max_run``, ``max_run_res`` and their older forms.

A limit holds for a queue or for the whole server, and for everybody together (``o:PBS_ALL``), for each user, group or
project (``PBS_GENERIC``), or for one of them by name, which then replaces the generic limit for that one.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from softwalltime.accounting.values import size, whole
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.jobs import DEFAULT_PROJECT, Submission
from softwalltime.simulation.vnodes import request_of

JOBS = ""
"""In place of a resource: the number of jobs is limited."""
COUNTED = (JOBS, "ncpus", "ngpus", "nodect", "mem")
"""Resources whose limits are modelled."""
_ENTRY = re.compile(r"""\[\s*([ugpo]):\s*("[^"]*"|'[^']*'|[^="'\]]+?)\s*=\s*([^\]]*?)\s*\]""")
# Attributes of older versions, each for all of a kind.
_OLD = {"max_running": "o", "max_user_run": "u", "max_group_run": "g", "max_user_res": "u", "max_group_res": "g"}
_GENERIC, _ALL = "PBS_GENERIC", "PBS_ALL"


@dataclass(frozen=True, slots=True)
class RunLimit:
    """One limit: where it holds, for whom, and how much of what may run at one time.

    ``queue`` is empty for the server.  ``kind`` is ``o``, ``u``, ``g`` or ``p``; ``name`` is ``PBS_ALL``,
    ``PBS_GENERIC`` or that of a user, group or project.  ``resource`` is empty where jobs are counted.
    """

    queue: str
    kind: str
    name: str
    resource: str
    most: int
    attribute: str

    def who(self, submission: Submission) -> str:
        """The entity of the limit's kind that a job belongs to."""
        match self.kind:
            case "u":
                return submission.user
            case "g":
                return submission.group
            case "p":
                return submission.project or DEFAULT_PROJECT
        return _ALL


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; ``unread`` are the attributes that are not modelled."""

    run_limits: tuple[RunLimit, ...]
    unread: tuple[str, ...]

    def of(self, submission: Submission) -> Iterator[tuple[RunLimit, str]]:
        """Yield the limits that hold for a job, each with the entity that shares it."""
        named = {(limit.queue, limit.kind, limit.resource, limit.name): limit for limit in self.run_limits}
        for limit in self.run_limits:
            who = limit.who(submission)
            if limit.queue not in ("", submission.queue):
                continue
            own = (limit.queue, limit.kind, limit.resource, who)
            if limit.name == who or (limit.name == _GENERIC and own not in named):
                yield limit, who


def limits_of(snapshot: ServerSnapshot) -> Limits:
    """Return the limits of the server and its queues."""
    run_limits: list[RunLimit] = []
    unread: list[str] = []
    for queue, entries in [("", snapshot.scheduler.limits), *((queue.name, queue.limits) for queue in snapshot.queues)]:
        for attribute, value in entries:
            limits = list(_read(queue, attribute, value))
            run_limits += limits
            if not limits:
                unread.append(attribute if not queue else f"{attribute} of queue {queue}")
    return Limits(tuple(run_limits), tuple(unread))


def _read(queue: str, attribute: str, value: str) -> Iterator[RunLimit]:
    name, _, resource = attribute.partition(".")
    if "soft" in name or resource not in COUNTED:
        return
    entries: Iterable[tuple[str, str, str]]
    if name in _OLD:
        kind = _OLD[name]
        entries = [(kind, _ALL if kind == "o" else _GENERIC, value)]
    else:
        entries = _ENTRY.findall(value)
    for kind, who, most in entries:
        try:
            number = size(most) if resource == "mem" else whole(most)
        except ValueError:
            continue
        yield RunLimit(queue, kind, who.strip("\"'"), resource, number, attribute)


def amount(submission: Submission, resource: str) -> int:
    """How much a job counts for a limit of this resource."""
    match resource:
        case "ncpus":
            return submission.ncpus or 1
        case "nodect":
            return submission.nodect or 1
        case "mem":
            return submission.mem or 0
        case "ngpus":
            return gpus(submission)
    return 1


def gpus(submission: Submission) -> int:
    """GPUs that a job requests."""
    if submission.ngpus is not None:
        return submission.ngpus
    return sum(chunk.count * chunk.resources[2] for chunk in request_of(submission).chunks) if submission.select else 0
