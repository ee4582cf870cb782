"""Snapshots for tests: a server of so many processors with running and waiting jobs, written in a few words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.snapshot import LiveJob, SchedulerSettings, ServerSnapshot, VnodeState, load_snapshot
from softwalltime.measure.simulation.engine import Engine
from softwalltime.measure.simulation.machine import Machine, Processors
from softwalltime.measure.simulation.placement import Placement, VnodeLayout, VnodeMachine, VnodeRequests
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

DATA = Path(__file__).parent / "data"
NOW = 1_795_170_228
"""Fri Nov 20 10:23:48 2026 UTC."""


def recorded() -> ServerSnapshot:
    """Return the recorded snapshot of a server; job 3 asks for two vnodes, and not for one that is too large."""
    found = load_snapshot(DATA / "snapshot.json")
    jobs = [
        replace(job, submission=replace(job.submission, select="2:ncpus=8")) if job.submission.ncpus == 16 else job
        for job in found.jobs
    ]
    return replace(found, jobs=tuple(jobs))


def running(number: int, ncpus: int, walltime: int, elapsed: int, **more: Any) -> LiveJob:
    """A job that has run for ``elapsed`` seconds."""
    return _job(number, "R", ncpus, walltime, start=NOW - elapsed, **more)


def waiting(number: int, ncpus: int, walltime: int, **more: Any) -> LiveJob:
    """A job that waits."""
    return _job(number, "Q", ncpus, walltime, **more)


def _job(number: int, state: str, ncpus: int, walltime: int, **more: Any) -> LiveJob:
    user = str(more.pop("user", "alice"))
    submission = Submission(f"{number}.srv", user, NOW - 9000 + number, walltime, queue="q", ncpus=ncpus)
    return LiveJob(submission, state, number, **more)


def server(processors: int, *jobs: LiveJob, **settings: Any) -> ServerSnapshot:
    """A server with these jobs, strictly ordered by default."""
    scheduler = SchedulerSettings(**{"strict_ordering": True, "eligible_time": True, **settings})
    vnodes = (VnodeState("n1", "n1", "free", processors),)
    return ServerSnapshot(NOW, "srv", "23", jobs, vnodes, (), (), scheduler)


class _NotingMachine(VnodeMachine):
    """A machine that notes the vnodes of each job that has started."""

    def __init__(self, inner: Machine, requests: VnodeRequests) -> None:
        super().__init__(inner, requests)
        self.noted: dict[int, Placement] = {}

    def allocate(self, job: int) -> None:
        super().allocate(job)
        self.noted[job] = self.placed[job]


def placed_schedule(jobs: Jobs, processors: int, policy: SchedulerPolicy) -> tuple[Integers, dict[int, Placement]]:
    """Simulate jobs on the policy's vnodes; return the start of each job, and the vnodes that it takes."""
    requests = VnodeRequests(VnodeLayout(policy.vnodes), jobs)
    machine = _NotingMachine(Processors(processors, jobs.processors), requests)
    return Engine(jobs, machine, policy).run().start, machine.noted


def snapshot_at(
    now: int, jobs: Jobs, start: Integers, placed: Mapping[int, Placement], sizes: Sequence[int]
) -> tuple[ServerSnapshot, dict[str, int]]:
    """Return the state of a server in the midst of a schedule, and the position of each of its jobs by id.

    :param placed: the vnodes of the jobs.
    :param sizes: the processors of each vnode.
    """
    live: dict[str, int] = {}
    found = []
    for number, record in enumerate(jobs.completed):
        begin, submission = int(start[number]), record.submission
        if submission.submitted <= now < begin + jobs.runtime[number]:
            live[submission.job_id] = number
            if begin > now:
                found.append(LiveJob(submission, "Q", number, etime=submission.submitted))
                continue
            vnodes, amounts = placed[number]
            held = zip(vnodes.tolist(), amounts[0].tolist(), strict=True)
            exec_vnode = "+".join(f"(n{vnode}:ncpus={ncpus})" for vnode, ncpus in held)
            found.append(LiveJob(submission, "R", number, start=begin, exec_vnode=exec_vnode))
    vnodes_up = [VnodeState(f"n{number}", f"n{number}", "free", ncpus) for number, ncpus in enumerate(sizes)]
    return replace(server(0, *found), taken=now, vnodes=tuple(vnodes_up)), live
