"""EASY backfilling: one scheduling pass over the waiting jobs.

EASY (D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs start in order while they fit.  The first
that does not is the head.  Its shadow is the earliest planned end of running jobs by which enough processors are free;
``extra`` processors are left over then.  A later job starts if it fits now and either its waiting value ends by the
shadow or it needs at most the extra processors.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from softwalltime.simulation.conservative import ConservativeBackfilling
from softwalltime.simulation.jobs import Integers
from softwalltime.simulation.machine import processors_of
from softwalltime.simulation.order import Order
from softwalltime.simulation.pbs import PbsCycle
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.pooled import PooledEasyBackfilling
from softwalltime.simulation.pools import Pools
from softwalltime.simulation.queue import LONG
from softwalltime.simulation.system_state import SystemState

BLOCK = 512
"""Candidates that are looked at first, where their order is known."""


class Discipline(Protocol):
    """Decides at each instant which waiting jobs start."""

    def schedule(self, now: int, arrived: int) -> None:
        """Start jobs through :meth:`.SystemState.start`.

        :param arrived: how many of the waiting jobs, the last ones, were submitted at this instant.
        """

    def discard_plans(self) -> None:
        """Discard plans made from values that have changed."""


class EasyBackfilling:
    """EASY with one reservation, under any order.

    Candidates come in queue order, or by their waiting value (SJBF).  While a scan cannot find more than the last one
    did, because the same head has no later shadow, no more extra and no more free processors, only the jobs that
    were submitted since are looked at: time alone never helps a candidate.
    """

    def __init__(self, system: SystemState, policy: Policy) -> None:
        """
        :param policy: ``backfill`` is ``none`` (only heads start), ``easy`` or ``sjbf``; with a ``guard``, candidates
            count with their walltime once the head is that many seconds past its promise.
        """
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._order = system.order
        self._shortest = policy.backfill == "sjbf"
        self._backfill = policy.backfill != "none"
        self._guard = policy.guard
        self._needs = system.jobs.processors
        self._needs_array = np.array(self._needs, np.int64)
        # The last scan: its head, and what was left at its end.
        self._head = -1
        self._shadow = self._extra = self._free = 0
        # The running jobs at which the shadow was found.
        self._version = -1
        self._found = (0, 0)

    def discard_plans(self) -> None:
        """Scan all waiting jobs at the next pass."""
        self._head = -1

    def schedule(self, now: int, arrived: int) -> None:
        """Start heads, then candidates."""
        system, machine, needs = self._system, self._machine, self._needs
        waiting = system.queue.jobs
        ranking: Integers | None = None
        if self._order is None:
            while waiting:
                head = waiting[0]
                if needs[head] > machine.free:
                    break
                system.start(head, now)
            if not waiting:
                return
            head = waiting[0]
        else:
            if not waiting:
                return
            head, ranking = self._heads(self._order, now)
            if head < 0:
                return
        if not self._backfill:
            return
        shadow, extra = self._reservation(head, now)
        if system.promise[head] < 0:
            system.promise[head] = shadow
        free = machine.free
        old = (
            head == self._head
            and shadow <= self._shadow
            and extra <= self._extra
            and free <= self._free
        )  # fmt: skip
        if free and (arrived if old else len(waiting) > 1):
            guarded = self._guard is not None and now > system.promise[head] + self._guard
            self._scan(head, now, shadow, extra, arrived if old else len(waiting), ranking, guarded)
        else:
            self._head, self._shadow, self._extra, self._free = head, shadow, extra, free

    def _heads(self, order: Order, now: int) -> tuple[int, Integers | None]:
        """Start jobs in order of priority while they fit; return the head (-1 for none) and all jobs as ranked.

        The ranking holds started jobs too; it is ``None`` where it was not needed yet.
        """
        system, machine, needs = self._system, self._machine, self._needs
        queue = system.queue
        jobs = queue.array()
        priorities = order.priorities(jobs, now)
        best = int(jobs[priorities.argmax()])
        if needs[best] > machine.free:
            return best, None
        if order.changes_on_start:
            return self._changing_heads(order, best, now), None
        ranked = jobs[np.argsort(-priorities, kind="stable")]
        for position, job in enumerate(ranked.tolist()):
            if needs[job] > machine.free:
                return job, ranked[position + 1 :]
            system.start(job, now)
        return -1, None

    def _changing_heads(self, order: Order, best: int, now: int) -> int:
        """Start jobs in order of priority, which each start changes; return the head, -1 for none."""
        system, machine, needs = self._system, self._machine, self._needs
        while needs[best] <= machine.free:
            system.start(best, now)
            if not system.queue.jobs:
                return -1
            jobs = system.queue.array()
            best = int(jobs[order.priorities(jobs, now).argmax()])
        return best

    def _reservation(self, head: int, now: int) -> tuple[int, int]:
        """The head's shadow and the extra processors."""
        running = self._system.running
        running.correct(now)
        if running.version != self._version or head != self._head:
            self._found = running.shadow(self._needs[head], self._machine.free, self._needs)
            self._version = running.version
        return self._found

    def _scan(
        self, head: int, now: int, shadow: int, extra: int, last: int, ranking: Integers | None, guarded: bool
    ) -> None:
        """Start the waiting jobs that may be backfilled.

        :param last: number of waiting jobs to consider, the last ones by submission.
        :param ranking: the jobs behind the head by priority, where they were ranked already.
        """
        system, machine, needs = self._system, self._machine, self._needs
        values = system.values.limit if guarded else system.values.waiting
        waiting = system.queue.jobs
        time_left = shadow - now
        free = machine.free
        if self._order is None and not self._shortest and (last < LONG):
            trials: Iterable[list[int]] = [waiting[-last:] if last < len(waiting) else waiting[1:]]
        else:
            jobs = system.queue.array()[-last:] if ranking is None else ranking
            ranked = not self._shortest and (self._order is None or ranking is not None)
            # The queue's array changes when a job starts.
            blocks = _blocks(jobs.copy()) if ranked and len(jobs) > BLOCK else (jobs,)
            trials = (
                self._eligible(block, head, now, time_left, free, extra, ranked=ranked, guarded=guarded)
                for block in blocks
            )
        for candidates in trials:
            for job in candidates:
                need = needs[job]
                if need <= free:
                    if values[job] > time_left:
                        if need > extra:
                            continue
                        extra -= need
                    system.start(job, now)
                    system.backfilled[job] = True
                    free -= need
                    if not free:
                        break
            if not free:
                break
        self._head, self._shadow, self._extra, self._free = head, shadow, extra, free

    def _eligible(
        self, jobs: Integers, head: int, now: int, time_left: int, free: int, extra: int, *, ranked: bool, guarded: bool
    ) -> list[int]:  # fmt: skip
        """The jobs that could start if each were the first candidate, in the order of trial.

        :param ranked: the jobs are in the order of trial.
        """
        values = self._system.values
        # By size first: where few processors are free, few jobs are left.
        small = (self._needs_array[jobs] <= free).nonzero()[0]
        if len(small) < len(jobs):
            jobs = jobs[small]
        seconds = (values.limit_array if guarded else values.waiting_array)[jobs]
        fits = ((seconds <= time_left) | (self._needs_array[jobs] <= extra)) & (jobs != head)
        chosen = fits.nonzero()[0]
        found = jobs[chosen]
        if len(found) > 1 and not ranked:
            if self._shortest:
                # By value, ties by submission, whatever the order of the ranking.
                found = found[np.lexsort((found, seconds[chosen]))]
            elif self._order is not None:
                found = self._order.ranked(found, now)
        eligible: list[int] = found.tolist()
        return eligible


def _blocks(jobs: Integers) -> Iterator[Integers]:
    """Split the jobs into blocks, each twice as long as the one before: the first ones often fill the machine."""
    begin, length = 0, BLOCK
    while begin < len(jobs):
        yield jobs[begin : begin + length]
        begin, length = begin + length, 2 * length


def _easy(system: SystemState, policy: Policy) -> Discipline:
    """EASY for the system's machine."""
    if isinstance(system.machine, Pools):
        return PooledEasyBackfilling(system, policy, system.machine)
    return EasyBackfilling(system, policy)


DISCIPLINES: dict[str, Callable[[SystemState, Policy], Discipline]] = {
    "none": _easy,
    "easy": _easy,
    "sjbf": _easy,
    "conservative": ConservativeBackfilling,
    "pbs": PbsCycle,
}
"""The kinds of backfilling by name."""
