"""Conservative backfilling: every waiting job has a reservation.

(A. W. Mu'alem & D. G. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 2001.)
"""

from bisect import bisect_left

from softwalltime.simulation.machine import processors_of
from softwalltime.simulation.planning import Profile
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.system_state import SystemState


class ConservativeBackfilling:
    """A job gets the first gap that it fits when it is submitted, and starts when its reservation begins.

    Whenever a running job ends or runs longer than planned, all jobs are moved forward in order: each gives up its
    reservation and takes the first gap, which is never later than what it gave up while estimates are upper bounds.  So
    no first promise is broken then.  Where estimates fail, reservations are made anew in the order of the old ones.

    After each release a tenth to a fifth of several hundred reservations move, and more of a longer queue.  So the cost
    grows with more than the square of the number of waiting jobs: use it for machines with hundreds of them.
    """

    def __init__(self, system: SystemState, policy: Policy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._needs = system.jobs.processors
        # The version of the running jobs at the end of the last pass.
        self._version = -1
        # The reservations: start and end of each waiting job, and the calendar that holds them, with the version of the
        # running jobs in it.
        self._reserved: dict[int, tuple[int, int]] = {}
        self._profile: Profile | None = None
        self._profile_version = -1

    def discard_plans(self) -> None:
        """Recompute all reservations at the next pass, with the values of that time."""
        self._reserved.clear()
        self._profile = None

    def schedule(self, now: int, arrived: int) -> None:
        """Move reservations forward, reserve for new jobs, start what may start now."""
        system, reserved = self._system, self._reserved
        running = system.running
        running.correct(now)
        profile = self._planned(now)
        if running.version != self._version:
            profile = self._compress(profile, now)
        new: list[int] = []
        if len(system.queue.jobs) > len(reserved):
            new = [job for job in system.by_priority(now) if job not in reserved]
        for job in new:
            self._reserve(profile, job)
        ready = sorted((job for job, (start, _) in reserved.items() if start <= now), key=lambda job: reserved[job])
        first = system.queue.jobs[0]
        for job in ready:
            if system.machine.fits(job):
                del reserved[job]
                system.start(job, now)
                system.backfilled[job] = job != first
                first = system.queue.jobs[0] if system.queue.jobs else -1
        for job in new:
            if job in reserved and system.promise[job] < 0:
                system.promise[job] = reserved[job][0]
        self._version = running.version

    def _planned(self, now: int) -> Profile:
        """The calendar from now on, made anew where the running jobs have changed."""
        running, reserved = self._system.running, self._reserved
        if self._profile is not None and running.version == self._profile_version:
            self._profile.advance(now)
            return self._profile
        profile = self._unreserved(now)
        if reserved:
            starts, ends = zip(*reserved.values(), strict=True)
            profile.occupy_all(list(reserved), starts, ends)
        self._profile_version = running.version
        return profile

    def _unreserved(self, now: int) -> Profile:
        """The calendar of the running jobs."""
        self._profile = Profile(now, self._machine.free, self._system.running.jobs(), self._needs)
        return self._profile

    def _compress(self, profile: Profile, now: int) -> Profile:
        """Move each reservation to the first gap, in order; recompute all if they no longer fit together."""
        reserved = self._reserved
        if min(profile.free) < 0 or any(start < now for start, _ in reserved.values()):
            profile = self._unreserved(now)
            for job in sorted(reserved, key=lambda job: (reserved[job][0], job)):
                self._reserve(profile, job)
            return profile
        needs = self._needs
        gaps = _FirstGaps(now)
        for job in self._system.by_priority(now):
            if job in reserved:
                start, end = reserved[job]
                seconds = end - start
                earlier = profile.earlier(job, seconds, start, gaps.bound(needs[job], seconds, start))
                if earlier < start:
                    profile.vacate(job, start, end)
                    profile.occupy(job, earlier, earlier + seconds)
                    reserved[job] = (earlier, earlier + seconds)
                    gaps.freed(max(start, earlier + seconds))
                gaps.taken(needs[job], seconds, earlier)
        return profile

    def _reserve(self, profile: Profile, job: int) -> None:
        seconds = self._system.values.waiting[job]
        start = profile.earliest(job, seconds)
        profile.occupy(job, start, start + seconds)
        self._reserved[job] = (start, start + seconds)


class _FirstGaps:
    """Before which time there is no gap for a request, while reservations move in one pass.

    A job in the first gap proves that there is no earlier one for the same processors and seconds, until processors
    become free: then a gap may begin as many seconds before them.
    """

    def __init__(self, now: int) -> None:
        self._now = now
        self._moves = 0
        # For each request the first gap, and how many reservations had moved then.
        self._gaps: dict[tuple[int, int], tuple[int, int]] = {}
        # Times at which processors became free, ascending, and the numbers of those moves: earlier moves with a later
        # time are left out.
        self._times: list[int] = []
        self._numbers: list[int] = []

    def bound(self, need: int, seconds: int, start: int) -> int:
        """The time before which there is no gap for a job with so many processors and seconds.

        :param start: where it gives up its reservation.
        """
        if (need, seconds) not in self._gaps:
            return self._now
        gap, moves = self._gaps[need, seconds]
        index = bisect_left(self._numbers, moves)
        if index < len(self._times):
            start = min(start, self._times[index])
        return max(min(gap, start - seconds), self._now)

    def taken(self, need: int, seconds: int, start: int) -> None:
        """Note the first gap for so many processors and seconds."""
        self._gaps[need, seconds] = (start, self._moves)

    def freed(self, start: int) -> None:
        """Note that a reservation has moved and left processors free from this time on."""
        times, numbers = self._times, self._numbers
        while times and times[-1] >= start:
            times.pop()
            numbers.pop()
        times.append(start)
        numbers.append(self._moves)
        self._moves += 1
