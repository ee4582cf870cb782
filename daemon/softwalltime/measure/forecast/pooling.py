"""Resources that jobs compete for: processors, GPUs, vnodes of queues, limits on running jobs, reservations."""

import re
from collections.abc import Iterator
from contextlib import suppress

from pydantic import TypeAdapter

from softwalltime.accounting.conversions import size, whole
from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.server_vnodes import is_up, placed_on, vnodes_of
from softwalltime.measure.forecast.snapshot import LiveJob, ServerSnapshot
from softwalltime.measure.simulation import pools
from softwalltime.measure.simulation.pools import PoolTable, Shares, Window
from softwalltime.measure.simulation.resources import ALL, GENERIC, JOBS, RunLimit, gets_whole, processors_taken

_ENTRY = re.compile(r"""\[\s*([ugpo]):\s*("[^"]*"|'[^']*'|[^="'\]]+?)\s*=\s*([^\]]*?)\s*\]""")
# Limit attributes of older PBS versions, with the kind of entity.
_LIMIT = TypeAdapter(RunLimit)
_OLD_LIMITS = {"max_running": "o", "max_user_run": "u", "max_group_run": "g", "max_user_res": "u", "max_group_res": "g"}


def limits_of(snapshot: ServerSnapshot) -> tuple[list[RunLimit], list[str]]:
    """Return the limits of a server, and the attributes of limits that are not modelled.

    Soft limits have an effect only by a ``preempt_prio`` that names them, which is a remark of its own.
    """
    run_limits: list[RunLimit] = []
    unread: list[str] = []
    for queue, entries in [("", snapshot.scheduler.limits), *((queue.name, queue.limits) for queue in snapshot.queues)]:
        for attribute, value in entries:
            limits = list(read_limits(queue, attribute, value))
            run_limits += limits
            if not limits and "soft" not in attribute:
                unread.append(attribute if not queue else f"{attribute} of queue {queue}")
    return run_limits, unread


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


_UNSURE = ("RESV_UNCONFIRMED", "RESV_DELETED", "RESV_FINISHED", "RESV_BEING_DELETED", "RESV_WAIT")


class Pooling:
    """The resource pools of a server, and each job's share of them.

    ``run_limits`` are those of the server.  ``windows`` are the processors of reservations.
    """

    def __init__(self, snapshot: ServerSnapshot) -> None:
        self._up = {vnode.name: vnode for vnode in snapshot.vnodes if is_up(vnode)}
        self._all = {vnode.name for vnode in snapshot.vnodes}
        self._vnodes = vnodes_of(self._up.values())
        self.processors = sum(vnode.ncpus for vnode in self._up.values())
        self.run_limits, self.unread_limits = limits_of(snapshot)
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
        total_gpus = sum(vnode.ngpus for vnode in self._up.values())
        self._table = PoolTable(self.processors, self._vnodes, self.run_limits, total_gpus)
        self.shares = self._table.shares
        self.capacities = self._table.capacities

    @property
    def needed(self) -> bool:
        return bool(len(self.capacities) > 1 or self.run_limits or self.windows)

    def held(self, job: LiveJob) -> int:
        """Processors of vnodes that are up that a running job holds, or a waiting job will hold.

        A job with exclusive placement holds whole vnodes.
        """
        submission = job.submission
        if not job.occupies:
            return processors_taken(
                self._vnodes, submission.ncpus, submission.nodect, submission.select, submission.place, submission.queue
            )
        placed = placed_on(job.exec_vnode)
        vnodes = [self._up[name] for name in placed if name in self._up]
        if vnodes and all(gets_whole(submission.place, vnode.sharing) for vnode in vnodes):
            return sum(vnode.ncpus for vnode in vnodes)
        if placed and self._all.issuperset(placed):
            return sum(amounts[0] for name, amounts in placed.items() if name in self._up)
        return submission.ncpus or 1

    def why_never(self, submission: Submission, shares: Shares) -> str:
        """Return why a job cannot start even on the empty machine, one sentence; empty if it can."""
        if self.inside_queue(submission.queue):
            return f"it is in the queue of reservation {submission.queue}, whose jobs are not forecast"
        for name, need, have in self._table.above(shares):
            match name:
                case (pools.GPUS,):
                    return f"it needs {need:,} GPUs, the vnodes that are up have {have:,}"
                case (pools.VNODES, _):
                    return f"it needs {need:,} processors, the vnodes for its queue have {have:,}"
                case (queue, _, resource, who):
                    where = f"queue {queue}" if queue else "the server"
                    what = "jobs" if resource == JOBS else resource
                    return f"{where} lets {who} run {have:,} {what} at one time, and it needs {need:,}"
        return ""

    def inside_queue(self, queue: str) -> bool:
        """Whether a queue is that of a reservation: PBS names it as the reservation, without the server."""
        return any(reservation.name.partition(".")[0] == queue for reservation in self.reservations)
