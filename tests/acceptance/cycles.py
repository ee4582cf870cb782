"""Compare each cycle of a real scheduler with the simulator's cycle in the same state.

Two schedules of the same jobs drift apart after the first difference, so comparing whole schedules explains nothing.
Here the simulator gets the state that the accounting log shows before each group of starts, and decides from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product, takewhile

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.forecast.server_vnodes import placed_on
from softwalltime.measure.simulation.engine import machine_of
from softwalltime.measure.simulation.machine import Calendar, Machine
from softwalltime.measure.simulation.pbs_cycle import PbsCycle
from softwalltime.measure.simulation.placement import Placement, VnodeMachine
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs
from softwalltime.measure.simulation.system_state import SystemState
from tests.acceptance.sleeping import Record

MOMENT = 1
"""Maximum seconds between the scheduler's view and the log's record of an event."""
TRIED = 5
"""Most jobs that end within a moment and may still run or be exiting: each of them triples the number of tries."""


VNODES = 16
"""Most vnodes that :meth:`Lab.vnodes` makes, called vn0 and so on, in the order of the policy's."""


class WithExiting:
    """A machine of which exiting jobs still hold a part.

    :param free: the machine without exiting jobs.
    :param in_use: the same machine, with them.
    :param processors: what each job takes.
    """

    def __init__(self, free: Machine, in_use: Machine, processors: Sequence[int]) -> None:
        self._free, self._in_use = free, in_use
        self._processors = processors
        self.kind, self.fits = free.kind, in_use.fits

    def allocate(self, job: int) -> None:
        self._free.allocate(job)
        self._in_use.allocate(job)

    def release(self, job: int) -> None:
        self._free.release(job)
        self._in_use.release(job)

    def place(self, job: int, exec_vnode: str) -> None:
        """Let a job start on the vnodes that it was on: which ones PBS chose may depend on earlier plans."""
        vnodes = {f"vn{number}": number for number in range(VNODES)}
        taken = [(vnodes[name], ncpus) for name, (ncpus, *_) in placed_on(exec_vnode).items() if name in vnodes]
        for machine in (self._free, self._in_use):
            # A job that has whole vnodes takes more than it asks for.
            if isinstance(machine, VnodeMachine) and sum(ncpus for _, ncpus in taken) == self._processors[job]:
                numbers, ncpus = np.array(taken, np.int64).T
                machine.placed[job] = Placement(numbers, np.array([ncpus, 0 * ncpus, 0 * ncpus]))

    def exit(self, job: int) -> None:
        """Let a job that was released still hold its part."""
        self._in_use.allocate(job)

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> "PlanWithExiting":
        ends = list(ends)
        return PlanWithExiting(self._free.calendar(now, ends), self._in_use.calendar(now, ends))


class PlanWithExiting(Calendar):
    """The plan of pbs_sched while a job is exiting: the job no longer runs, but holds its processors.

    Seen in its log: the start of a top job is found as if these processors stayed in use, and whether another job
    delays it as if they were free.
    """

    def __init__(self, free: Calendar, in_use: Calendar) -> None:
        self._free = free
        self._in_use = in_use

    def fits(self, job: int, start: int, seconds: int) -> bool:
        # A pool's plan is made when it is first asked for, which must be before a job starts.
        self._in_use.fits(job, start, seconds)
        return self._free.fits(job, start, seconds)

    def candidates(self, jobs: Integers, values: Integers) -> NDArray[np.bool_]:
        return self._free.candidates(jobs, values)

    def earliest(self, job: int, seconds: int) -> int:
        return self._in_use.earliest(job, seconds)

    def change(self, job: int, sign: int, start: int, end: int) -> None:
        self._free.change(job, sign, start, end)
        self._in_use.change(job, sign, start, end)


@dataclass(frozen=True, slots=True)
class Cycle:
    """What PBS started after some change, and what the simulator starts in the same state.

    ``explained``: whether they are the same jobs, or would be if jobs that ended within a moment still ran or were
    exiting, or if PBS did two cycles.  Records of other things may stand among those of one cycle's starts.
    """

    time: int
    started: frozenset[int]
    simulated: frozenset[int]
    explained: bool

    @property
    def same(self) -> bool:
        """Whether both started the same jobs."""
        return self.started == self.simulated


