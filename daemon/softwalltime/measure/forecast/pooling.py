"""Resources that jobs compete for: processors, GPUs, vnodes of queues, limits on running jobs, reservations."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pydantic import TypeAdapter

from softwalltime.accounting.conversions import size, whole
from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.snapshot import LiveJob, ServerSnapshot, VnodeState
from softwalltime.measure.simulation.pools import Shares, Window
from softwalltime.measure.simulation.run_limits import (
    ALL,
    GENERIC,
    JOBS,
    RunLimit,
    amount,
    gpus,
    limits_of_job,
    request_of,
)

_ENTRY = re.compile(r"""\[\s*([ugpo]):\s*("[^"]*"|'[^']*'|[^="'\]]+?)\s*=\s*([^\]]*?)\s*\]""")
# Limit attributes of older PBS versions, with the kind of entity.
_LIMIT = TypeAdapter(RunLimit)
_OLD_LIMITS = {"max_running": "o", "max_user_run": "u", "max_group_run": "g", "max_user_res": "u", "max_group_res": "g"}


class Limits(NamedTuple):
    """The limits of a server; ``unread`` are the attributes that are not modelled."""

    run_limits: tuple[RunLimit, ...]
    unread: tuple[str, ...]


def limits_of(snapshot: ServerSnapshot) -> Limits:
    run_limits: list[RunLimit] = []
    unread: list[str] = []
    for queue, entries in [("", snapshot.scheduler.limits), *((queue.name, queue.limits) for queue in snapshot.queues)]:
        for attribute, value in entries:
            limits = list(read_limits(queue, attribute, value))
            run_limits += limits
            if not limits:
                unread.append(attribute if not queue else f"{attribute} of queue {queue}")
    return Limits(tuple(run_limits), tuple(unread))


def read_limits(queue: str, attribute: str, value: str) -> Iterator[RunLimit]:
    """Yield the limits in an attribute of a queue (empty: of the server); none of one that is not modelled."""
    name, _, resource = attribute.partition(".")
    if "soft" in name:
        return
    old = _OLD_LIMITS.get(name)
    for kind, who, most in [(old, ALL if old == "o" else GENERIC, value)] if old else _ENTRY.findall(value):
        with suppress(ValueError):
            number = size(most) if resource == "mem" else whole(most)
            yield _LIMIT.validate_python(
                {"queue": queue, "kind": kind, "name": who.strip("\"'"), "resource": resource, "most": number}
            )


_DOWN = re.compile(r"\b(down|offline|unknown|stale|provisioning|sleep|maintenance)|(?<!-)\bbusy", re.IGNORECASE)


def is_up(vnode: VnodeState) -> bool:
    """Whether jobs may start on a vnode."""
    return not _DOWN.search(vnode.state)


_UNSURE = ("RESV_UNCONFIRMED", "RESV_DELETED", "RESV_FINISHED", "RESV_BEING_DELETED", "RESV_WAIT")


class Pooling:
    """The resource pools of a server, and each job's share of them.

    ``limits`` are those of the server.  ``windows`` are the processors of reservations.  ``capacities`` are those of
    the pools, the processors first: a limit becomes a pool for each user, group or project when a job of theirs is met.
    """

    def __init__(self, snapshot: ServerSnapshot) -> None:
        self._up = {vnode.name: vnode for vnode in snapshot.vnodes if is_up(vnode)}
        self._all = {vnode.name for vnode in snapshot.vnodes}
        up = self._up.values()
        self.processors = sum(vnode.ncpus for vnode in up)
        self.limits = limits_of(snapshot)
        self.reservations = [
            reservation
            for reservation in snapshot.reservations
            if reservation.state not in _UNSURE and reservation.end > snapshot.taken
        ]
        self.windows = [
            Window(reservation.start, reservation.end, min(reservation.ncpus, self.processors))
            for reservation in self.reservations
            if reservation.ncpus
        ]
        self.capacities = [self.processors]
        self._index: dict[tuple[object, ...], int] = {}
        self._queues = Counter[str]()
        for vnode in up:
            self._queues[vnode.queue] += vnode.ncpus
        if list(self._queues) in ([], [""]):
            self._queues.clear()
        for queue, ncpus in self._queues.items():
            self._pool(("vnodes", queue), ncpus)
        if (total := sum(vnode.ngpus for vnode in up)) > 0:
            self._pool(("gpus",), total)

    @property
    def needed(self) -> bool:
        return bool(len(self.capacities) > 1 or self.limits.run_limits or self.windows)

    def _pool(self, key: tuple[object, ...], capacity: int) -> int:
        if key not in self._index:
            self._index[key] = len(self.capacities)
            self.capacities.append(capacity)
        return self._index[key]

    def shares(self, submission: Submission, processors: int) -> Shares:
        """Return the shares of the pools of a job that holds or needs so many processors (:meth:`held`)."""
        amounts: dict[int, int] = {}
        if self._queues:
            # Queues without vnodes of their own share the others.
            queue = submission.queue if submission.queue in self._queues else ""
            amounts[self._pool(("vnodes", queue), 0)] = processors
        if ("gpus",) in self._index and (count := gpus(submission)):
            amounts[self._index["gpus",]] = count
        for limit, who in limits_of_job(self.limits.run_limits, submission):
            key = (limit.queue, limit.kind, limit.resource, who)
            if count := amount(submission, limit.resource):
                amounts[self._pool(key, limit.most)] = count
        return ((0, processors), *sorted(amounts.items()))

    def held(self, job: LiveJob) -> int:
        """Processors of vnodes that are up that a running job holds, or a waiting job will hold.

        A job with exclusive placement holds whole vnodes.
        """
        asked = job.submission.ncpus or 1
        placed = placed_on(job.exec_vnode) if job.occupies else {}
        if placed:
            vnodes = [self._up[name] for name in placed if name in self._up]
            if vnodes and self._exclusive(job.submission, vnodes):
                return sum(vnode.ncpus for vnode in vnodes)
            if self._all.issuperset(placed):
                return sum(ncpus for name, ncpus in placed.items() if name in self._up)
        return asked if job.occupies else self.needed_by(job.submission)

    def needed_by(self, submission: Submission) -> int:
        """Processors that a job takes when it starts."""
        asked = submission.ncpus or 1
        vnodes = [vnode for vnode in self._up.values() if vnode.queue in ("", submission.queue)]
        if not vnodes or not self._exclusive(submission, vnodes):
            return asked
        size = Counter(vnode.ncpus for vnode in vnodes).most_common(1)[0][0]
        request = request_of(submission)
        count = 0
        for chunks in request.chunks:
            on_one = 1 if request.arrangement.endswith("scatter") else max(size // max(chunks.resources[0], 1), 1)
            count += -(-chunks.count // on_one)
        return max(count * size, asked)

    def _exclusive(self, submission: Submission, vnodes: Sequence[VnodeState]) -> bool:
        """Whether a job gets whole vnodes: by its placement, or by the vnodes' attribute ``sharing``."""
        if all(vnode.sharing.startswith("force_excl") for vnode in vnodes):
            return True
        if all(vnode.sharing.startswith("default_excl") for vnode in vnodes):
            return "shared" not in submission.place
        return request_of(submission).exclusive

    def why_never(self, submission: Submission, shares: Shares) -> str:
        """Return why a job cannot start even on the empty machine, one sentence; empty if it can."""
        if self.inside_queue(submission.queue):
            return f"it is in the queue of reservation {submission.queue}, whose jobs are not forecast"
        names = {index: key for key, index in self._index.items()}
        for pool, need in shares[1:]:
            have = self.capacities[pool]
            if need <= have:
                continue
            match names[pool]:
                case ("gpus",):
                    return f"it needs {need:,} GPUs, the vnodes that are up have {have:,}"
                case ("vnodes", _):
                    return f"it needs {need:,} processors, the vnodes for its queue have {have:,}"
                case (queue, _, resource, who):
                    where = f"queue {queue}" if queue else "the server"
                    what = "jobs" if resource == JOBS else str(resource)
                    return f"{where} lets {who} run {have:,} {what} at one time, and it needs {need:,}"
        return ""

    def inside_queue(self, queue: str) -> bool:
        """Whether a queue is that of a reservation: PBS names it as the reservation, without the server."""
        return any(reservation.name.partition(".")[0] == queue for reservation in self.reservations)


def placed_on(exec_vnode: str) -> dict[str, int]:
    """Processors by vnode of a running job.

    >>> placed_on("(n1:ncpus=8:mem=4gb)+(n1:ncpus=2+n2:ncpus=6)")
    {'n1': 10, 'n2': 6}
    """
    processors: Counter[str] = Counter()
    for part in re.split(r"[()+]+", exec_vnode):
        name, _, resources = part.partition(":")
        match = re.search(r"(?:^|:)ncpus=(\d{1,9})(?:$|:)", resources)
        if name:
            processors[name] += int(match[1]) if match else 0
    return dict(processors)
