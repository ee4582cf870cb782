"""Bounds of starts, and slack-based backfilling: any order is tried while a plan by walltimes keeps all bounds.

(D. Talby & D. G. Feitelson, "Supporting priorities and improving utilization of the IBM SP scheduler using slack-based
backfilling", IPPS/SPDP 1999.)
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.machine import FOREVER, Processors, Profile, processors_of
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.system_state import SystemState

DEFAULT_SLACK_S = 14_400
"""Default minimum slack of slack-based backfilling in seconds."""
DEFAULT_DEPTH = 1000
"""Default number of waiting jobs with a bound, the first ones by submission."""


class WalltimePlan(NamedTuple):
    """A planned start of each of some waiting jobs, and the calendar of these and the running jobs."""

    profile: Profile
    starts: dict[int, int]


class Bounds:
    """Plans by walltimes, and the bounds that follow from them.

    At its submission a job is planned behind all jobs that wait, each at the first time at which it fits for its
    walltime (conservative backfilling).  Its bound is that time plus the slack, or plus a share of the planned wait if
    that is more.  A job behind the first ``depth`` waiting jobs gets its bound when it is one of them.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        """:raises UsageError: if the machine is not plain processors."""
        if not isinstance(system.machine, Processors):
            raise UsageError("bounds are planned on processors only: omit the slack on a machine of pools")
        self._system = system
        self._machine = system.machine
        self._slack = DEFAULT_SLACK_S if policy.slack is None else policy.slack
        self._share = policy.slack_share
        self._depth = (policy.depth if policy.backfill == "slack" else None) or DEFAULT_DEPTH
        self._version = -1
        self._ends: list[tuple[int, int]] = []

    def set(self, now: int) -> WalltimePlan | None:
        """Set the bounds of jobs that get one now; return the plan behind them, ``None`` without such jobs."""
        system = self._system
        bound, jobs = system.bound, system.queue.jobs[: self._depth]
        if not jobs or bound[jobs[-1]] >= 0:
            return None
        system.running.correct(now)
        plan = self.plan(jobs, now)
        for job in reversed(jobs):
            if bound[job] >= 0:
                break
            start = plan.starts[job]
            bound[job] = start + max(self._slack, int(self._share * (start - now)))
        return plan

    def plan(self, jobs: Iterable[int], now: int) -> WalltimePlan:
        """Plan these waiting jobs one after the other, each at the first time at which it fits."""
        plan = self.within(jobs, now, None)
        assert plan is not None  # noqa: S101  # without limits every job can be planned
        return plan

    def within(
        self, jobs: Iterable[int], now: int, latest: Sequence[int] | None, started: int | None = None
    ) -> WalltimePlan | None:
        """Plan these jobs as :meth:`plan` does, after ``started``, which starts now; ``None`` if one is too late."""
        needs, limit = self._machine.needs, self._system.values.limit
        profile = self._machine.calendar(now, self.ends())
        if started is not None:
            profile.occupy(started, now, now + limit[started])
        starts: dict[int, int] = {}
        # A job of the same size and walltime as an earlier one does not fit before it.
        found: dict[tuple[int, int], int] = {}
        for job in jobs:
            seconds = limit[job]
            kind = needs[job], seconds
            start = profile.earliest(job, seconds, found.get(kind, now))
            if latest is not None and start > latest[job]:
                return None
            profile.occupy(job, start, start + seconds)
            starts[job] = found[kind] = start
        return WalltimePlan(profile, starts)

    def ends(self) -> list[tuple[int, int]]:
        """When each running job ends by its walltime, and the job, by that time; later where it has outlived it."""
        system = self._system
        running, started, limit = system.running, system.started, system.values.limit
        if running.version != self._version:
            self._ends = sorted((max(started[job] + limit[job], planned), job) for planned, job in running.jobs())
            self._version = running.version
        return self._ends


MAX_FAILED_PLANS = 32
"""Maximum failed attempts to find a new plan in one pass; later starts must fit beside the existing plan."""