def compare(jobs: Jobs, records: Sequence[Record], processors: int, policy: SchedulerPolicy) -> list[Cycle]:
    """Every cycle after which the log has other records than starts.

    :param jobs: jobs as they ran, with their records in the log's order (:func:`sleeping.recorded`).
    """
    found: list[Cycle] = []
    scheduler = _Scheduler(jobs, processors, policy)
    position = 0
    before: frozenset[int] = frozenset()
    for is_start, group in groupby(records, key=lambda record: record.kind == "S"):
        members = list(group)
        position += len(members)
        if is_start:
            continue
        past, now = records[:position], members[-1].time
        starts = list(takewhile(lambda record: record.kind == "S", records[position:]))
        started = frozenset(record.job for record in starts)
        last = max((record.time for record in starts), default=now)
        later = records[position + len(starts) :]
        ends = [record for record in records if record.kind == "E" and abs(record.time - now) <= MOMENT]
        near = [record.job for record in sorted(ends, key=lambda end: abs(end.time - now))[:TRIED]]
        soon = frozenset(record.job for record in later if record.kind == "S" and record.time - last <= MOMENT)
        simulated = scheduler.decide(past, now, {})
        if started and started <= before:
            # The rest of the cycle before, which this record fell into.
            found[-1] = replace(found[-1], started=found[-1].started | started)
            continue
        together = simulated if started == simulated else scheduler.explain(past, now, started, soon, near)
        before = together or frozenset()
        found.append(Cycle(now, started, simulated, together is not None))
    return found


class _Scheduler:
    """The simulator's cycle, asked in any state."""

    def __init__(self, jobs: Jobs, processors: int, policy: SchedulerPolicy) -> None:
        self._jobs = jobs
        self._processors = processors
        self._policy = policy

    def explain(
        self, past: Sequence[Record], now: int, started: frozenset[int], soon: frozenset[int], near: Sequence[int]
    ) -> frozenset[int] | None:
        """What cycles one after the other start if each of ``near`` still runs, is exiting, or has ended.

        Of all ways in which that is possible the first one in which these jobs are started; ``None`` if there is none.

        :param soon: jobs that the last cycle may have started too.
        """
        failed = set()
        for states in product(("running", "exiting", "ended"), repeat=len(near)):
            simulated = self.decide(past, now, dict(zip(near, states, strict=True)))
            if started <= simulated <= started | soon:
                return simulated
            # What further cycles start follows from what this one has started.
            if simulated and simulated < started and simulated not in failed:
                failed.add(simulated)
                further = [*past, *(Record(now, "S", job) for job in sorted(simulated))]
                rest = self.explain(further, now, started - simulated, soon, near)
                if rest is not None:
                    return simulated | rest
        return None

    def decide(self, past: Sequence[Record], now: int, states: Mapping[int, str]) -> frozenset[int]:
        """What a cycle starts after these records.

        :param states: what has become of jobs that end near this time, where it is not what the records say.
        """
        jobs, policy = self._jobs, self._policy
        free, in_use = (machine_of(jobs, self._processors, policy) for _ in range(2))
        machine = WithExiting(free, in_use, jobs.processors)
        system = SystemState(jobs, machine, policy)
        running = set()
        for time, kind, job, exec_vnode in past:
            system.begin_cycle(time)
            if kind == "Q":
                if system.values.change_at_submission:
                    system.values.submitted(job, time)
                system.submit([job], time)
            elif kind == "S":
                machine.place(job, exec_vnode)
                system.start(job, time)
                running.add(job)
            elif job not in states:
                system.end(job, time)
        for job, state in states.items():
            if job in running and state != "running":
                system.end(job, now)
                if state == "exiting":
                    machine.exit(job)
        waiting = set(system.queue.jobs)
        system.begin_cycle(now)
        PbsCycle(system, policy).schedule(now, len(waiting))
        return frozenset(waiting.difference(system.queue.jobs))
