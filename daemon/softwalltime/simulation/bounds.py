"""The latest start of each job: what first come, first served gives it when it is submitted, plus a slack."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from softwalltime.errors import UsageError
from softwalltime.simulation.machine import Processors
from softwalltime.simulation.planning import Profile
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.system_state import SystemState

SLACK = 14_400
"""Least slack of the backfilling slack in seconds, where the policy does not give it."""
DEPTH = 1000
"""Waiting jobs, the first ones by submission, that have a bound."""


class WalltimePlan(NamedTuple):
    """A planned start of each of some waiting jobs, and the calendar of these and the running jobs."""

    profile: Profile
    starts: dict[int, int]


class Bounds:
    """Plans by walltimes, and the bounds that follow from them.

    At its submission a job is planned behind all jobs that wait, in order of submission, each at the first time at
    which it fits for its walltime (conservative backfilling).  Its bound is that time plus the slack, or plus a share
    of the planned wait if that is more.  A job behind the first ``depth`` waiting jobs gets its bound when it is one of
    them.
    """

    def __init__(self, system: SystemState, policy: SchedulerPolicy) -> None:
        """
        :param policy: ``slack``, ``slack_share``, and ``depth`` of the backfilling slack are used.
        :raises UsageError: if the machine is not plain processors.
        """
        if not isinstance(system.machine, Processors):
            raise UsageError("bounds are planned on processors only: omit the slack on a machine of vnodes")
        self._system = system
        self._machine = system.machine
        self._slack = SLACK if policy.slack is None else policy.slack
        self._share = policy.slack_share
        self._depth = (policy.depth if policy.backfill == "slack" else None) or DEPTH
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
        """Plan these waiting jobs as :meth:`plan` does; ``None`` if one would start later than it may.

        :param latest: the latest start of each simulated job.
        :param started: a job that starts now, before them.
        """
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
