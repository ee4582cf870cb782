"""Event-driven engine: jobs are submitted, start and end on a machine, in order of time.

At one instant all ends come first, then all submissions, then one scheduling pass.  A job runs over [start, end).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop
from time import perf_counter
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.backfilling import DISCIPLINES
from softwalltime.measure.simulation.machine import Machine, Processors
from softwalltime.measure.simulation.placement import VnodeLayout, VnodeMachine, VnodeRequests
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.pools import limited
from softwalltime.measure.simulation.resources import processors_of_queues, total_processors
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs, jobs_of
from softwalltime.measure.simulation.slack import Bounds
from softwalltime.measure.simulation.system_state import SystemState, named
from softwalltime.predict.predictors.base import Predictor

_STRIDE = 4096
"""Jobs submitted between two reports of progress."""


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """The schedule, one entry per job in the order of the jobs.

    ``start`` in epoch seconds; ``duration`` in seconds; ``promise``: the start that was promised when it first was the
    head, -1 for none; ``extensions``: corrections of its planned end; ``waiting``: the value that it waited with.
    ``seconds``: wall-clock time of the engine.  ``bound``: its latest start (:mod:`slack`), -1 for none; ``None``
    without a slack.
    """

    start: Integers
    duration: Integers
    promise: Integers
    backfilled: NDArray[np.bool_]
    extensions: Integers
    waiting: Integers
    seconds: float
    bound: Integers | None = None


class Engine:
    """One simulation, for a single run.  ``system`` is its state."""

    def __init__(
        self, jobs: Jobs, machine: Machine, policy: SchedulerPolicy,
        predictors: Mapping[str, Predictor] = MappingProxyType({}), values: Values | None = None,
    ) -> None:  # fmt: skip
        """:raises UsageError: if the policy names something that does not exist, or does not suit the machine.

        :param values: of another run of these jobs under this policy, where runtimes and time do not change them.
        """
        self.system = SystemState(jobs, machine, policy, predictors, values)
        self._discipline = named(DISCIPLINES, policy.backfill, "backfilling")(self.system, policy)
        self._schedule = self._discipline.schedule
        self._bounded = policy.slack is not None or policy.backfill == "slack"
        # The backfilling slack sets bounds itself.
        if self._bounded and policy.backfill != "slack":
            self._bounds = Bounds(self.system, policy)
            self._schedule = self._schedule_with_bounds
        self._raise_lead = None if policy.raise_lead is None else min(policy.raise_lead, policy.slack or 0)
        self._live = policy.live
        self._running_already = 0
        self._begin = jobs.submitted[0] if len(jobs) else 0
        self._wakes: list[int] = []

    def resume(self, starts: Sequence[int], values: Sequence[int], now: int, wakes: Iterable[int] = ()) -> None:
        """Begin at ``now`` with the first jobs running, as on a live server, and all later ones waiting.

        :param starts: when each of the running jobs started, in epoch seconds, at most ``now``.
        :param values: the running value of each, in seconds.
        :param wakes: further times of scheduling passes, such as the ends of reservations.
        """
        self._wakes = sorted((time for time in wakes if time > now), reverse=True)
        for job, (start, value) in enumerate(zip(starts, values, strict=True)):
            self.system.resume(job, start, value, now)
        self._running_already = len(starts)
        self._begin = now

    def _schedule_with_bounds(self, now: int, arrived: int) -> None:
        self._bounds.set(now)
        if self._raise_lead is not None:
            self.system.raise_near(now + self._raise_lead)
        self._discipline.schedule(now, arrived)

    def _estimate_anew(self, now: int) -> None:
        """Update the values of all waiting jobs, and of running jobs with predicted values."""
        system = self.system
        values, running = system.values, system.running
        if values.change_at_submission:
            for job in system.queue.jobs:
                values.estimate(job, now)
            system.rank_anew(now)
        for _, job in list(running.jobs()):
            elapsed = now - system.started[job]
            value = values.conditional(job, now, elapsed)
            if value is not None and value > elapsed and value != values.running[job]:
                values.running[job] = value
                running.replan(job, system.started[job] + value)
        self._discipline.discard_plans()

    def run(self, progress: Callable[[int], None] = lambda _: None, until: Iterable[int] = ()) -> ScheduleOutcome:
        """Run to the end of the last job.

        :param until: stop once these jobs have started; the start of a job that has not started then is -1.
        """
        begin = perf_counter()
        system = self.system
        submitted, count = system.jobs.submitted, len(system.jobs)
        values, queue, running, ends = system.values, system.queue, system.running, system.ends
        bits, mask = running.bits, running.mask
        learn, change = values.learn, values.change_at_submission
        schedule = self._schedule
        started = system.started
        next_job = reported = self._running_already
        never = 1 << 62
        next_submission = max(submitted[next_job], self._begin) if next_job < count else never
        awaited = list(until)
        stops = bool(awaited)
        live = self._live
        tick = never
        wakes = self._wakes
        while ends or next_job < count or (wakes and queue.jobs):
            now = next_submission
            if wakes:
                now = min(now, wakes[-1])
            if ends:
                now = min(now, ends[0] >> bits, tick)
                beyond = (now + 1) << bits
                while ends and ends[0] < beyond:
                    job = heappop(ends) & mask
                    system.end(job, now)
                    if learn:
                        values.ended(job, started[job], now)
            while wakes and wakes[-1] <= now:
                wakes.pop()
            first = next_job
            while next_submission <= now:
                if change:
                    values.submitted(next_job, now)
                next_job += 1
                next_submission = submitted[next_job] if next_job < count else never
            arrived = next_job - first
            if arrived:
                system.submit(range(first, next_job), now)
            if now == tick:
                self._estimate_anew(now)
            system.begin_cycle(now)
            if queue.jobs:
                schedule(now, arrived)
                while awaited and started[awaited[-1]] >= 0:
                    awaited.pop()
                if stops and not awaited:
                    break
            if live is not None and (now >= tick or tick == never):
                tick = now + live if ends else never
            if next_job - reported >= _STRIDE:
                progress(next_job - reported)
                reported = next_job
        progress(count - reported)
        lists = (system.started, system.duration, system.promise, running.extensions, values.waiting, system.bound)
        start, duration, promise, extensions, waiting, bound = (np.array(values, np.int64) for values in lists)
        backfilled, seconds = np.array(system.backfilled, np.bool_), perf_counter() - begin
        return ScheduleOutcome(
            start, duration, promise, backfilled, extensions, waiting, seconds, bound if self._bounded else None
        )


def check(policy: SchedulerPolicy, predictors: Mapping[str, Predictor] = MappingProxyType({})) -> None:
    """Check that a policy can be simulated.

    :raises UsageError: if it names something that does not exist, or has a setting that its kind does not use.
    """
    jobs = jobs_of([])
    Engine(jobs, machine_of(jobs, 1, policy), policy, predictors)
    if policy.formula and policy.order != "formula":
        raise OptionError(f"a formula is for the order formula, and the order is {policy.order}")
    if policy.kill_at_estimate and policy.live is not None:
        raise OptionError("a job is killed at the value of its start: live values do not go with kill_at_estimate")
    if (policy.depth or 1) > 1 and policy.backfill not in ("pbs", "conservative", "slack"):
        raise OptionError(f"a depth is for the backfillings pbs, conservative and slack, and it is {policy.backfill}")
    if policy.queue_depths and policy.backfill != "pbs":
        raise OptionError(f"queue_depths are for the backfilling pbs, and it is {policy.backfill}")
    if policy.slack_share != SchedulerPolicy().slack_share and policy.slack is None and policy.backfill != "slack":
        raise OptionError(f"a slack_share is for a slack, or the backfilling slack, and it is {policy.backfill}")
    without_top_job = policy.backfill in ("none", "conservative", "slack")
    if policy.guard is not None and without_top_job:
        raise OptionError(f"a guard needs a top job that candidates overtake: not the backfilling {policy.backfill}")
    if policy.raise_lead is not None and (policy.slack is None or without_top_job):
        raise OptionError(f"raise_lead is for a slack that the backfilling {policy.backfill} only measures")
    if policy.raise_lead is not None and policy.order == "fcfs":
        raise OptionError("raise_lead is for an order other than fcfs")
    if policy.keep_promises is not None and without_top_job:
        raise OptionError(f"keep_promises is for backfillings that promise a few jobs a start, not {policy.backfill}")


def simulate(
    jobs: Jobs, processors: int, policy: SchedulerPolicy, progress: Callable[[int], None] = lambda _: None,
    predictors: Mapping[str, Predictor] = MappingProxyType({}),
) -> ScheduleOutcome:  # fmt: skip
    """Schedule jobs that each fit the machine (:meth:`Jobs.that_fit`) under a policy.

    :raises UsageError: if the policy names something that does not exist, or does not suit the machine.
    """
    return Engine(jobs, machine_of(jobs, processors, policy), policy, predictors).run(progress)


def machine_of(jobs: Jobs, processors: int, policy: SchedulerPolicy) -> Machine:
    """Return an empty machine with the policy's limits and vnodes; see :func:`one_pool`."""
    machine: Machine = Processors(processors, jobs.processors)
    if policy.limits or processors_of_queues(policy.vnodes):
        machine = limited(jobs, processors, policy.vnodes, policy.limits)
    if several_vnodes(policy) and not one_pool(jobs, processors, policy):
        return VnodeMachine(machine, VnodeRequests(VnodeLayout(policy.vnodes), jobs))
    return machine


def several_vnodes(policy: SchedulerPolicy) -> bool:
    return sum(kind.count for kind in policy.vnodes) > 1


def one_pool(jobs: Jobs, processors: int, policy: SchedulerPolicy) -> str:
    """Return a caution where it does not count which of several vnodes is free; empty where it does."""
    total, why = total_processors(policy.vnodes), ""
    if policy.backfill != "pbs":
        why = f"the backfilling {policy.backfill} knows processors only"
    elif total != processors:
        why = f"they have {total:,} processors, not {processors:,}"
    elif not any(jobs.completed.values("select")):
        why = "no job records its chunks (select)"
    return f"the vnodes are simulated as one pool: {why}" if why and several_vnodes(policy) else ""
