"""A machine of several pools, of which jobs take some: processors and other limits on running jobs.

The first pool is the processors.  Others are the GPUs, the vnodes of one queue, or a limit such as PBS's ``max_run``:
so many jobs, processors or GPUs of one user, group, project or queue.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.jobs import Submission
from softwalltime.measure.simulation.machine import FOREVER, Calendar, Profile
from softwalltime.measure.simulation.resources import (
    RunLimit,
    Vnodes,
    amount,
    gpus,
    limits_of_job,
    processors_of_queues,
)
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

MAX_POOLS = 64
"""Maximum number of pools for which it is remembered what each job takes of them."""
VNODES, GPUS = "vnodes", "gpus"
"""Names of pools."""
Shares = tuple[tuple[int, int], ...]
"""A job's shares: pool and amount, first the processors, then other pools in ascending order."""


@dataclass(frozen=True, slots=True)
class Window:
    """Processors that are reserved from ``start`` to ``end`` (epoch seconds): no job may use them then."""

    start: int
    end: int
    processors: int


class Pools:
    """A machine of pools; ``free`` is what is left of each, below 0 where running jobs hold more than there is.

    A job keeps clear of a reserved window by its walltime, as PBS's scheduler does, whatever its soft walltime is.
    """

    def __init__(
        self, capacities: Sequence[int], shares: Sequence[Shares], walltimes: Sequence[int],
        windows: Sequence[Window] = (), running_ends: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """:param running_ends: start + walltime of the jobs that run from the beginning, the first ones."""
        self.free = list(capacities)
        self.total = capacities[0]
        self.shares = shares
        self.walltimes = walltimes
        self._ends = dict(enumerate(running_ends))
        self._now = 0
        shape = max(map(len, shares), default=1), len(shares)
        # Jobs with fewer shares take nothing of a pool behind the last one.
        self._pools = np.full(shape, len(capacities), np.int64)
        self._amounts = np.zeros(shape, np.int64)
        for job, each in enumerate(shares):
            for column, (pool, need) in enumerate(each):
                self._pools[column, job] = pool
                self._amounts[column, job] = need
        self.processors: Integers = self._amounts[0]
        """What each job takes of the processors."""
        self._limits = np.array(walltimes, np.int64)
        self._last_pools: dict[int, tuple[Integers, list[int]]] = {}
        self.pending = sorted(windows, key=lambda window: window.start)
        """Windows that have not begun."""
        self.active: list[Window] = []
        """Windows that have begun and not ended, by their end."""
        # Processors of the running jobs that may still run when each pending window begins.
        self._crossing = [0] * len(self.pending)

    def advance(self, now: int) -> None:
        """Go to a time that is not before the last one."""
        self._now = now
        while self.pending and self.pending[0].start <= now:
            window = self.pending.pop(0)
            del self._crossing[0]
            self.active.append(window)
            self.active.sort(key=lambda each: each.end)
            self.free[0] -= window.processors
        for window in [window for window in self.active if window.end <= now]:
            self.active.remove(window)
            self.free[0] += window.processors

    def spare(self) -> list[int]:
        """Processors that jobs may still take past the beginning of each pending window."""
        pairs = zip(self._crossing, self.pending, strict=True)
        return [self.total - crossing - window.processors for crossing, window in pairs]

    def fits(self, job: int) -> bool:
        """Whether all pools have enough, also when reserved windows begin."""
        free = self.free
        for pool, need in self.shares[job]:
            if need > free[pool]:
                return False
        return not self.pending or self.blocking(job, self._now) is None

    def blocking(self, job: int, start: int) -> Window | None:
        """The first pending window that the job could not keep clear of if it started at ``start``."""
        end, need = start + self.walltimes[job], self.shares[job][0][1]
        for window, spare in zip(self.pending, self.spare(), strict=True):
            if start < window.end and end > window.start and need > spare:
                return window
        return None

    def allocate(self, job: int) -> None:
        for pool, need in self.shares[job]:
            self.free[pool] -= need
        if self.pending:
            self._cross(job, 1)

    def release(self, job: int) -> None:
        for pool, need in self.shares[job]:
            self.free[pool] += need
        if self.pending:
            self._cross(job, -1)

    def _cross(self, job: int, sign: int) -> None:
        end = self._ends.setdefault(job, self._now + self.walltimes[job])
        for index, window in enumerate(self.pending):
            if end > window.start:
                self._crossing[index] += sign * self.shares[job][0][1]

    def taken(self, pool: int) -> tuple[Integers, list[int]]:
        """Return what each job takes of a pool, also as a list, which is faster job by job.

        It is kept for the last pools, because heads need the same ones again.
        """
        found = self._last_pools.get(pool)
        if found is None:
            # No job has two shares of one pool.
            taken = np.where(self._pools[1:] == pool, self._amounts[1:], 0).sum(axis=0) if pool else self.processors
            if len(self._last_pools) == MAX_POOLS:
                del self._last_pools[next(iter(self._last_pools))]
            found = self._last_pools[pool] = (taken, taken.tolist())
        return found

    def fitting(self, jobs: Integers) -> Integers:
        """Return the positions of the jobs that fit now."""
        places: Integers = (self.processors[jobs] <= self.free[0]).nonzero()[0]
        if len(self._pools) > 1 and len(places):
            free = np.array([*self.free, 1 << 60], np.int64)
            for pools, amounts in zip(self._pools[1:], self._amounts[1:], strict=True):
                some = jobs[places]
                places = places[amounts[some] <= free[pools[some]]]
        for window, spare in zip(self.pending, self.spare(), strict=True):
            some = jobs[places]
            places = places[(self._limits[some] <= window.start - self._now) | (self.processors[some] <= spare)]
        return places

    def kind(self, job: int) -> Hashable:
        return self.shares[job]

    def calendar(self, now: int, ends: Sequence[tuple[int, int]]) -> "PoolCalendar":
        self.advance(now)
        return PoolCalendar(self, now, ends)


class PoolTable:
    """The pools of a machine, and each job's shares of them.

    ``capacities`` are those of the pools, the processors first.  A limit becomes a pool for each user, group or project
    when a job of theirs is met.
    """

    def __init__(
        self, processors: int, vnodes: Iterable[Vnodes] = (), run_limits: Sequence[RunLimit] = (), total_gpus: int = 0
    ) -> None:
        """:param total_gpus: GPUs of the machine; 0: their number is not limited."""
        self.capacities = [processors]
        self._index: dict[tuple[str, ...], int] = {("processors",): 0}
        self._run_limits = run_limits
        self._limiting: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        """Pool and resource of each limit that holds for jobs of a user, group, project and queue."""
        self._queues = processors_of_queues(vnodes)
        for queue, ncpus in self._queues.items():
            self._pool((VNODES, queue), ncpus)
        self._gpus = total_gpus and self._pool((GPUS,), total_gpus)

    def _pool(self, name: tuple[str, ...], capacity: int) -> int:
        pool = self._index.setdefault(name, len(self.capacities))
        if pool == len(self.capacities):
            self.capacities.append(capacity)
        self.capacities[pool] = min(self.capacities[pool], capacity)
        return pool

    def shares(self, submission: Submission, processors: int) -> Shares:
        """Return the shares of a job that takes so many processors."""
        amounts: dict[int, int] = {}
        if self._queues:
            # Queues without vnodes of their own share the others.
            queue = submission.queue if submission.queue in self._queues else ""
            amounts[self._pool((VNODES, queue), self._queues.get(queue, 0))] = processors
        if self._gpus and (count := gpus(submission)):
            amounts[self._gpus] = count
        job = (submission.user, submission.group, submission.project, submission.queue)
        limiting = self._limiting.get(job)
        if limiting is None:
            limiting = self._limiting[job] = [
                (self._pool((limit.queue, limit.kind, limit.resource, who), limit.most), limit.resource)
                for limit, who in limits_of_job(self._run_limits, submission)
            ]
        amounts |= {pool: count for pool, resource in limiting if (count := amount(submission, resource))}
        return ((0, processors), *sorted(amounts.items()))

    def above(self, shares: Shares) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Yield the pools that are too small for a job: name, what it needs, and what there is.

        A name is :data:`VNODES` and the queue, :data:`GPUS`, or queue, kind, resource and entity of a limit.
        """
        names = list(self._index)
        for pool, need in shares[1:]:
            if need > self.capacities[pool]:
                yield names[pool], need, self.capacities[pool]


def limited(jobs: Jobs, processors: int, vnodes: Iterable[Vnodes], run_limits: Sequence[RunLimit]) -> Pools:
    """Return a machine with these vnodes and limits on running jobs; a job that exceeds a limit counts as the limit."""
    table = PoolTable(processors, vnodes, run_limits)
    shares = [table.shares(job.submission, size) for job, size in zip(jobs.completed, jobs.processors, strict=True)]
    most = table.capacities
    shares = [tuple((pool, min(need, most[pool])) for pool, need in each) for each in shares]
    return Pools(most, shares, jobs.walltime)


class PoolCalendar(Calendar):
    """The plan of all pools; the plan of a pool is made when it is first asked for.

    A pool that has enough now has enough later, unless a start is planned that takes from it: it needs no plan.
    """

    def __init__(self, machine: Pools, now: int, ends: Sequence[tuple[int, int]]) -> None:
        self._machine = machine
        self._now = now
        self._ends = ends
        self._profiles: dict[int, Profile] = {}
        self._planned: list[tuple[int, int, int]] = []
        self._awaited: set[int] = set()
        """Pools from which jobs take that are planned to start later."""

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        may_fit = np.zeros(len(jobs), np.bool_)
        places = self._machine.fitting(jobs)
        if len(places):
            may_fit[places] = self._profile(0).candidates(jobs[places], values)
        return may_fit

    def _profile(self, pool: int) -> Profile:
        profile = self._profiles.get(pool)
        if profile is None:
            machine = self._machine
            sizes, needs = machine.taken(pool)
            ends = self._ends if pool == 0 else [end for end in self._ends if needs[end[1]]]
            profile = self._profiles[pool] = Profile(self._now, machine.free[pool], ends, needs, sizes)
            if pool == 0:
                for window in machine.active:
                    profile.add(window.processors, window.end, FOREVER)
                for window in machine.pending:
                    profile.add(-window.processors, window.start, window.end)
            for job, start, end in self._planned:
                if needs[job] and start > self._now:
                    profile.occupy(job, start, end)
                elif needs[job]:
                    # The job has started, so what is free now is without its share.
                    profile.add(needs[job], end, FOREVER)
        return profile

    def _limiting(self, job: int) -> Iterator[Profile]:
        """Yield the plans that the job depends on."""
        free = self._machine.free
        for pool, need in self._machine.shares[job]:
            if not pool or need > free[pool] or pool in self._awaited:
                yield self._profile(pool)

    def earliest(self, job: int, seconds: int) -> int:
        start = self._now
        while start < FOREVER:
            begin = start
            for profile in self._limiting(job):
                begin = max(begin, profile.earliest(job, seconds, begin))
            if begin == start and begin < FOREVER and not self._clear(job, begin, seconds):
                begin = min(time for time in [*self._profile(0).times, FOREVER] if time > start)
            if begin == start:
                break
            start = begin
        return start

    def fits(self, job: int, start: int, seconds: int) -> bool:
        free = (profile.fits(job, start, seconds) for profile in self._limiting(job))
        return all(free) and self._clear(job, start, seconds)

    def _clear(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job keeps clear of the windows that begin before its walltime ends."""
        end, limit = start + seconds, self._machine.walltimes[job]
        begins = limit > seconds and any(end <= window.start < start + limit for window in self._machine.pending)
        return not begins or self._profile(0).fits(job, start, limit)

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        if sign < 0:
            self._planned.append((job, start, end))
        else:
            self._planned.remove((job, start, end))
        for pool, _ in self._machine.shares[job]:
            if start > self._now:
                self._awaited.add(pool)
            if pool in self._profiles:
                self._profiles[pool].change(job, sign, start, end)
