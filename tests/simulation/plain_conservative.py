"""Conservative backfilling in its plainest form: in every pass each job gives up its reservation; slow."""

from softwalltime.measure.simulation.backfilling import DEFAULT_DEPTH
from softwalltime.measure.simulation.machine import Profile, processors_of
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.system_state import SystemState


class PlainConservative:
    """A discipline of backfilling with the rules of :class:`.ConservativeBackfilling`."""

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._depth = policy.depth or DEFAULT_DEPTH
        self._version = -1
        self._reserved: dict[int, tuple[int, int]] = {}

    def discard_plans(self) -> None:
        self._reserved.clear()

    def _calendar(self, now: int, planned: dict[int, tuple[int, int]]) -> Profile:
        system = self._system
        calendar = self._machine.calendar(now, system.running.jobs())
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
                for job in self._in_order(now):
                    if job in reserved:
                        calendar.vacate(job, *reserved[job])
                        self._reserve(calendar, job)
        starting = True
        while starting:
            for job in self._in_order(now):
                if job not in reserved and len(reserved) < self._depth:
                    self._reserve(calendar, job)
            starting = False
            for job in sorted(reserved, key=lambda job: reserved[job]):
                if reserved[job][0] <= now and system.machine.fits(job):
                    del reserved[job]
                    self._start(job, now)
                    starting = True
        for job in self._in_order(now):
            seconds = system.values.waiting[job]
            if job not in reserved and calendar.fits(job, now, seconds):
                calendar.occupy(job, now, now + seconds)
                self._start(job, now)
        for job, (start, _) in reserved.items():
            if system.promise[job] < 0:
                system.promise[job] = start
        self._version = system.running.version

    def _in_order(self, now: int) -> list[int]:
        jobs = self._system.queue.array().copy()
        order = self._system.order
        return (jobs if order is None else order.ranked(jobs, now)).tolist()

    def _start(self, job: int, now: int) -> None:
        first = self._system.queue.jobs[0]
        self._system.start(job, now)
        self._system.backfilled[job] = job != first
