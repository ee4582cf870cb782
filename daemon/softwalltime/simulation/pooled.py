"""EASY backfilling on a machine of several pools (:mod:`pools`)."""

from collections.abc import Callable

import numpy as np

from softwalltime.errors import UsageError
from softwalltime.simulation.jobs import Integers
from softwalltime.simulation.machine import FOREVER
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.pools import Pools
from softwalltime.simulation.system_state import SystemState


class PooledEasyBackfilling:
    """EASY with one reservation where jobs take from several pools, under any order that starts do not change.

    As in PBS with one top job: the first job that cannot start is the head, whether processors or a limit lack.  Its
    shadow is the earliest planned end by which all its pools have enough and it keeps clear of reserved windows.  A
    later job that fits starts if its waiting value ends by the shadow, or if it takes of the head's pools no more than
    what is left over then.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy, machine: Pools) -> None:
        """
        :param policy: ``backfill`` is ``none`` (only heads start) or ``easy``.
        :raises UsageError: if the order changes with each start, or the backfilling is ``sjbf``.
        """
        if policy.backfill == "sjbf" or (system.order is not None and system.order.changes_on_start):
            raise UsageError("a machine of several pools needs the backfilling pbs for this order or backfilling")
        self._system = system
        self._machine = machine
        self._order = system.order
        self._backfill = policy.backfill != "none"
        self._guard = policy.guard
        most = max(map(len, machine.shares), default=1)
        count, nowhere = len(machine.shares), len(machine.free)
        self._pools = np.full((most, count), nowhere, np.int64)
        self._amounts = np.zeros((most, count), np.int64)
        for job, shares in enumerate(machine.shares):
            for column, (pool, need) in enumerate(shares):
                self._pools[column, job] = pool
                self._amounts[column, job] = need
        self._limits = np.array(machine.walltimes, np.int64)
        # The reservation that was found last: for which head, at which version of the running jobs.
        self._known = (-1, -1, -1)
        self._found: tuple[int, _Extra] | None = None

    def discard_plans(self) -> None:
        self._known = (-1, -1, -1)

    def schedule(self, now: int, arrived: int) -> None:
        system, machine = self._system, self._machine
        machine.advance(now)
        head, ranked = self._heads(now)
        if head < 0 or not self._backfill or machine.free[0] <= 0:
            return
        candidates = self._fitting(ranked, now)
        if system.promise[head] >= 0 and not len(candidates):
            return
        shadow, extra = self._reservation(head, now)
        system.promise_start(head, shadow, now)
        guarded = system.is_late(head, now, self._guard)
        values = system.values.limit if guarded else system.values.waiting
        time_left = shadow - now
        candidates = self._harmless(candidates, time_left, extra, guarded)
        while len(candidates):
            # The first one may start; of those behind it some may no longer.
            job = int(candidates[0])
            if values[job] > time_left:
                for pool, need in machine.shares[job]:
                    extra.take(pool, need)
            system.start(job, now)
            system.backfilled[job] = True
            if machine.free[0] <= 0:
                break
            candidates = self._harmless(self._fitting(candidates[1:], now), time_left, extra, guarded)

    def _heads(self, now: int) -> tuple[int, Integers]:
        """Start jobs in order while they fit; return the first that does not (-1 for none) and those behind it."""
        system, machine = self._system, self._machine
        if self._order is None:
            waiting = system.queue.jobs
            while waiting:
                if not machine.fits(waiting[0]):
                    return waiting[0], system.queue.array()[1:]
                system.start(waiting[0], now)
            return -1, np.zeros(0, np.int64)
        ranked = self._order.ranked(system.queue.array(), now)
        for position, job in enumerate(ranked.tolist()):
            if not machine.fits(job):
                return job, ranked[position + 1 :]
            system.start(job, now)
        return -1, ranked[:0]

    def _reservation(self, head: int, now: int) -> "tuple[int, _Extra]":
        """The head's shadow, and what is left over then of each of its pools."""
        running, machine = self._system.running, self._machine
        running.correct(now)
        key = (head, running.version, len(machine.pending))
        if key != self._known or self._found is None:
            self._known = key
            self._found = self._shadow(head, now)
        shadow, extra = self._found
        return shadow, extra.copied()

    def _shadow(self, head: int, now: int) -> "tuple[int, _Extra]":
        running, machine = self._system.running, self._machine
        entries = np.array(running.entries, np.int64)
        jobs, ends = entries & running.mask, entries >> running.bits
        shadow = now
        for pool, need in machine.shares[head]:
            lack = need - machine.free[pool]
            if lack > 0:
                shadow = max(shadow, self._enough(pool, lack, jobs, ends))
        while shadow < FOREVER and (window := machine.blocking(head, shadow)) is not None:
            shadow = window.end
        ended = jobs[: int(np.searchsorted(ends, shadow, side="right"))]
        over = sum(window.processors for window in machine.active if window.end <= shadow)
        left = {pool: machine.free[pool] - need for pool, need in machine.shares[head]}
        left[0] += over + int(self._taken(ended, 0).sum())
        return shadow, _Extra(left, ended, self._taken)

    def _enough(self, pool: int, lack: int, jobs: Integers, ends: Integers) -> int:
        """The first planned end by which so much of a pool comes free; :data:`FOREVER` if never."""
        gains, active = self._taken(jobs, pool), self._machine.active
        if active and not pool:
            # The processors of a reserved window come free as those of a job do.
            ends = np.concatenate([ends, [window.end for window in active]])
            order = np.argsort(ends, kind="stable")
            ends, gains = ends[order], np.concatenate([gains, [window.processors for window in active]])[order]
        place = int(np.searchsorted(np.cumsum(gains), lack))
        return FOREVER if place == len(ends) else int(ends[place])

    def _taken(self, jobs: Integers, pool: int) -> Integers:
        if not pool:
            taken: Integers = self._amounts[0][jobs]
            return taken
        total = np.zeros(len(jobs), np.int64)
        for pools, amounts in zip(self._pools[1:], self._amounts[1:], strict=True):
            total += np.where(pools[jobs] == pool, amounts[jobs], 0)
        return total

    def _fitting(self, jobs: Integers, now: int) -> Integers:
        machine = self._machine
        jobs = jobs[self._amounts[0][jobs] <= machine.free[0]]
        if not len(jobs):
            return jobs
        if len(self._pools) > 1:
            free = np.array([*machine.free, 1 << 60], np.int64)
            for pools, amounts in zip(self._pools[1:], self._amounts[1:], strict=True):
                jobs = jobs[amounts[jobs] <= free[pools[jobs]]]
        for window, spare in zip(machine.pending, machine.spare(), strict=True):
            jobs = jobs[(self._limits[jobs] <= window.start - now) | (self._amounts[0][jobs] <= spare)]
        return jobs

    def _harmless(self, jobs: Integers, time_left: int, extra: "_Extra", guarded: bool) -> Integers:
        """Those of the jobs that would not delay the head if each were the first candidate."""
        values = self._system.values
        late = (values.limit_array if guarded else values.waiting_array)[jobs] > time_left
        if late.any():
            some = jobs[late]
            harmless = np.ones(len(some), np.bool_)
            for pool in extra.left:
                takes = self._taken(some, pool)
                if takes.any():
                    harmless &= takes <= extra.of(pool)
            late[late] = ~harmless
            jobs = jobs[~late]
        return jobs


class _Extra:
    """What is left over of the head's pools at its shadow.

    That of the processors is known; that of another pool is counted when a candidate takes of it.
    """

    __slots__ = ("_counted", "_ended", "_taken", "left")

    def __init__(self, left: dict[int, int], ended: Integers, taken: Callable[[Integers, int], Integers]) -> None:
        """
        :param left: what is left of each pool; of all but the first one without what comes free by the shadow.
        :param ended: the jobs that are planned to end by the shadow.
        """
        self.left = left
        self._ended = ended
        self._taken = taken
        self._counted = {0}

    def copied(self) -> "_Extra":
        copied = _Extra(dict(self.left), self._ended, self._taken)
        copied._counted = set(self._counted)
        return copied

    def of(self, pool: int) -> int:
        if pool not in self._counted:
            self._counted.add(pool)
            self.left[pool] += int(self._taken(self._ended, pool).sum())
        return self.left[pool]

    def take(self, pool: int, amount: int) -> None:
        if pool in self.left:
            self.left[pool] -= amount
