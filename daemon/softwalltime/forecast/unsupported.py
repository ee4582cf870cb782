"""What of a server its model does not hold, in sentences for the administrator."""

from softwalltime.errors import OptionError
from softwalltime.forecast.pooling import Pooling
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.simulation.formula import compiled

EXPRESS = 150
"""Priority from which PBS's express queues may preempt (preempt_queue_prio)."""
_PREFIXES = {"ded": "dedicated time", "p_": "prime time", "np_": "non-prime time"}
"""PBS's default prefixes of the names of queues that are open at some times only."""
_PLACED = frozenset({"ncpus", "mem", "ngpus", "arch", "host", "vnode", "aoe", "eoe", "soft_walltime"})
"""Entries of ``resources`` in sched_config that are modelled, or of which nothing is lost by leaving them out."""


def usable_formula(formula: str) -> str:
    """The site's job_sort_formula; empty where the simulator cannot evaluate it."""
    return "" if _fault(formula) else formula


def _fault(formula: str) -> str:
    """Why a formula cannot be evaluated; empty if it can, or there is none."""
    if not formula:
        return ""
    try:
        compiled(formula)
    except OptionError as error:
        return str(error)
    return ""


def unsupported(snapshot: ServerSnapshot, pooling: Pooling, *, every_queue: bool = False) -> list[str]:
    """Say what of the server the model approximates or ignores, and by what.

    :param every_queue: not only the queues of the jobs in the snapshot.
    """
    scheduler = snapshot.scheduler
    fault = _fault(scheduler.formula)
    order = "job_sort_formula" if scheduler.formula and not fault else "the order of arrival"
    queues = {job.submission.queue for job in snapshot.jobs}
    if every_queue:
        queues = {queue.name for queue in snapshot.queues}
    remarks = []
    if fault:
        remarks.append(f"job_sort_formula is approximated by the order of arrival: {fault}")
    if scheduler.fair_share:
        remarks.append(f"fair share is on: the order is approximated by {order}")
    if scheduler.round_robin:
        remarks.append(f"round_robin is on: the order is approximated by {order}")
    express = [queue.name for queue in snapshot.queues if queue.priority >= EXPRESS and queue.name in queues]
    if scheduler.preemption and express:
        remarks.append(f"preemption is not modelled: jobs of {', '.join(express)} may suspend others and start earlier")
    for queue in snapshot.queues:
        if queue.name in queues:
            times = next((what for prefix, what in _PREFIXES.items() if queue.name.startswith(prefix)), None)
            if times is not None:
                remarks.append(f"{times} is not modelled: jobs of queue {queue.name} may start later")
            if queue.backfill_depth is not None:
                remarks.append(f"backfill_depth of queue {queue.name} is not modelled: the server's is used")
    if pooling.limits.unread:
        remarks.append(f"these limits are not modelled: {', '.join(pooling.limits.unread)}")
    standing = [reservation.name for reservation in pooling.reservations if reservation.name.startswith("S")]
    if standing:
        remarks.append(f"of standing reservations only the next occurrence is modelled: {', '.join(standing)}")
    others = [resource for resource in scheduler.resources if resource not in _PLACED]
    if others:
        remarks.append(f"these resources are not modelled: {', '.join(others)}")
    return remarks
