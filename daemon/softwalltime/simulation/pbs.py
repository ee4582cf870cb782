"""PBS's scheduling cycle, as its source and measurements on a real server show it."""

from collections import deque
from collections.abc import Sequence

from softwalltime.simulation.planning import FOREVER
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.system_state import SystemState


class PbsCycle:
    """One cycle of pbs_sched (OpenPBS, src/scheduler: fifo.cpp, job_info.cpp, simulate.cpp).

    1. A running job is planned to end at its start + soft walltime, or whole multiples of it (:mod:`running`).
    2. The jobs are sorted, after each start anew where that changes the order (fair share).  For each one in order:
       a class of jobs that was found not runnable is skipped: same walltime and resources, whatever the soft walltime,
       unless ``soft_walltime`` is among the ``resources`` of sched_config (``classes_by_value``);
       a job runs if it fits now and until now + its value, with what is planned for top jobs;
       else, if fewer than ``depth`` (``backfill_depth``) jobs are top jobs and ``strict_ordering`` is on, it becomes
       one: it gets the first time at which it fits, which is planned and written as its estimated start time;
       its class is marked as not runnable.
    3. No promise outlives the cycle.

    A job that starts counts with its waiting value until the end of the cycle.  The promise that is measured is the
    first one.
    """

    def __init__(self, system: SystemState, policy: Policy) -> None:
        """:param policy: ``depth``, ``strict_ordering``, ``classes_by_value`` and ``guard`` are used."""
        self._system = system
        self._depth = policy.depth if policy.strict_ordering else 0
        self._by_value = policy.classes_by_value
        self._guard = policy.guard

    def discard_plans(self) -> None:
        """Do nothing: a cycle has no state."""

    def schedule(self, now: int, arrived: int) -> None:
        """Run one cycle."""
        system, jobs, machine = self._system, self._system.jobs, self._system.machine
        system.running.correct(now)
        calendar = machine.calendar(now, system.running.jobs())
        marked: set[tuple[object, ...]] = set()
        top_jobs = 0
        overtaken = False
        values: Sequence[int] = system.values.waiting
        ordered = deque(self._system.by_priority(now))
        while ordered:
            job = ordered.popleft()
            kind = machine.kind(job)
            key = (jobs.walltime[job], kind, values[job]) if self._by_value else (jobs.walltime[job], kind)
            if key in marked:
                continue
            seconds = values[job]
            if machine.fits(job) and calendar.fits(job, now, seconds):
                system.start(job, now)
                system.backfilled[job] = overtaken
                calendar.occupy(job, now, now + seconds)
                if system.order is not None and system.order.changes_on_start:
                    left = set(ordered)
                    ordered = deque(each for each in self._system.by_priority(now) if each in left)
                continue
            overtaken = True
            if top_jobs < self._depth:
                start = calendar.earliest(job, seconds)
                if start < FOREVER:
                    top_jobs += 1
                    calendar.occupy(job, start, start + seconds)
                    if system.promise[job] < 0:
                        system.promise[job] = start
                    if self._guard is not None and now > system.promise[job] + self._guard:
                        values = system.values.limit
            marked.add(key)
