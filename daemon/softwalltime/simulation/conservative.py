"""Conservative backfilling: many waiting jobs have reservations, not only the first one.

(A. W. Mu'alem & D. G. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 2001.)
"""

import numpy as np

from softwalltime.simulation.jobs import Integers
from softwalltime.simulation.machine import Profile, processors_of
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.system_state import SystemState

DEPTH = 300
"""Number of waiting jobs that have a reservation, where the policy does not give it."""


class ConservativeBackfilling:
    """A job gets the first gap that it fits when it is submitted, and starts when its reservation begins.

    Whenever a running job ends or runs longer than planned, all jobs are moved forward in order: each gives up its
    reservation and takes the first gap, which is never later than what it gave up while estimates are upper bounds.  So
    no first promise is broken then.  Where estimates fail, reservations are made anew in the order of the old ones.

    At most ``depth`` jobs have a reservation.  Where more wait, the first ones in order get those that become free.  A
    job without a reservation starts if it fits now and delays none, as a candidate of EASY does; it is promised nothing
    before it gets one.  So the cost of a pass is bounded, however many jobs wait.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._depth = policy.depth or DEPTH
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
        if count <= 0:
            return
        for job in self._system.by_priority(self._unplanned(), now, count):
            self._reserve(profile, job)

    def _unplanned(self) -> Integers:
        waiting = self._system.queue.array()
        return waiting[~self._has_reservation[waiting]]

    def _start_reserved(self, now: int) -> bool:
        """Start the jobs whose reservation has begun and that fit, by its begin; return whether there are any."""
        system, reserved = self._system, self._reserved
        ready = sorted((job for job, (start, _) in reserved.items() if start <= now), key=lambda job: reserved[job])
        fitting = False
        for job in ready:
            if system.machine.fits(job):
                fitting = True
                self._has_reservation[job] = False
                self._start(job, reserved.pop(job)[1], now)
        return fitting

    def _backfill(self, profile: Profile, now: int) -> None:
        """Start those of the jobs without a reservation, in order, that fit beside all reservations."""
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
        system = self._system
        # The next pass replaces this entry by that of the running job.
        self._entries.add(end << system.running.bits | job)
        first = system.queue.jobs[0]
        system.start(job, now)
        system.backfilled[job] = job != first

    def _planned(self, now: int) -> Profile:
        running, profile = self._system.running, self._profile
        if profile is None:
            return self._unreserved(now)
        profile.advance(now)
        if running.version != self._profile_version:
            entries = set(running.entries)
            for entry in self._entries - entries:
                end = entry >> running.bits
                if end > now:
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
        """Move each reservation to the first gap, in order; recompute all if they no longer fit together."""
        reserved = self._reserved
        if min(profile.free) < 0 or any(start < now for start, _ in reserved.values()):
            profile = self._unreserved(now)
            for job in sorted(reserved, key=lambda job: (reserved[job][0], job)):
                self._reserve(profile, job)
            return profile
        waiting = self._system.queue.array()
        for job in self._system.by_priority(waiting[self._has_reservation[waiting]], now):
            start, end = reserved[job]
            seconds = end - start
            earlier = profile.earlier(job, seconds, start)
            if earlier < start:
                profile.vacate(job, start, end)
                profile.occupy(job, earlier, earlier + seconds)
                reserved[job] = (earlier, earlier + seconds)
        return profile

    def _reserve(self, profile: Profile, job: int) -> None:
        seconds = self._system.values.waiting[job]
        start = profile.earliest(job, seconds)
        profile.occupy(job, start, start + seconds)
        self._reserved[job] = (start, start + seconds)
        self._has_reservation[job] = True
