"""Derive the site's scheduler, as a policy of the simulator, and its machine from a snapshot of the PBS server."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from softwalltime.core.errors import OptionError
from softwalltime.measure.forecast.pooling import Pooling
from softwalltime.measure.forecast.server_vnodes import hosts_of, is_up
from softwalltime.measure.forecast.snapshot import SchedulerSettings, ServerSnapshot, default_walltimes
from softwalltime.measure.simulation.fair_share import USAGE_NAMES
from softwalltime.measure.simulation.formula import compiled, names_in
from softwalltime.measure.simulation.orders import ALL_NAMES, FAIR_SHARE_NAMES, NAMES
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import ALL, RunLimit
from softwalltime.measure.simulation.shares import FairShareSettings

_ELIGIBLE_TIME = re.compile(r"\beligible_time\b")
EXPRESS = 150
"""Priority from which PBS's express queues may preempt (preempt_queue_prio)."""
_PREFIXES = {"p_": "prime time", "np_": "non-prime time"}
"""PBS's default prefixes of the names of queues that are open at some times only."""
_PLACED = frozenset({"ncpus", "mem", "ngpus", "arch", "host", "vnode", "aoe", "eoe", "soft_walltime"})
"""Entries of ``resources`` in sched_config that are modelled or can be ignored safely."""


def usable_formula(scheduler: SchedulerSettings, *, with_usage: bool = False) -> str:
    """The site's job_sort_formula; empty where the simulator cannot evaluate it.

    :param with_usage: whether it may have terms of fair share.
    """
    if _fault(scheduler.formula, ALL_NAMES if with_usage else NAMES):
        return ""
    # PBS's eligible_time is 0 while eligible_time_enable is off.
    return scheduler.formula if scheduler.eligible_time else _ELIGIBLE_TIME.sub("0", scheduler.formula)


def knows_usage(scheduler: SchedulerSettings) -> bool:
    """Whether the snapshot has what each user has used so far, on which fair share depends."""
    return scheduler.shares is not None and bool(scheduler.shares.used)


def _fault(formula: str, names: Collection[str]) -> str:
    """Why a formula of these names cannot be evaluated; empty if it can, or there is none."""
    if not formula:
        return ""
    try:
        compiled(formula, names)
    except OptionError as error:
        return str(error)
    return ""


def _order(scheduler: SchedulerSettings, *, every_queue: bool) -> Iterator[str]:
    """Yield remarks on the order of the jobs."""
    with_usage = every_queue or knows_usage(scheduler)
    fault = _fault(scheduler.formula, ALL_NAMES if with_usage else NAMES)
    order = "job_sort_formula" if scheduler.formula and not fault else "the order of arrival"
    if fault:
        yield f"job_sort_formula is approximated by the order of arrival: {fault}"
    elif not scheduler.eligible_time and _ELIGIBLE_TIME.search(scheduler.formula):
        yield "eligible_time_enable is off: eligible_time is 0 in job_sort_formula, as in PBS"
    if scheduler.fair_share and with_usage and order == "the order of arrival":
        order = "fair share"
    elif scheduler.fair_share:
        yield f"fair share is on: the order is approximated by {order}"
    if scheduler.round_robin:
        yield f"round_robin is on: the order is approximated by {order}"


def unsupported(snapshot: ServerSnapshot, pooling: Pooling, *, every_queue: bool = False) -> list[str]:
    """Return remarks on what the model approximates or ignores, of ``every_queue`` or those of the snapshot's jobs."""
    scheduler = snapshot.scheduler
    used = {job.submission.queue for job in snapshot.jobs}
    queues = [queue for queue in snapshot.queues if every_queue or queue.name in used]
    remarks = [*_order(scheduler, every_queue=every_queue)]
    express = [queue.name for queue in queues if queue.priority >= EXPRESS]
    if scheduler.preemption and express:
        remarks.append(f"preemption is not modelled: jobs of {', '.join(express)} may suspend others and start earlier")
    # In a forecast, jobs of a queue for dedicated time have no start.
    prefixes = _PREFIXES | ({scheduler.dedicated_prefix: "dedicated time"} if every_queue else {})
    for queue in queues:
        for prefix, times in prefixes.items():
            if queue.name.startswith(prefix):
                remarks.append(f"{times} is not modelled: jobs of queue {queue.name} may start later")
    if pooling.unread_limits:
        remarks.append(f"these limits are not modelled: {', '.join(pooling.unread_limits)}")
    standing = [reservation.name for reservation in pooling.reservations if reservation.name.startswith("S")]
    if standing and not every_queue:
        remarks.append(f"of standing reservations only the next occurrence is modelled: {', '.join(standing)}")
    others = [resource for resource in scheduler.resources if resource not in _PLACED]
    if others:
        remarks.append(f"these resources are not modelled: {', '.join(others)}")
    if scheduler.unmodelled:
        remarks.append(f"not modelled: {'; '.join(scheduler.unmodelled)}")
    return remarks


def _machine(snapshot: ServerSnapshot) -> Iterator[str]:
    """Yield remarks on vnodes that are down and on reservations, which the simulation of a log does not have."""
    vnodes = snapshot.vnodes
    if down := sum(vnode.ncpus for vnode in vnodes if not is_up(vnode)):
        yield f"{down:,} of the processors are of vnodes that are down or offline: --processors gives another size"
    if snapshot.reservations:
        yield f"reservations and dedicated times are not simulated: {len(snapshot.reservations):,}"


