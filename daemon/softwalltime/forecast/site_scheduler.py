"""What a site runs, from a snapshot of its PBS server: the scheduler as a policy of the simulator, and the machine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from softwalltime.forecast.pooling import Pooling
from softwalltime.forecast.snapshot import SchedulerSettings, ServerSnapshot, default_walltimes
from softwalltime.forecast.unsupported import unsupported, usable_formula
from softwalltime.simulation.policies import SchedulerPolicy

_PREDICTION = re.compile(r"\b(predicted|soft_walltime)\b")
"""Names in a formula whose values come from this product."""


@dataclass(frozen=True, slots=True)
class SiteScheduler:
    """What a site runs.

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
    """Read the scheduler, the machine and the default walltimes from a snapshot."""
    scheduler = snapshot.scheduler
    pooling = Pooling(snapshot)
    # All queues count: jobs of the past were in any of them.
    remarks = [*snapshot.remarks, *unsupported(snapshot, pooling, every_queue=True)]
    formula = usable_formula(scheduler.formula)
    if _PREDICTION.search(formula):
        remarks.append(f"job_sort_formula uses predictions ({formula}): the order of arrival stands in its place")
        formula = ""
    policy = scheduler_policy(scheduler, formula)
    if scheduler.fair_share and not formula:
        policy = replace(policy, order="fairshare")
    ranks = _queue_ranks(snapshot)
    if scheduler.by_queue and not formula and not scheduler.fair_share and len(ranks) > 1:
        policy = replace(policy, order="formula", formula="queue_priority", queue_priorities=ranks)
    elif "queue_priority" in formula:
        priorities = tuple((queue.name, queue.priority) for queue in snapshot.queues if queue.execution)
        policy = replace(policy, queue_priorities=priorities)
    if pooling.limits.run_limits:
        remarks.append("limits on running jobs are not simulated")
    return SiteScheduler(
        _name(policy),
        policy,
        sum(vnode.ncpus for vnode in snapshot.vnodes),
        default_walltimes(snapshot),
        tuple(remarks),
    )


def scheduler_policy(scheduler: SchedulerSettings, formula: str) -> SchedulerPolicy:
    """Return the scheduler's planning and its formula as a policy with walltimes.

    :param formula: a job_sort_formula that the simulator can evaluate; empty: order of arrival.
    """
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


def _queue_ranks(snapshot: ServerSnapshot) -> tuple[tuple[str, int], ...]:
    """The execution queues with numbers that descend in the order in which the scheduler looks at them."""
    queues = sorted((queue for queue in snapshot.queues if queue.execution), key=lambda queue: -queue.priority)
    return tuple((queue.name, len(queues) - rank) for rank, queue in enumerate(queues))


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
