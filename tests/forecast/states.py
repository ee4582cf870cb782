"""Snapshots for tests: a server of so many processors with running and waiting jobs, written in a few words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.snapshot import LiveJob, SchedulerSettings, ServerSnapshot, VnodeState, load_snapshot

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
