"""Derive the site's scheduler, as a policy of the simulator, and its machine from a snapshot of the PBS server."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from softwalltime.core.errors import OptionError
from softwalltime.measure.forecast.pooling import Pooling, is_up
from softwalltime.measure.forecast.snapshot import SchedulerSettings, ServerSnapshot, default_walltimes
from softwalltime.measure.simulation.orders import compiled
from softwalltime.measure.simulation.policies import SchedulerPolicy

_ELIGIBLE_TIME = re.compile(r"\beligible_time\b")
EXPRESS = 150
"""Priority from which PBS's express queues may preempt (preempt_queue_prio)."""
_PREFIXES = {"ded": "dedicated time", "p_": "prime time", "np_": "non-prime time"}
"""PBS's default prefixes of the names of queues that are open at some times only."""
_PLACED = frozenset({"ncpus", "mem", "ngpus", "arch", "host", "vnode", "aoe", "eoe", "soft_walltime"})
"""Entries of ``resources`` in sched_config that are modelled or can be ignored safely."""


def usable_formula(scheduler: SchedulerSettings) -> str:
    """The site's job_sort_formula; empty where the simulator cannot evaluate it."""
    if _fault(scheduler.formula):
        return ""
    # PBS's eligible_time is 0 while eligible_time_enable is off.
    return scheduler.formula if scheduler.eligible_time else _ELIGIBLE_TIME.sub("0", scheduler.formula)


def _fault(formula: str) -> str:
    """Why a formula cannot be evaluated; empty if it can, or there is none."""
    if not formula:
        return ""
    try:
        compiled(formula)
    except OptionError as error:
        return str(error)
    return ""


def _order(scheduler: SchedulerSettings, *, every_queue: bool) -> Iterator[str]:
    """Yield remarks on the order of the jobs."""
    fault = _fault(scheduler.formula)
    order = "job_sort_formula" if scheduler.formula and not fault else "the order of arrival"
    if fault:
        yield f"job_sort_formula is approximated by the order of arrival: {fault}"
    elif not scheduler.eligible_time and _ELIGIBLE_TIME.search(scheduler.formula):
        yield "eligible_time_enable is off: eligible_time is 0 in job_sort_formula, as in PBS"
    if scheduler.fair_share and every_queue and order == "the order of arrival":
        order = "fair share"
        yield "fair share is simulated with equal shares of all users, by processor time that is halved each day"
    elif scheduler.fair_share:
        yield f"fair share is on: the order is approximated by {order}"
    if scheduler.round_robin:
        yield f"round_robin is on: the order is approximated by {order}"
    elif scheduler.by_queue and order != "the order of arrival":
        yield f"by_queue is on: PBS goes queue by queue and orders each one by {order}; here they are one queue"


def unsupported(snapshot: ServerSnapshot, pooling: Pooling, *, every_queue: bool = False) -> list[str]:
    """Return remarks on what the model approximates or ignores, of ``every_queue`` or those of the snapshot's jobs."""
    scheduler = snapshot.scheduler
    used = {job.submission.queue for job in snapshot.jobs}
    queues = [queue for queue in snapshot.queues if every_queue or queue.name in used]
    remarks = [*_order(scheduler, every_queue=every_queue)]
    express = [queue.name for queue in queues if queue.priority >= EXPRESS]
    if scheduler.preemption and express:
        remarks.append(f"preemption is not modelled: jobs of {', '.join(express)} may suspend others and start earlier")
    for queue in queues:
        for prefix, times in _PREFIXES.items():
            if queue.name.startswith(prefix):
                remarks.append(f"{times} is not modelled: jobs of queue {queue.name} may start later")
        if queue.backfill_depth is not None:
            remarks.append(f"backfill_depth of queue {queue.name} is not modelled: the server's is used")
    if pooling.limits.unread:
        remarks.append(f"these limits are not modelled: {', '.join(pooling.limits.unread)}")
    standing = [reservation.name for reservation in pooling.reservations if reservation.name.startswith("S")]
    if standing and not every_queue:
        remarks.append(f"of standing reservations only the next occurrence is modelled: {', '.join(standing)}")
    others = [resource for resource in scheduler.resources if resource not in _PLACED]
    if others:
        remarks.append(f"these resources are not modelled: {', '.join(others)}")
    if scheduler.unmodelled:
        remarks.append(f"not modelled: {'; '.join(scheduler.unmodelled)}")
    if (several := sum(vnode.ncpus > 0 for vnode in snapshot.vnodes)) > 1:
        remarks.append(f"{several:,} vnodes are one pool: which vnode has free processors and memory is not modelled")
    return remarks


