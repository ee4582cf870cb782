"""PBS's scheduling cycle, as its source and measurements on a real server show it."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from softwalltime.measure.simulation.machine import FOREVER, Profile
from softwalltime.measure.simulation.orders import CHUNK, best_first, blocks
from softwalltime.measure.simulation.policies import WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.queue import MIN_ARRAY_JOBS, RankedQueue
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs
from softwalltime.measure.simulation.system_state import SystemState


class PbsCycle:
    """One cycle of pbs_sched (OpenPBS, src/scheduler: fifo.cpp, job_info.cpp, simulate.cpp).

    1. A running job is planned to end at its start + soft walltime, or whole multiples of it (:mod:`corrections`).
    2. The jobs are sorted, anew after each start and each top job where that changes the order (fair share).  For each
       one in order:
       a class of jobs that was found not runnable is skipped: same walltime and resources, whatever the soft walltime,
       unless ``soft_walltime`` is among the ``resources`` of sched_config (``classes_by_value``);
       a job runs if it fits now and until now + its value, with what is planned for top jobs;
       else, if fewer than ``depth`` (``backfill_depth``) jobs are top jobs and ``strict_ordering`` is on, it becomes
       one: it gets the first time at which it fits, which is planned and written as its estimated start time;
       its class is marked as not runnable.  A queue with a ``backfill_depth`` of its own (``queue_depths``) counts its
       top jobs apart; if it is 0, none of its jobs runs behind one that does not.
    3. No promise outlives the cycle.

    A job that starts counts with its waiting value until the end of the cycle, so a start that is planned in a cycle
    with such jobs is too early; the next cycle corrects it.  The promise that is measured is the first one of a cycle
    without them.  A job that does not fit cannot fit later in a cycle.  Once all top jobs are planned, all jobs are
    therefore tested in one step, and again after each start; those that fail mark their classes.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._depths = TopJobDepths(system.jobs, policy)
        self._guard = policy.guard
        self._classes = JobClasses(system, policy)
        self._resorts = system.order is not None and system.order.changes_on_start
        # The last cycle, where the next one differs only by what was submitted since.
        self._last: _Cycle | None = None

    def discard_plans(self) -> None:
        """Classify the waiting jobs anew, because their values have changed."""
        self._classes.classify(self._system.queue.jobs)
        self._last = None

    def schedule(self, now: int, arrived: int) -> None:
        system = self._system
        new = system.queue.jobs[len(system.queue.jobs) - arrived :]
        self._classes.classify(new)
        system.running.correct(now)
        if self._last is not None and self._last.is_unaffected(new, now):
            return
        cycle = _Cycle(system, self._classes, self._depths, self._guard, now)
        # Arrays are slower than a loop over a short queue.
        every_job = len(system.queue.jobs) < MIN_ARRAY_JOBS or self._depths.hold_back
        self._plan_top_jobs(cycle, every_job)
        if cycle.full and not every_job:
            self._backfill(cycle)
        cycle.promise()
        complete = cycle.full and not (cycle.starts or self._depths.hold_back) and self._guard is None
        self._last = cycle if complete and system.ranked is not None else None

    def _plan_top_jobs(self, cycle: "_Cycle", every_job: bool) -> None:
        """Start jobs in order and plan those that do not fit; when all top jobs are planned, mark others or stop."""
        sort = every_job or not cycle.full
        # Classes change where the guard sets in, but no job is looked at twice.
        seen: set[int] = set()
        while sort:
            sort = False
            for job in chain.from_iterable(self._in_order(cycle)):
                if self._resorts:
                    if job in seen:
                        continue
                    seen.add(job)
                if cycle.is_marked(job) or cycle.is_held_back(job):
                    continue
                if cycle.start(job):
                    if self._resorts:
                        sort = True
                        break
                elif not cycle.may_plan(job):
                    cycle.mark(job)
                else:
                    planned = cycle.plan(job)
                    if cycle.full and not every_job:
                        return
                    if planned and self._resorts:
                        sort = True
                        break

    def _in_order(self, cycle: "_Cycle") -> Iterable[list[int]]:
        system = self._system
        if system.ranked is None and system.order is not None:
            jobs = cycle.unmarked()
            pieces = best_first(jobs, system.order.priorities(jobs, cycle.now))
        else:
            ranked = system.in_order.jobs
            if len(ranked) < MIN_ARRAY_JOBS:
                return [ranked.copy()]
            pieces = blocks(cycle.unmarked(), CHUNK)
        return (piece.tolist() for piece in pieces)

    def _backfill(self, cycle: "_Cycle") -> None:
        jobs = self._possible(cycle)
        # A job hides no later one of its class that would fit: the first ones often fill the machine.
        separate = self._classes.have_a_value and not self._resorts
        for block in blocks(jobs) if separate else [jobs]:
            self._start_candidates(cycle, block)

    def _start_candidates(self, cycle: "_Cycle", jobs: Integers) -> None:
        while len(jobs):
            for position in chain.from_iterable(piece.tolist() for piece in blocks(cycle.tried(jobs), CHUNK)):
                job = int(jobs[position])
                if cycle.is_marked(job):
                    continue
                if cycle.start(job):
                    break
                cycle.mark(job)
            else:
                return
            jobs = self._possible(cycle) if self._resorts else cycle.left(jobs, position)

    def _possible(self, cycle: "_Cycle") -> Integers:
        jobs = cycle.possible()
        order = self._system.order
        if self._system.ranked is not None or order is None or not len(jobs):
            return jobs
        return order.ranked(jobs, cycle.now)


