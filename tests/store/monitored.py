"""A store as a daemon would have left it: jobs, and the decisions that its desk took about them as they came."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, text

from softwalltime.jobs import CompletedJob, Decision
from softwalltime.replay.workload import Workload
from softwalltime.service.adviser import Adviser, Desk
from softwalltime.service.site_policy import SitePolicy
from softwalltime.store import add_decisions, add_jobs, refresh

DAY = 86400


def lately_by_day(now: int) -> int:
    """The latest moment before this one, at most four hours ago, from three to twenty-three o'clock.

    What tests let happen some hours before it and some minutes after it happens on the same day.
    """
    midnight = now - now % DAY
    return min(now, midnight + 23 * 3600) if now >= midnight + 3 * 3600 else midnight - 3600


NOW = lately_by_day(int(time.time()))
"""Now for what the store holds; PostgreSQL's own clock goes on from it, a few hours at most."""


def rows(connection: Connection, query: str, **values: Any) -> list[dict[str, Any]]:
    """What a query finds; a name alone is a view of ours."""
    query = query if " " in query else f"SELECT * FROM softwalltime.{query}"
    return [dict(row) for row in connection.execute(text(query), values).mappings()]


def fresh(engine: Engine, now: int = NOW, keep_days: int = 0) -> int:
    """Refresh the figures; returns how many days were reckoned anew."""
    return sum(refresh(engine, now, keep_days))


def store(engine: Engine, jobs: Sequence[CompletedJob], decisions: Sequence[Decision] = ()) -> None:
    """Store jobs and decisions."""
    with engine.begin() as connection:
        add_jobs(connection, jobs)
        add_decisions(connection, decisions)


def asked(workload: Workload, **policy: Any) -> tuple[list[Decision], np.ndarray[Any, np.dtype[np.int64]]]:
    """What the daemon's desk decides about each job when it comes into its queue, having learnt those that ended
    before; and the soft walltimes, -1 for none, in the workload's order.
    """
    clock = [0.0]
    adviser = Adviser(SitePolicy(**policy), clock=lambda: clock[0])
    adviser.ready = True
    desk = Desk(adviser, dict)
    count = len(workload.jobs)
    decisions: list[Decision] = []
    soft_walltimes = np.full(count, -1, np.int64)
    for event in workload.order:
        if event < count:
            job = workload.jobs[event]
            clock[0] = max(clock[0], job.end)
            adviser.learn([job])
            continue
        job = workload.jobs[event - count]
        of = job.submission
        clock[0] = max(clock[0], of.submitted)
        asked_about = {
            "job_id": of.job_id, "user": of.user, "project": of.project, "queue": of.queue, "walltime": of.walltime,
            "job_name": of.job_name, "min_walltime": of.min_walltime, "max_walltime": of.max_walltime,
        }  # fmt: skip
        line = {"v": 1, "op": "predict", "event": "postqueuejob", "now": of.submitted, "job": asked_about}
        assert b"error" not in desk.answer(json.dumps(line).encode())
        desk.note()
        decision = desk.decisions.pop()
        decisions.append(decision)
        if decision.soft_walltime is not None:
            soft_walltimes[event - count] = decision.soft_walltime
    return decisions, soft_walltimes


def lately(jobs: Sequence[CompletedJob], days: int = 80) -> list[CompletedJob]:
    """Jobs whose ends are squeezed into the last so many days, their runtimes and waits kept."""
    first, last = min(job.end for job in jobs), max(job.end for job in jobs)
    factor = days * DAY / max(1, last - first)
    moved = []
    for job in jobs:
        end = NOW - int((last - job.end) * factor)
        start = end - job.runtime
        submitted = start - min(DAY, (job.start or 0) - job.submission.submitted)
        submission = replace(job.submission, submitted=submitted)
        moved.append(replace(job, submission=submission, start=start, end=end, etime=submitted, qtime=submitted))
    return moved