def _machine(snapshot: ServerSnapshot) -> Iterator[str]:
    """Yield remarks on vnodes and reservations, of which the simulation of a log has only the processors."""
    vnodes = snapshot.vnodes
    if down := sum(vnode.ncpus for vnode in vnodes if not is_up(vnode)):
        yield f"{down:,} of the processors are of vnodes that are down or offline: --processors gives another size"
    if bound := sorted({vnode.queue for vnode in vnodes} - {""}):
        yield f"vnodes of queues are for all jobs: {', '.join(bound)}"
    if any("excl" in vnode.sharing and not vnode.sharing.startswith("ignore") for vnode in vnodes):
        yield "jobs get whole vnodes (sharing), but count with the processors that they request"
    if gpus := sum(vnode.ngpus for vnode in vnodes):
        yield f"{gpus:,} GPUs are not simulated: jobs wait for processors only"
    if snapshot.reservations:
        yield f"reservations are not simulated: {len(snapshot.reservations):,}"


_PREDICTION = re.compile(r"\b(predicted|soft_walltime)\b")
"""Resources in a formula that this package sets."""


@dataclass(frozen=True, slots=True)
class SiteScheduler:
    """The scheduler and machine of a site.

    ``name``: a few words for tables and sentences.  ``policy``: the scheduler with PBS's cycle and walltimes.
    ``processors``: of all vnodes, also of those that are down at the moment.  ``walltimes``: of jobs without one, in
    seconds by queue.  ``remarks``: what of the scheduler is not simulated, or approximated.
    """

    name: str
    policy: SchedulerPolicy
    processors: int
    walltimes: Mapping[str, int]
    remarks: tuple[str, ...]


def site_scheduler(snapshot: ServerSnapshot) -> SiteScheduler:
    scheduler = snapshot.scheduler
    pooling = Pooling(snapshot)
    # All queues: past jobs may have been in any of them.
    remarks = [*snapshot.remarks, *unsupported(snapshot, pooling, every_queue=True), *_machine(snapshot)]
    formula = usable_formula(scheduler)
    if "job_priority" in formula:
        remarks.append("job_priority is 0 in job_sort_formula: accounting logs do not hold it")
    if _PREDICTION.search(formula):
        remarks.append(f"job_sort_formula uses predictions ({formula}): the order of arrival stands in its place")
        formula = ""
    policy = scheduler_policy(scheduler, formula)
    if scheduler.fair_share and not formula:
        policy = replace(policy, order="fairshare")
    queues = sorted((queue for queue in snapshot.queues if queue.execution), key=lambda queue: -queue.priority)
    if scheduler.by_queue and not formula and not scheduler.fair_share and len(queues) > 1:
        ranks = tuple((queue.name, len(queues) - rank) for rank, queue in enumerate(queues))
        policy = replace(policy, order="formula", formula="queue_priority", queue_priorities=ranks)
    elif "queue_priority" in formula:
        priorities = tuple((queue.name, queue.priority) for queue in snapshot.queues if queue.execution)
        policy = replace(policy, queue_priorities=priorities)
    if pooling.limits.run_limits:
        remarks.append("limits on running jobs are not simulated")
    processors = sum(vnode.ncpus for vnode in snapshot.vnodes)
    return SiteScheduler(_name(policy), policy, processors, default_walltimes(snapshot), tuple(remarks))


def scheduler_policy(scheduler: SchedulerSettings, formula: str) -> SchedulerPolicy:
    """Return the scheduler's planning as a policy with walltimes and a usable formula (empty: order of arrival)."""
    depth = 1 if scheduler.backfill_depth is None else scheduler.backfill_depth
    strict = scheduler.strict_ordering is not False
    return SchedulerPolicy(
        order="formula" if formula else "fcfs",
        formula=formula,
        backfill="none" if strict and not depth else "pbs",
        depth=depth if depth > 1 else None,
        strict_ordering=strict,
        classes_by_value="soft_walltime" in scheduler.resources,
    )


def _name(policy: SchedulerPolicy) -> str:
    """The scheduler in a few words.

    >>> _name(SchedulerPolicy(backfill="pbs", strict_ordering=False))
    'order of arrival, not strict'
    """
    if policy.formula == "queue_priority" and policy.queue_priorities:
        order = "queue by queue"
    else:
        order = {"fcfs": "order of arrival", "fairshare": "fair share"}.get(policy.order, f"by {policy.formula}")
    if not policy.strict_ordering:
        return f"{order}, not strict"
    return f"{order}, strict, backfill_depth {0 if policy.backfill == 'none' else policy.depth or 1}"
