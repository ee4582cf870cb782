"""Conservative backfilling: every waiting job has a reservation.

(A. W. Mu'alem & D. G. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 2001.)
"""

from softwalltime.simulation.machine import processors_of
from softwalltime.simulation.planning import Profile
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.system_state import SystemState


class ConservativeBackfilling:
    """A job gets the first gap that it fits when it is submitted, and starts when its reservation begins.

    Whenever a running job ends or runs longer than planned, all jobs are moved forward in order: each gives up its
    reservation and takes the first gap, which is never later than what it gave up while estimates are upper bounds.  So
    no first promise is broken then.  Where estimates fail, reservations are made anew in the order of the old ones.

    A pass costs the length of the queue times that of the calendar; use it for machines with hundreds of waiting jobs,
    not with tens of thousands.
    """

    def __init__(self, system: SystemState, policy: Policy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._needs = system.jobs.processors
        self._version = -1
        # The reservations: start and end of each waiting job, and the calendar that holds them.
        self._reserved: dict[int, tuple[int, int]] = {}

    def discard_plans(self) -> None:
        """Recompute all reservations at the next pass, with the values of that time."""
        self._reserved.clear()

    def schedule(self, now: int, arrived: int) -> None:
        """Move reservations forward, reserve for new jobs, start what may start now."""
        system, reserved = self._system, self._reserved
        running = system.running
        running.correct(now)
        profile = Profile(now, self._machine.free, running.jobs(), self._needs)
        if running.version != self._version:
            self._compress(profile, now)
        else:
            self._keep(profile)
        for job in self._system.by_priority(now):
            if job not in reserved:
                self._reserve(profile, job)
        ready = sorted((job for job, (start, _) in reserved.items() if start <= now), key=lambda job: reserved[job])
        first = system.queue.jobs[0]
        for job in ready:
            if system.machine.fits(job):
                del reserved[job]
                system.start(job, now)
                system.backfilled[job] = job != first
                first = system.queue.jobs[0] if system.queue.jobs else -1
        for job, (start, _) in reserved.items():
            if system.promise[job] < 0:
                system.promise[job] = start
        self._version = running.version

    def _keep(self, profile: Profile) -> None:
        for job, (start, end) in self._reserved.items():
            profile.occupy(job, start, end)

    def _compress(self, profile: Profile, now: int) -> None:
        """Move each reservation to the first gap, in order; recompute all if they no longer fit together."""
        reserved = self._reserved
        kept = all(start >= now for start, _ in reserved.values())
        if kept:
            self._keep(profile)
            kept = min(profile.free) >= 0
        if not kept:
            system = self._system
            fresh = Profile(now, self._machine.free, system.running.jobs(), self._needs)
            profile.times, profile.free = fresh.times, fresh.free
            for job in sorted(reserved, key=lambda job: (reserved[job][0], job)):
                self._reserve(profile, job)
            return
        for job in self._system.by_priority(now):
            if job in reserved:
                profile.vacate(job, *reserved[job])
                self._reserve(profile, job)

    def _reserve(self, profile: Profile, job: int) -> None:
        seconds = self._system.values.waiting[job]
        start = profile.earliest(job, seconds)
        profile.occupy(job, start, start + seconds)
        self._reserved[job] = (start, start + seconds)