class SlackBackfilling:
    """EASY backfilling in which a job starts only if all others can still be planned to start by their bounds.

    The order and the waiting values only choose which job to try, so no prediction can break a bound while jobs end at
    their walltime at the latest.  A job that fits beside the plan starts.  Otherwise all others are planned anew, the
    earliest bound first, and the job starts if all bounds are kept.

    A job whose planned start comes before the first planned end of a running job, before which there may be no other
    pass, is planned later, or starts if its bound does not allow that.  The promise of a job is its latest start: its
    bound (:class:`.Bounds`), or the first time that the jobs before it leave, where no plan keeps all bounds.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        self._system = system
        self._machine = processors_of(system.machine, policy.backfill)
        self._bounds = Bounds(system, policy)
        self._latest = [-1] * len(system.jobs)
        # The waiting jobs with a bound, by their latest start.
        self._by_latest: list[tuple[int, int]] = []
        self._plan = WalltimePlan(self._machine.calendar(0, ()), {})
        # The version of the running jobs at the end of the last pass, and whom it refused: time alone helps no job.
        self._version = -1
        self._refused: set[int] = set()

    def discard_plans(self) -> None:
        """Do nothing: the plan does not depend on values."""

    def schedule(self, now: int, arrived: int) -> None:
        """Plan what was submitted, start jobs in order, and then those that cannot be planned later."""
        running = self._system.running
        running.correct(now)
        if running.version == self._version:
            self._plan.profile.advance(now)
        else:
            self._refused.clear()
            self._plan = self._with_present_ends(now)
        self._admit(now)
        while self._start_in_order(now):
            pass
        self._start_due(now)
        self._version = running.version

    def _with_present_ends(self, now: int) -> WalltimePlan:
        """The same planned starts beside the jobs that run now; a new plan if they no longer fit."""
        starts, limit = self._plan.starts, self._system.values.limit
        if min(starts.values(), default=now) >= now:
            profile = self._machine.calendar(now, self._bounds.ends())
            for job, start in starts.items():
                profile.occupy(job, start, start + limit[job])
            if min(profile.free) >= 0:
                return WalltimePlan(profile, starts)
        return self._bounds.plan([job for _, job in self._by_latest], now)

    def _admit(self, now: int) -> None:
        arrival = self._bounds.set(now)
        if arrival is None:
            return
        latest, bound = self._latest, self._system.bound
        new = [job for job in arrival.starts if latest[job] < 0]
        for job in new:
            latest[job] = bound[job]
        kept = all(start <= latest[job] for job, start in arrival.starts.items())
        if kept:
            self._plan = arrival
        for job in new:
            if not kept:
                self._add(job, now)
            insort(self._by_latest, (latest[job], job))
        for job in new:
            self._system.promise_start(job, latest[job], now)

    def _add(self, job: int, now: int) -> None:
        """Plan a job beside the others, or replan all; as a last resort, plan it later than its bound."""
        profile, starts = self._plan
        seconds = self._system.values.limit[job]
        start = profile.earliest(job, seconds)
        if start > self._latest[job]:
            jobs = [other for _, other in sorted([*self._by_latest, (self._latest[job], job)])]
            if (plan := self._bounds.within(jobs, now, self._latest)) is not None:
                self._plan = plan
                return
            self._latest[job] = start
        profile.occupy(job, start, start + seconds)
        starts[job] = start

    def _start_in_order(self, now: int) -> bool:
        """Start jobs as EASY does, where the bounds allow it; return whether a start has changed the order."""
        system, machine, needs = self._system, self._machine, self._system.jobs.processors
        waiting = system.values.waiting
        resort = system.order is not None and system.order.changes_on_start
        # Until the first job that is too wide, the head, none is in the way of another one.
        head, time_left, extra = -1, FOREVER, 0
        refusals = 0
        if not machine.free:
            return False
        for job in system.by_priority(system.queue.array(), now):
            need = needs[job]
            if need > machine.free:
                if head < 0:
                    head = job
                    shadow, extra = system.running.shadow(need, machine.free, needs)
                    time_left = shadow - now
                continue
            delays = waiting[job] > time_left
            if job in self._refused or (delays and need > extra):
                continue
            if not self._start_if_kept(job, now, replan=refusals < MAX_FAILED_PLANS):
                refusals += 1
            elif resort or not machine.free:
                return resort
            elif delays:
                extra -= need
        return False

    def _start_if_kept(self, job: int, now: int, *, replan: bool) -> bool:
        """Start a job that fits now if a plan exists that keeps the other jobs' bounds."""
        profile, starts = self._plan
        seconds = self._system.values.limit[job]
        planned = starts.get(job)
        if planned is not None:
            profile.vacate(job, planned, planned + seconds)
        if profile.fits(job, now, seconds):
            profile.occupy(job, now, now + seconds)
            self._start(job, now)
            return True
        if planned is not None:
            profile.occupy(job, planned, planned + seconds)
        if replan:
            others = [other for _, other in self._by_latest if other != job]
            if (plan := self._bounds.within(others, now, self._latest, started=job)) is not None:
                self._plan = plan
                self._start(job, now)
                return True
            self._refused.add(job)
        return False

    def _start_due(self, now: int) -> None:
        """Postpone or start jobs that are planned to start before the next certain pass."""
        limit, latest = self._system.values.limit, self._latest
        while self._plan.starts:
            profile, starts = self._plan
            ends = self._bounds.ends()
            job = min(starts, key=lambda job: (starts[job], job))
            start, seconds = starts[job], limit[job]
            if ends and start >= ends[0][0]:
                return
            profile.vacate(job, start, start + seconds)
            later = profile.earliest(job, seconds, ends[0][0]) if ends else FOREVER
            if later > latest[job] and self._machine.fits(job):
                profile.occupy(job, now, now + seconds)
                self._start(job, now)
            else:
                profile.occupy(job, later, later + seconds)
                starts[job] = later

    def _start(self, job: int, now: int) -> None:
        """Start a job that is in the plan's calendar from now on."""
        if self._plan.starts.pop(job, None) is not None or self._latest[job] >= 0:
            del self._by_latest[bisect_left(self._by_latest, (self._latest[job], job))]
        self._system.start(job, now, backfilled=None)