def considered_resources(scheduler: SchedulerSettings) -> Collection[str]:
    """Return the resources that the scheduler considers; if that is unknown, GPUs and memory too."""
    return scheduler.resources or ("ngpus", "mem")


def _machine_limits(snapshot: ServerSnapshot) -> Iterator[RunLimit]:
    """Yield what all vnodes have of GPUs and memory together, where the scheduler considers them."""
    considered = considered_resources(snapshot.scheduler)
    totals: dict[Literal["ngpus", "mem"], int] = {
        "ngpus": sum(vnode.ngpus for vnode in snapshot.vnodes), "mem": sum(vnode.mem for vnode in snapshot.vnodes),
    }  # fmt: skip
    for resource, total in totals.items():
        if total and resource in considered:
            yield RunLimit("", "o", ALL, resource, total)


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
    formula = usable_formula(scheduler, with_usage=True)
    if "job_priority" in formula:
        remarks.append("job_priority is 0 in job_sort_formula: accounting logs do not hold it")
    if _PREDICTION.search(formula):
        remarks.append(f"job_sort_formula uses predictions ({formula}): the order of arrival stands in its place")
        formula = ""
    policy = scheduler_policy(scheduler, formula)
    if scheduler.fair_share and not formula:
        policy = replace(policy, order="fairshare")
    if policy.order == "fairshare" or (formula and not names_in(formula).isdisjoint(FAIR_SHARE_NAMES)):
        shares, remark = usable_shares(scheduler)
        # A log begins before that usage.
        policy = replace(policy, fair_share=shares and replace(shares, used=(), decayed=None))
        remarks += [remark] * bool(remark)
    policy = replace(policy, queues=queues_in_turn(snapshot), queue_depths=queue_depths(snapshot))
    if "queue_priority" in formula:
        priorities = tuple((queue.name, queue.priority) for queue in snapshot.queues if queue.execution)
        policy = replace(policy, queue_priorities=priorities)
    limits = (*pooling.run_limits, *_machine_limits(snapshot))
    policy = replace(policy, limits=limits, vnodes=hosts_of(snapshot.vnodes, considered_resources(scheduler)))
    processors = sum(vnode.ncpus for vnode in snapshot.vnodes)
    return SiteScheduler(_name(policy), policy, processors, default_walltimes(snapshot), tuple(remarks))


def queues_in_turn(snapshot: ServerSnapshot) -> tuple[str, ...]:
    """Return the queues in the order in which the scheduler goes through them; empty if they are one queue to it."""
    queues = sorted((queue for queue in snapshot.queues if queue.execution), key=lambda queue: -queue.priority)
    in_turn = snapshot.scheduler.by_queue and not snapshot.scheduler.round_robin and len(queues) > 1
    return tuple(queue.name for queue in queues) if in_turn else ()


def plans_ahead(scheduler: SchedulerSettings) -> bool:
    """Whether the model has PBS's backfilling: not where jobs start strictly in order and ``backfill_depth`` is 0."""
    return scheduler.backfill_depth != 0 or scheduler.strict_ordering is False


def queue_depths(snapshot: ServerSnapshot) -> tuple[tuple[str, int], ...]:
    """Return the ``backfill_depth`` of each queue that has its own; none if no job is planned ahead."""
    if not plans_ahead(snapshot.scheduler):
        return ()
    return tuple((queue.name, queue.backfill_depth) for queue in snapshot.queues if queue.backfill_depth is not None)


def usable_shares(scheduler: SchedulerSettings) -> tuple[FairShareSettings | None, str]:
    """Return the settings of fair share as they can be simulated, and a remark on what differs."""
    shares, usual = scheduler.shares, FairShareSettings()
    if shares is None:
        return None, f"fair share: its options are unknown, equal shares of all users of {usual.usage} are simulated"
    if fault := _fault(shares.usage, USAGE_NAMES):
        return replace(shares, usage=usual.usage), f"fairshare_usage_res is simulated as {usual.usage}: {fault}"
    return shares, ""


def scheduler_policy(scheduler: SchedulerSettings, formula: str) -> SchedulerPolicy:
    """Return the scheduler's planning as a policy with walltimes and a usable formula (empty: order of arrival)."""
    depth = 1 if scheduler.backfill_depth is None else scheduler.backfill_depth
    return SchedulerPolicy(
        order="formula" if formula else "fcfs",
        formula=formula,
        backfill="pbs" if plans_ahead(scheduler) else "none",
        depth=depth if depth > 1 else None,
        strict_ordering=scheduler.strict_ordering is not False,
        classes_by_value="soft_walltime" in scheduler.resources,
    )


def _name(policy: SchedulerPolicy) -> str:
    """The scheduler in a few words.

    >>> _name(SchedulerPolicy(backfill="pbs", strict_ordering=False))
    'order of arrival, not strict'
    """
    order = {"fcfs": "order of arrival", "fairshare": "fair share"}.get(policy.order, f"by {policy.formula}")
    if policy.queues:
        order = f"queue by queue, {order}"
    if not policy.strict_ordering:
        return f"{order}, not strict"
    own = "".join(f", {depth} of {queue}" for queue, depth in policy.queue_depths)
    return f"{order}, strict, backfill_depth {0 if policy.backfill == 'none' else policy.depth or 1}{own}"