class TopJobDepths:
    """How many top jobs a cycle may have.

    ``depths``: first of all queues without a ``backfill_depth`` together, then of each other queue.  ``hold_back``:
    whether that of a queue is 0.
    """

    def __init__(self, jobs: Jobs, policy: SchedulerPolicy) -> None:
        depths = dict(policy.queue_depths) if policy.strict_ordering else {}
        self.depths = [(policy.depth or 1) if policy.strict_ordering else 0, *depths.values()]
        self.hold_back = 0 in depths.values()
        places = {queue: place for place, queue in enumerate(depths, 1)}
        self._places = [places.get(queue, 0) for queue in jobs.completed.values("queue")] if depths else []

    def place(self, job: int) -> int:
        """Return the index in ``depths`` of the depth that counts a job."""
        return self._places[job] if self._places else 0


class JobClasses:
    """The class of each job that has been submitted, as a number.

    ``by_waiting`` holds where values are waiting values, ``by_limit`` where they are walltimes because a top job is
    late.  They differ only where classes distinguish values.  ``have_a_value``: jobs of a class have the same value.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        by_value = policy.classes_by_value
        self._system = system
        self._by_value = by_value
        self.have_a_value = by_value or policy.waiting == WALLTIME
        self.numbers: dict[tuple[object, ...], int] = {}
        self.by_waiting = np.zeros(len(system.jobs), np.int64)
        self.by_limit = np.zeros(len(system.jobs), np.int64) if by_value else self.by_waiting

    def classify(self, jobs: Sequence[int]) -> None:
        walltime, machine, numbers = self._system.jobs.walltime, self._system.machine, self.numbers
        waiting = self._system.values.waiting if self._by_value else walltime
        for job in jobs:
            kind = machine.kind(job)
            self.by_limit[job] = numbers.setdefault((walltime[job], kind, walltime[job]), len(numbers))
            self.by_waiting[job] = numbers.setdefault((walltime[job], kind, waiting[job]), len(numbers))


class _Cycle:
    """The state of one cycle: the plan, the classes that are not runnable, and the values that hold."""

    def __init__(
        self, system: SystemState, classes: JobClasses, depths: TopJobDepths, guard: int | None, now: int
    ) -> None:
        self._system = system
        self._depths = depths
        # How many more jobs may become top jobs, for each depth.
        self._left = depths.depths.copy()
        self._held_back: set[int] = set()
        self._guard = guard
        self._classes = classes
        self._calendar = system.machine.calendar(now, system.running.jobs())
        self._version = system.running.version
        self._marked = np.zeros(len(classes.numbers), np.bool_)
        self._class = classes.by_waiting
        self._values: Sequence[int] = system.values.waiting
        self._values_array = system.values.waiting_array
        self._last_top_job = -1
        self._overtaken = False
        self.now = now
        self._planned: list[tuple[int, int]] = []
        # Whether a job that starts is planned for longer from the next cycle on.
        self._corrected = False
        self.starts = 0

    @property
    def full(self) -> bool:
        """Whether no more jobs may become top jobs."""
        return not any(self._left)

    def may_plan(self, job: int) -> bool:
        return self._left[self._depths.place(job)] > 0

    def is_held_back(self, job: int) -> bool:
        return bool(self._held_back) and self._depths.place(job) in self._held_back

    def unmarked(self) -> Integers:
        jobs = self._system.in_order.array()
        # The queue's array changes when a job starts.
        return jobs[~self._marked[self._class[jobs]]] if self._marked.any() else jobs.copy()

    def is_marked(self, job: int) -> bool:
        return bool(self._marked[self._class[job]])

    def mark(self, job: int) -> None:
        self._marked[self._class[job]] = True

    def start(self, job: int) -> bool:
        system, seconds = self._system, self._values[job]
        if not system.machine.fits(job) or not self._calendar.fits(job, self.now, seconds):
            self._overtaken = True
            if self._depths.hold_back and not self._depths.depths[place := self._depths.place(job)]:
                self._held_back.add(place)
            return False
        if not self._overtaken:
            self._overtaken = system.first(self.now) != job
        system.start(job, self.now, backfilled=self._overtaken)
        self._calendar.occupy(job, self.now, self.now + seconds)
        self.starts += 1
        self._corrected |= system.values.running[job] > seconds
        return True

    def plan(self, job: int) -> bool:
        """Make a job that does not fit a top job and mark its class; return whether it ever fits."""
        system, seconds = self._system, self._values[job]
        self.mark(job)
        start = self._calendar.earliest(job, seconds)
        if start == FOREVER:
            return False
        self._left[self._depths.place(job)] -= 1
        self._last_top_job = job
        self._calendar.occupy(job, start, start + seconds)
        self._planned.append((job, start))
        if system.is_late(job, self.now, self._guard):
            self._values, self._values_array = system.values.limit, system.values.limit_array
            self._class = self._classes.by_limit
        system.planned(job)
        return True

    def promise(self) -> None:
        for job, start in self._planned:
            self._system.promise_start(job, start, self.now, settled=not self._corrected)

    def possible(self) -> Integers:
        """The waiting jobs of the classes that have a job that may start, or only such jobs."""
        jobs = self._system.in_order.array()
        may_start = self._calendar.candidates(jobs, self._values_array)
        if self._classes.have_a_value or not may_start.any():
            return jobs[may_start]
        classes = self._class[jobs]
        runnable = np.zeros_like(self._marked)
        runnable[classes[may_start]] = True
        runnable &= ~self._marked
        return jobs[runnable[classes]]

    def tried(self, jobs: Integers) -> Integers:
        """Positions of the jobs that may start and come before the first of their class that may not."""
        may_start = self._calendar.candidates(jobs, self._values_array)
        refused = (~may_start).nonzero()[0]
        if len(refused) and not self._classes.have_a_value:
            classes = self._class[jobs]
            first = np.full(len(self._marked), len(jobs))
            # Later assignments replace earlier ones.
            first[classes[refused[::-1]]] = refused[::-1]
            may_start &= np.arange(len(jobs)) < first[classes]
        return may_start.nonzero()[0]

    def left(self, jobs: Integers, position: int) -> Integers:
        """The jobs behind the one at this position, which started; none before it may start."""
        self._marked[self._class[jobs[:position]]] = True
        jobs = jobs[position + 1 :]
        return jobs[~self._marked[self._class[jobs]]]

    def is_unaffected(self, new: Sequence[int], now: int) -> bool:
        """Whether a cycle at ``now`` starts and promises nothing more, if these jobs were submitted since.

        This cycle has started no job, planned all its top jobs and marked the classes of all jobs.  Time alone lets no
        job fit.  A new job counts if it ranks behind all top jobs, is the first of its class, and fits.
        """
        system, calendar = self._system, self._calendar
        if system.running.version != self._version or not isinstance(calendar, Profile):
            return False
        ranked = system.in_order
        waiting = ranked.array()
        for job in new:
            if isinstance(ranked, RankedQueue):
                position = ranked.position(job)
                if self._last_top_job >= 0 and position < ranked.position(self._last_top_job):
                    return False
            else:
                position = len(waiting) - len(new) + new.index(job)
            fits = system.machine.fits(job) and calendar.fits(job, now, self._values[job])
            if fits and not (self._class[waiting[:position]] == self._class[job]).any():
                return False
        return True
