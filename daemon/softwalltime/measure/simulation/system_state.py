"""State of the simulated system: waiting jobs, running jobs, and results so far."""

from collections.abc import Mapping, Sequence
from heapq import heappush
from itertools import chain, islice
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from softwalltime.core.errors import UsageError
from softwalltime.core.promises import is_foreseen
from softwalltime.measure.simulation.corrections import CORRECTIONS, Estimates
from softwalltime.measure.simulation.machine import Machine
from softwalltime.measure.simulation.orders import Order, PlacesFirst, best_first, order_of
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.queue import RankedQueue, RunningJobs, WaitingQueue
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs
from softwalltime.predict.predictors.base import Predictor

T = TypeVar("T")


class SystemState:
    """State that a discipline reads and changes by starting jobs; :class:`.engine.Engine` advances the time.

    ``started``, ``promise``, ``bound`` (epoch seconds, -1 for not yet), ``duration`` (seconds) and ``backfilled`` have
    an entry for each job.  ``queue`` holds the waiting jobs by submission, ``ranked`` by priority, or is ``None`` where
    that changes while they wait.  ``ends`` is a heap of end x 2^bits + job (:class:`.queue.RunningJobs`).  ``order``
    is ``None`` for first come, first served.
    """

    __slots__ = (
        "_change_at_start", "_kill_at_estimate", "_places", "_raised", "_usage", "backfilled", "bound",
        "duration", "ends", "jobs", "machine", "order", "promise", "queue", "ranked", "running", "started", "values",
    )  # fmt: skip

    def __init__(
        self, jobs: Jobs, machine: Machine, policy: SchedulerPolicy,
        predictors: Mapping[str, Predictor] = MappingProxyType({}), values: Values | None = None,
    ) -> None:  # fmt: skip
        count = len(jobs)
        self.jobs = jobs
        self.machine = machine
        self.duration = list(map(min, jobs.runtime, jobs.walltime) if policy.kill_at_walltime else jobs.runtime)
        self._kill_at_estimate = policy.kill_at_estimate
        self.values = values or Values(jobs, policy, self.duration, predictors)
        self._change_at_start = self.values.change_at_start
        self.started = [-1] * count
        self.promise = [-1] * count
        self.bound = [-1] * count
        self.backfilled = [False] * count
        self.queue = WaitingQueue()
        estimates = Estimates(self.started, self.values.running, jobs.walltime, self.values.conditional)
        self.running = RunningJobs(count, named(CORRECTIONS, policy.correction, "correction"), estimates)
        self.ends: list[int] = []
        self.order: Order | None = order_of(jobs, self.values, policy)
        self._places: PlacesFirst | None = None
        self._raised: set[int] = set()
        if self.order is not None and (policy.keep_promises is not None or policy.raise_lead is not None):
            self.order = self._places = PlacesFirst(self.order, count, policy.keep_promises)
        self.ranked: WaitingQueue | None = self.queue
        if self.order is not None:
            self.ranked = RankedQueue() if _has_fixed_ranks(self.order) else None
        self._usage = None if self.order is None else self.order.usage

    def resume(self, job: int, start: int, value: int, now: int) -> None:
        """Let a job run that started before ``now``, at ``start``; it is planned to end at its start + value."""
        self.machine.allocate(job)
        self.started[job] = start
        # It is still running, so its runtime is at least the elapsed time.
        self.duration[job] = max(self.duration[job], now - start + 1)
        self.values.running[job] = value
        heappush(self.ends, (start + self.duration[job]) << self.running.bits | job)
        self.running.add(job, start + value)
        if self._usage is not None:
            # What it has used is known already.
            self._usage.begin_cycle(now)
            self._usage.started(job)

    def begin_cycle(self, now: int) -> None:
        if self._usage is not None:
            self._usage.begin_cycle(now)

    def planned(self, job: int) -> None:
        """Note that a job has become a top job in this cycle."""
        if self._usage is not None:
            self._usage.requested(job)

    def submit(self, jobs: Sequence[int], now: int) -> None:
        """Let jobs wait whose values are known."""
        self.queue.extend(jobs)
        self._rank(jobs, now)

    def rank_anew(self, now: int) -> None:
        if isinstance(self.ranked, RankedQueue):
            self.ranked = RankedQueue()
            self._rank(self.queue.jobs, now)

    def _rank(self, jobs: Sequence[int], now: int) -> None:
        if isinstance(self.ranked, RankedQueue) and self.order is not None:
            priorities = self.order.priorities(np.array(jobs, np.int64), now)
            for job, priority in zip(jobs, priorities.tolist(), strict=True):
                self.ranked.add(job, priority)

    @property
    def in_order(self) -> WaitingQueue:
        """The waiting jobs by priority where that does not change, else by submission."""
        return self.queue if self.ranked is None else self.ranked

    def first(self, now: int) -> int:
        """Return the first waiting job; there must be one."""
        if self.ranked is not None or self.order is None:
            return self.in_order.jobs[0]
        jobs = self.queue.array()
        return int(jobs[self.order.priorities(jobs, now).argmax()])

    def start(self, job: int, now: int, *, backfilled: bool | None = False) -> None:
        """Start a waiting job that fits.

        :param backfilled: whether it overtakes another one; ``None``: if it is not the first by submission.
        """
        if backfilled is not False:
            self.backfilled[job] = job != self.queue.jobs[0] if backfilled is None else backfilled
        self.queue.remove(job)
        if self._places is not None:
            self._places.leave(job)
        if self.ranked is not None and self.ranked is not self.queue:
            self.ranked.remove(job)
        self.machine.allocate(job)
        self.started[job] = now
        if self._change_at_start:
            self.values.started(job, now)
        if self._kill_at_estimate:
            self.duration[job] = min(self.duration[job], self.values.running[job])
        heappush(self.ends, (now + self.duration[job]) << self.running.bits | job)
        self.running.add(job, now + self.values.running[job])
        if self._usage is not None:
            self._usage.started(job)

    def promise_start(self, job: int, start: int, now: int, *, settled: bool = True) -> None:
        """Take a planned start as the job's promise, unless it has one.

        :param settled: false where PBS plans the job with values that its next cycle corrects.
        """
        if is_foreseen(start, now):
            if self._places is not None:
                self._places.plan(job, start, now - self.jobs.submitted[job])
            if settled and self.promise[job] < 0:
                self.promise[job] = start

    def raise_near(self, by: int) -> None:
        """Let the waiting jobs come first whose bounds are at ``by`` (epoch seconds) or before."""
        for job in self.queue.jobs:
            if self._places is not None and 0 <= self.bound[job] <= by:
                self._raised.add(job)
                self._places.take(job)

    def is_late(self, job: int, now: int, seconds: int | None) -> bool:
        """Whether the promised start was more than ``seconds`` ago; false without a promise, and for ``None``.

        A raised job counts as late.
        """
        return seconds is not None and (0 <= self.promise[job] < now - seconds or job in self._raised)

    def end(self, job: int, now: int) -> None:
        """End a running job; predictors learn it elsewhere."""
        self.running.remove(job)
        self.machine.release(job)
        if self._usage is not None:
            self._usage.ended(job, now)

    def by_priority(self, jobs: Integers, now: int, count: int | None = None) -> list[int]:
        """Return the first ``count`` of these waiting jobs, the highest priority first, ties by submission."""
        pieces = iter([jobs]) if self.order is None else best_first(jobs, self.order.priorities(jobs, now))
        return list(islice(chain.from_iterable(piece.tolist() for piece in pieces), count))


def _has_fixed_ranks(order: Order) -> bool:
    return order.fixed and order.usage is None


def named(table: dict[str, T], name: str, what: str) -> T:
    """Return the entry of this name.

    :raises UsageError: if there is none; says which there are.
    """
    if name not in table:
        raise UsageError(f"no {what} is called {name!r}; there are {', '.join(table)}")
    return table[name]
