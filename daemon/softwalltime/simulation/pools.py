"""A machine of several pools: processors, and whatever else limits how many jobs run at one time.

Each pool has a capacity, and each job takes some of one or more pools.  The first pool is the processors.  Others are
the GPUs, the vnodes of one queue, or a limit such as PBS's ``max_run``: so many jobs, processors or GPUs of one user,
group, project or queue.  A job starts only if all its pools have enough left.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.simulation.jobs import Integers
from softwalltime.simulation.machine import FOREVER, Profile

Shares = tuple[tuple[int, int], ...]
"""What a job takes: pool and amount, first of the processors, then of others by ascending pool."""


@dataclass(frozen=True, slots=True)
class Window:
    """Processors that are reserved from ``start`` to ``end`` (epoch seconds): no job may use them then."""

    start: int
    end: int
    processors: int


class Pools:
    """A machine of pools (:class:`.machine.Machine`).

    A job keeps clear of a reserved window by its walltime, as PBS's scheduler does, whatever its soft walltime is.
    ``free`` is what is left of each pool; below 0 where running jobs hold more than there is.
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
        return [
            self.total - crossing - window.processors
            for crossing, window in zip(self._crossing, self.pending, strict=True)
        ]

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
        self._cross(job, 1)

    def release(self, job: int) -> None:
        for pool, need in self.shares[job]:
            self.free[pool] += need
        self._cross(job, -1)

    def _cross(self, job: int, sign: int) -> None:
        if not self.pending:
            return
        end = self._ends.setdefault(job, self._now + self.walltimes[job])
        for index, window in enumerate(self.pending):
            if end > window.start:
                self._crossing[index] += sign * self.shares[job][0][1]

    def kind(self, job: int) -> Hashable:
        return self.shares[job]

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> "PoolCalendar":
        self.advance(now)
        return PoolCalendar(self, now, list(ends))


class PoolCalendar:
    """The plan of all pools (:class:`.machine.Calendar`); the plan of a pool is made when it is first asked for."""

    def __init__(self, machine: Pools, now: int, ends: list[tuple[int, int]]) -> None:
        self._machine = machine
        self._now = now
        self._ends = ends
        self._profiles: dict[int, Profile] = {}
        self._planned: list[tuple[int, int, int]] = []

    def _profile(self, pool: int) -> Profile:
        profile = self._profiles.get(pool)
        if profile is None:
            machine = self._machine
            needs = _Needs(machine.shares, pool)
            ends = self._ends if pool == 0 else [end for end in self._ends if needs[end[1]]]
            profile = self._profiles[pool] = Profile(self._now, machine.free[pool], ends, needs)
            if pool == 0:
                for window in machine.active:
                    profile.add(window.processors, window.end, FOREVER)
                for window in machine.pending:
                    profile.add(-window.processors, window.start, window.end)
            for job, start, end in self._planned:
                if needs[job]:
                    profile.occupy(job, start, end)
        return profile

    def earliest(self, job: int, seconds: int) -> int:
        start = self._now
        while start < FOREVER:
            begin = start
            for pool, _ in self._machine.shares[job]:
                begin = max(begin, self._profile(pool).earliest(job, seconds, begin))
            if begin == start and begin < FOREVER and not self._clear(job, begin, seconds):
                begin = min(time for time in [*self._profile(0).times, FOREVER] if time > start)
            if begin == start:
                break
            start = begin
        return start

    def fits(self, job: int, start: int, seconds: int) -> bool:
        shares = self._machine.shares[job]
        return all(self._profile(pool).fits(job, start, seconds) for pool, _ in shares) and self._clear(
            job, start, seconds
        )

    def _clear(self, job: int, start: int, seconds: int) -> bool:
        """Whether the job keeps clear of the windows that begin before its walltime ends."""
        limit = self._machine.walltimes[job]
        if limit <= seconds or all(
            window.start < start + seconds or window.start >= start + limit for window in self._machine.pending
        ):
            return True
        return self._profile(0).fits(job, start, limit)

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        return np.ones(len(jobs), np.bool_)

    def occupy(self, job: int, start: int, end: int) -> None:
        self._planned.append((job, start, end))
        for pool, _ in self._machine.shares[job]:
            if pool in self._profiles:
                self._profiles[pool].occupy(job, start, end)

    def vacate(self, job: int, start: int, end: int) -> None:
        self._planned.remove((job, start, end))
        for pool, _ in self._machine.shares[job]:
            if pool in self._profiles:
                self._profiles[pool].vacate(job, start, end)


class _Needs(Sequence[int]):
    def __init__(self, shares: Sequence[Shares], pool: int) -> None:
        self._shares = shares
        self._pool = pool

    def __getitem__(self, job: int) -> int:  # type: ignore[override]  # no slices are asked for
        for pool, need in self._shares[job]:
            if pool == self._pool:
                return need
        return 0

    def __len__(self) -> int:
        return len(self._shares)
