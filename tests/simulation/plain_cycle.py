"""PBS's cycle in its plainest form: each waiting job is looked at in order, in every cycle; slow."""

from collections import deque
from collections.abc import Sequence

from softwalltime.measure.simulation.machine import FOREVER
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.system_state import SystemState


class PlainCycle:
    """A :class:`softwalltime.measure.simulation.backfilling.Discipline` with the rules of :class:`.pbs.PbsCycle`."""

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._depth = (policy.depth or 1) if policy.strict_ordering else 0
        self._queue_depths = dict(policy.queue_depths) if policy.strict_ordering else {}
        self._queues = list(system.jobs.completed.values("queue"))
        self._by_value = policy.classes_by_value
        self._guard = policy.guard

    def discard_plans(self) -> None:
        pass

    def _sorted(self, now: int) -> list[int]:
        system = self._system
        if system.order is None:
            return list(system.queue.jobs)
        priority = system.order.priorities(system.queue.array(), now).tolist()
        return [job for _, job in sorted(zip(priority, system.queue.jobs, strict=True), key=lambda pair: -pair[0])]

    def _sorted_anew(self, left: deque[int], now: int) -> deque[int]:
        if self._system.order is None or not self._system.order.changes_on_start:
            return left
        return deque(other for other in self._sorted(now) if other in set(left))

    def schedule(self, now: int, arrived: int) -> None:
        system, jobs, machine = self._system, self._system.jobs, self._system.machine
        system.running.correct(now)
        calendar = machine.calendar(now, system.running.jobs())
        marked: set[tuple[object, ...]] = set()
        left = {"": self._depth, **self._queue_depths}
        stopped: set[str] = set()
        overtaken = corrected = False
        planned: dict[int, int] = {}
        values: Sequence[int] = system.values.waiting
        ordered = deque(self._sorted(now))
        while ordered:
            job = ordered.popleft()
            kind = machine.kind(job)
            key = (jobs.walltime[job], kind, values[job]) if self._by_value else (jobs.walltime[job], kind)
            queue = self._queues[job]
            if key in marked or queue in stopped:
                continue
            seconds = values[job]
            if machine.fits(job) and calendar.fits(job, now, seconds):
                system.start(job, now)
                system.backfilled[job] = overtaken
                corrected |= system.values.running[job] > seconds
                calendar.occupy(job, now, now + seconds)
                ordered = self._sorted_anew(ordered, now)
                continue
            overtaken = True
            if self._queue_depths.get(queue) == 0:
                stopped.add(queue)
            counted = queue if queue in self._queue_depths else ""
            if left[counted]:
                start = calendar.earliest(job, seconds)
                if start < FOREVER:
                    left[counted] -= 1
                    calendar.occupy(job, start, start + seconds)
                    planned[job] = start
                    if system.is_late(job, now, self._guard):
                        values = system.values.limit
                    system.planned(job)
                    ordered = self._sorted_anew(ordered, now)
            marked.add(key)
        for job, start in planned.items():
            system.promise_start(job, start, now, settled=not corrected)
