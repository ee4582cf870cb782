"""EASY and conservative backfilling: one scheduling pass over the waiting jobs.

EASY (D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs start in order while they fit.  The first
that does not is the head.  Its shadow is the earliest planned end by which enough processors are free; ``extra`` are
left over then.  A later job starts if it fits and its waiting value ends by the shadow or it needs at most the extra.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from softwalltime.measure.simulation.machine import Profile, processors_of
from softwalltime.measure.simulation.pbs_cycle import PbsCycle
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.pools import PooledEasyBackfilling, Pools
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers
from softwalltime.measure.simulation.slack import SlackBackfilling
from softwalltime.measure.simulation.system_state import SystemState

DEFAULT_DEPTH = 300
"""Default number of waiting jobs with a reservation."""


class ConservativeBackfilling:
    """Conservative backfilling: each job gets a reservation in the first gap that it fits at its submission.

    (A. W. Mu'alem & D. G. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling
    the IBM SP2 with backfilling", IEEE TPDS 2001.)

    Whenever a running job ends or runs longer than planned, each job in order gives up its reservation and takes the
    first gap, which is never later while estimates are upper bounds.  Where estimates fail, reservations are made anew
    in the order of the old ones.  At most ``depth`` jobs have a reservation, which bounds the cost of a pass.  A job
    without one starts if it fits now and delays none, and is promised nothing.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._depth = policy.depth or DEFAULT_DEPTH
        # The version of the running jobs at the end of the last pass.
        self._version = -1
        # The reservations: start and end of each waiting job that has one.
        self._reserved: dict[int, tuple[int, int]] = {}
        self._has_reservation = np.zeros(len(system.jobs), np.bool_)
        # The calendar that holds them, and the entries of the running jobs (:class:`.RunningJobs`) in it.
        self._profile: Profile | None = None
        self._entries: set[int] = set()
        self._profile_version = -1

    def discard_plans(self) -> None:
        """Recompute all reservations at the next pass, with the values of that time."""
        self._reserved.clear()
        self._has_reservation[:] = False
        self._profile = None

    def schedule(self, now: int, arrived: int) -> None:
        system, reserved = self._system, self._reserved
        running = system.running
        running.correct(now)
        profile = self._planned(now)
        if running.version != self._version:
            profile = self._compress(profile, now)
        self._reserve_new(profile, now)
        while self._start_reserved(now) and len(system.queue.jobs) > len(reserved):
            self._reserve_new(profile, now)
        for job, (start, _) in reserved.items():
            system.promise_start(job, start, now)
        self._backfill(profile, now)
        self._version = running.version

    def _reserve_new(self, profile: Profile, now: int) -> None:
        count = min(self._depth, len(self._system.queue.jobs)) - len(self._reserved)
        for job in self._system.by_priority(self._unplanned(), now, count) if count > 0 else ():
            self._reserve(profile, job)

    def _unplanned(self) -> Integers:
        waiting = self._system.queue.array()
        return waiting[~self._has_reservation[waiting]]

    def _start_reserved(self, now: int) -> bool:
        """Start the jobs whose reservation has begun and that fit, by its begin; return whether there are any."""
        reserved, fitting = self._reserved, False
        for job in sorted((job for job in reserved if reserved[job][0] <= now), key=lambda job: reserved[job]):
            if self._system.machine.fits(job):
                fitting = True
                self._has_reservation[job] = False
                self._start(job, reserved.pop(job)[1], now)
        return fitting

    def _backfill(self, profile: Profile, now: int) -> None:
        """Start jobs without a reservation, in order, that fit beside all reservations."""
        system, values = self._system, self._system.values
        if len(system.queue.jobs) == len(self._reserved):
            return
        jobs = self._unplanned()
        jobs = np.array(system.by_priority(jobs[profile.candidates(jobs, values.waiting_array)], now), np.int64)
        while len(jobs):
            job = int(jobs[0])
            end = now + values.waiting[job]
            profile.occupy(job, now, end)
            self._start(job, end, now)
            jobs = jobs[1:]
            jobs = jobs[profile.candidates(jobs, values.waiting_array)]

    def _start(self, job: int, end: int, now: int) -> None:
        # The next pass replaces this entry by the running job's.
        self._entries.add(end << self._system.running.bits | job)
        self._system.start(job, now, backfilled=None)

    def _planned(self, now: int) -> Profile:
        running, profile = self._system.running, self._profile
        if profile is None:
            return self._unreserved(now)
        profile.advance(now)
        if running.version != self._profile_version:
            entries = set(running.entries)
            for entry in self._entries - entries:
                if (end := entry >> running.bits) > now:
                    profile.vacate(entry & running.mask, now, end)
            for entry in entries - self._entries:
                profile.occupy(entry & running.mask, now, entry >> running.bits)
            self._entries, self._profile_version = entries, running.version
        return profile

    def _unreserved(self, now: int) -> Profile:
        running = self._system.running
        self._profile = self._machine.calendar(now, running.jobs())
        self._entries, self._profile_version = set(running.entries), running.version
        return self._profile

    def _compress(self, profile: Profile, now: int) -> Profile:
        """Move each reservation to the first gap, in order; recompute all if they conflict."""
        reserved = self._reserved
        if min(profile.free) < 0 or any(start < now for start, _ in reserved.values()):
            profile = self._unreserved(now)
            for job in sorted(reserved, key=lambda job: (reserved[job][0], job)):
                self._reserve(profile, job)
            return profile
        waiting = self._system.queue.array()
        for job in self._system.by_priority(waiting[self._has_reservation[waiting]], now):
            start, end = reserved[job]
            earlier = profile.earlier(job, end - start, start)
            if earlier < start:
                profile.vacate(job, start, end)
                self._occupy(profile, job, earlier, end - start)
        return profile

    def _reserve(self, profile: Profile, job: int) -> None:
        seconds = self._system.values.waiting[job]
        self._occupy(profile, job, profile.earliest(job, seconds), seconds)
        self._has_reservation[job] = True

    def _occupy(self, profile: Profile, job: int, start: int, seconds: int) -> None:
        profile.occupy(job, start, start + seconds)
        self._reserved[job] = (start, start + seconds)


class Discipline(Protocol):
    """Decides at each instant which waiting jobs start."""

    def schedule(self, now: int, arrived: int) -> None:
        """Start jobs; ``arrived`` of the waiting jobs, the last ones, were submitted at this instant."""

    def discard_plans(self) -> None:
        """Discard plans made from values that have changed."""


class EasyBackfilling:
    """EASY with one reservation, under any order; candidates come in queue order, or by their waiting value (SJBF).

    With a ``guard``, candidates count with their walltime once the head is that many seconds past its promise.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._order = system.order
        self._shortest = policy.backfill == "sjbf"
        self._backfill = policy.backfill != "none"
        self._guard = policy.guard
        self._needs = system.jobs.processors
        self._needs_array = np.array(self._needs, np.int64)

    def discard_plans(self) -> None:
        """Do nothing: each pass plans anew."""

    def schedule(self, now: int, arrived: int) -> None:
        system, machine, needs = self._system, self._machine, self._needs
        head = self._start_in_order(now)
        if head < 0 or not self._backfill:
            return
        system.running.correct(now)
        shadow, extra = system.running.shadow(needs[head], machine.free, needs)
        system.promise_start(head, shadow, now)
        values, time_left = system.values.planned(system.is_late(head, now, self._guard)), shadow - now
        waiting = system.queue.array()
        candidates = waiting[self._harmless(waiting, values, time_left, extra)]
        urgency = self._urgency(candidates, values, now)
        while len(candidates):
            # Each of them may start.
            place = int(urgency.argmax())
            job = int(candidates[place])
            if values[job] > time_left:
                extra -= needs[job]
            system.start(job, now, backfilled=True)
            left = self._harmless(candidates, values, time_left, extra)
            left = left[left != place]
            candidates, urgency = candidates[left], urgency[left]

    def _start_in_order(self, now: int) -> int:
        """Start jobs in order while they fit; return the first that does not, -1 for none."""
        system, order = self._system, self._order
        while system.queue.jobs:
            head = system.queue.jobs[0]
            if order is not None:
                jobs = system.queue.array()
                head = int(jobs[order.priorities(jobs, now).argmax()])
            if not self._machine.fits(head):
                return head
            system.start(head, now)
        return -1

    def _urgency(self, jobs: Integers, values: Integers, now: int) -> Floats:
        if self._shortest:
            return -values[jobs].astype(np.float64)
        return np.zeros(len(jobs)) if self._order is None else self._order.priorities(jobs, now)

    def _harmless(self, jobs: Integers, values: Integers, time_left: int, extra: int) -> Integers:
        """Return the positions of the jobs that could start if each were the first candidate."""
        needs = self._needs_array[jobs]
        # By size first: where few processors are free, few jobs are left.
        small = (needs <= self._machine.free).nonzero()[0]
        harmless: Integers = small[(values[jobs[small]] <= time_left) | (needs[small] <= extra)]
        return harmless


def _easy(system: SystemState, policy: SchedulerPolicy) -> Discipline:
    if isinstance(system.machine, Pools):
        return PooledEasyBackfilling(system, policy, system.machine)
    return EasyBackfilling(system, policy)


DISCIPLINES: dict[str, Callable[[SystemState, SchedulerPolicy], Discipline]] = {
    "none": _easy,
    "easy": _easy,
    "sjbf": _easy,
    "conservative": ConservativeBackfilling,
    "pbs": PbsCycle,
    "slack": SlackBackfilling,
}
"""The kinds of backfilling by name."""
