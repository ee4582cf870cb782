"""Conservative backfilling in its plainest form: in every pass each job gives up its reservation; slow."""

from softwalltime.simulation.machine import processors_of
from softwalltime.simulation.planning import Profile
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.system_state import SystemState


class PlainConservative:
    """A :class:`softwalltime.simulation.backfilling.Discipline` with the rules of :class:`.ConservativeBackfilling`."""

    def __init__(self, system: SystemState, policy: Policy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._version = -1
        self._reserved: dict[int, tuple[int, int]] = {}

    def discard_plans(self) -> None:
        self._reserved.clear()

    def _calendar(self, now: int, planned: dict[int, tuple[int, int]]) -> Profile:
        system = self._system
        calendar = Profile(now, self._machine.free, system.running.jobs(), system.jobs.processors)
        for job, (start, end) in planned.items():
            if end > now:
                calendar.occupy(job, max(start, now), end)
        return calendar

    def _reserve(self, calendar: Profile, job: int) -> None:
        seconds = self._system.values.waiting[job]
        start = calendar.earliest(job, seconds)
        calendar.occupy(job, start, start + seconds)
        self._reserved[job] = (start, start + seconds)

    def schedule(self, now: int, arrived: int) -> None:
        system, reserved = self._system, self._reserved
        system.running.correct(now)
        calendar = self._calendar(now, reserved)
        if system.running.version != self._version:
            if min(calendar.free) < 0 or any(start < now for start, _ in reserved.values()):
                calendar = self._calendar(now, {})
                for job in sorted(reserved, key=lambda job: (reserved[job][0], job)):
                    self._reserve(calendar, job)
            else:
                for job in system.by_priority(now):
                    if job in reserved:
                        calendar.vacate(job, *reserved[job])
                        self._reserve(calendar, job)
        for job in system.by_priority(now):
            if job not in reserved:
                self._reserve(calendar, job)
        for job in sorted(reserved, key=lambda job: reserved[job]):
            if reserved[job][0] <= now and system.machine.fits(job):
                del reserved[job]
                first = system.queue.jobs[0]
                system.start(job, now)
                system.backfilled[job] = job != first
        for job, (start, _) in reserved.items():
            if system.promise[job] < 0:
                system.promise[job] = start
        self._version = system.running.version
