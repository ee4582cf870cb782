"""EASY and conservative backfilling: one scheduling pass over the waiting jobs.

EASY (D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs start in order while they fit.  The first
that does not is the head.  Its shadow is the earliest planned end by which enough processors are free; ``extra`` are
left over then.  A later job starts if it fits and its waiting value ends by the shadow or it needs at most the extra.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Protocol

import numpy as np

from softwalltime.measure.simulation.candidates import CandidateClasses
from softwalltime.measure.simulation.machine import Profile, processors_of
from softwalltime.measure.simulation.orders import Order, best_first, blocks
from softwalltime.measure.simulation.pbs_cycle import PbsCycle
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.queue import MIN_ARRAY_JOBS
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

    While a scan cannot find more than the last one did, because the same head has no later shadow, no more extra and no
    more free processors, only the jobs that were submitted since are tried: time alone never helps a candidate.
    With a ``guard``, candidates count with their walltime once the head is that many seconds past its promise.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._order = system.order
        self._shortest = policy.backfill == "sjbf"
        self._guard = policy.guard
        self._needs = system.jobs.processors
        self._needs_array = np.array(self._needs, np.int64)
        # The last scan: its head, and what was left at its end.
        self._head = -1
        self._shadow = self._extra = self._free = 0
        # The running jobs at which the shadow was found.
        self._version = -1
        self._found = (0, 0)
        self._classes = CandidateClasses(system)

    def discard_plans(self) -> None:
        self._head = -1
        self._classes.discard()

    def schedule(self, now: int, arrived: int) -> None:
        system, machine, needs = self._system, self._machine, self._needs
        waiting = system.queue.jobs
        if not waiting:
            return
        priorities = None
        if system.ranked is None and self._order is not None:
            head, priorities = self._heads(self._order, now)
            if head < 0:
                return
        else:
            ranked = system.in_order.jobs
            while ranked and needs[ranked[0]] <= machine.free:
                system.start(ranked[0], now)
            if not ranked:
                return
            head = ranked[0]
        shadow, extra = self._reservation(head, now)
        system.promise_start(head, shadow, now)
        free = machine.free
        old = head == self._head and shadow <= self._shadow and extra <= self._extra and free <= self._free
        if free and (arrived if old else len(waiting) > 1):
            guarded = system.is_late(head, now, self._guard)
            last = arrived if old else len(waiting)
            if not self._shortest and system.ranked is not None and (self._order is None or not old):
                extra, free = self._scan(now, shadow - now, extra, last, guarded)
            else:
                extra, free = self._scan_unranked(now, shadow - now, extra, last, guarded, priorities)
        self._head, self._shadow, self._extra, self._free = head, shadow, extra, free

    def _heads(self, order: Order, now: int) -> tuple[int, Floats | None]:
        """Start jobs in order of priority while they fit; return the head, -1 for none.

        Also return the priorities of the waiting jobs, ``None`` if jobs have started since they were computed.
        """
        system, machine, needs = self._system, self._machine, self._needs
        while system.queue.jobs:
            jobs = system.queue.array()
            priorities = order.priorities(jobs, now)
            best = int(jobs[priorities.argmax()])
            if needs[best] > machine.free:
                return best, priorities
            if order.changes_on_start:
                system.start(best, now)
                continue
            # The queue's array changes when a job starts.
            candidates: Iterable[int] = chain.from_iterable(map(np.ndarray.tolist, best_first(jobs.copy(), priorities)))
            for job in candidates:
                if needs[job] > machine.free:
                    return job, None
                system.start(job, now)
        return -1, None

    def _reservation(self, head: int, now: int) -> tuple[int, int]:
        running = self._system.running
        running.correct(now)
        if running.version != self._version or head != self._head:
            self._found = running.shadow(self._needs[head], self._machine.free, self._needs)
            self._version = running.version
        return self._found

    def _scan(self, now: int, time_left: int, extra: int, last: int, guarded: bool) -> tuple[int, int]:
        """Start the waiting jobs that may be backfilled; return the extra and the free processors that are left.

        :param last: number of waiting jobs to consider, the last ones by submission.
        """
        system, needs = self._system, self._needs
        values = system.values.limit if guarded else system.values.waiting
        free = self._machine.free
        queue = system.in_order
        trials: Iterable[int]
        if last < MIN_ARRAY_JOBS:
            trials = queue.jobs[-last:] if last < len(queue.jobs) else queue.jobs[1:]
        elif self._order is None and self._classes.are_few():
            trials = self._classes.fitting(free, time_left, extra, guarded=guarded)
        else:
            planned = system.values.planned(guarded)
            # The queue's array changes when a job starts.
            trials = chain.from_iterable(
                block[self._eligible(block, planned, time_left, free, extra)].tolist()
                for block in blocks(queue.array()[-last:].copy())
            )
        for job in trials:
            need = needs[job]
            if need <= free:
                if values[job] > time_left:
                    if need > extra:
                        continue
                    extra -= need
                system.start(job, now, backfilled=True)
                free -= need
                if not free:
                    break
        return extra, free

    def _scan_unranked(
        self, now: int, time_left: int, extra: int, last: int, guarded: bool, priorities: Floats | None
    ) -> tuple[int, int]:  # fmt: skip
        """As :meth:`_scan`, where candidates come in an order that changes, or by their value.

        :param priorities: of all waiting jobs, if they are known.
        """
        system, needs = self._system, self._needs
        values = system.values.planned(guarded)
        free = self._machine.free
        waiting = system.queue.array()[-last:]
        places = self._eligible(waiting, values, time_left, free, extra)
        jobs = waiting[places]
        if self._shortest:
            urgency = -values[jobs].astype(np.float64)
        elif priorities is not None:
            urgency = priorities[-last:][places]
        else:
            urgency = np.zeros(len(jobs)) if self._order is None else self._order.priorities(jobs, now)
        while len(jobs):
            # Each of them may start.
            place = int(urgency.argmax())
            job = int(jobs[place])
            if values[job] > time_left:
                extra -= needs[job]
            system.start(job, now, backfilled=True)
            free -= needs[job]
            if not free:
                break
            places = self._eligible(jobs, values, time_left, free, extra)
            places = places[places != place]
            jobs, urgency = jobs[places], urgency[places]
        return extra, free

    def _eligible(self, jobs: Integers, values: Integers, time_left: int, free: int, extra: int) -> Integers:
        """Return the positions of the jobs that could start if each were the first candidate."""
        needs = self._needs_array[jobs]
        # By size first: where few processors are free, few jobs are left.
        small = (needs <= free).nonzero()[0]
        return small[(values[jobs[small]] <= time_left) | (needs[small] <= extra)]


class InOrder:
    """No backfilling: jobs start in order while they fit, on any machine."""

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system

    def discard_plans(self) -> None:
        """Nothing is planned."""

    def schedule(self, now: int, arrived: int) -> None:
        system = self._system
        # A calendar makes the machine know the time.
        system.machine.calendar(now, ())
        while system.queue.jobs and system.machine.fits(first := system.first(now)):
            system.start(first, now)


DISCIPLINES: dict[str, Callable[[SystemState, SchedulerPolicy], Discipline]] = {
    "none": InOrder,
    "easy": EasyBackfilling,
    "sjbf": EasyBackfilling,
    "conservative": ConservativeBackfilling,
    "pbs": PbsCycle,
    "slack": SlackBackfilling,
}
"""The kinds of backfilling by name."""
