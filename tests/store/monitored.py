"""A store as a daemon would have left it: jobs, and the decisions that its handler took about them as they came."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, text

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, DecisionRecord
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.request_handler import RequestHandler
from softwalltime.store.daily import refresh
from softwalltime.store.predictions import add_decisions
from tests.samples import events, job
from tests.store.stored import add_jobs

HOUR, DAY = 3600, 86400


def lately_by_day(now: int) -> int:
    """The latest moment before this one, at most four hours ago, from three to twenty-three o'clock.

    What tests let happen some hours before it and some minutes after it happens on the same day.
    """
    midnight = now - now % DAY
    return min(now, midnight + 23 * HOUR) if now >= midnight + 3 * HOUR else midnight - HOUR


NOW = lately_by_day(int(time.time()))
"""The current time of the stored rows; PostgreSQL's clock is at most a few hours ahead."""


def rows(connection: Connection, query: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query, or of a view by its name."""
    query = query if " " in query else f"SELECT * FROM softwalltime.{query}"
    return [dict(row) for row in connection.execute(text(query), values).mappings()]


def fresh(engine: Engine, now: int = NOW) -> int:
    """Refresh the figures; returns how many days were reckoned anew."""
    return sum(refresh(engine, now))


def store(engine: Engine, jobs: Sequence[CompletedJob], decisions: Sequence[DecisionRecord] = ()) -> None:
    """Store jobs and decisions."""
    with engine.begin() as connection:
        add_jobs(connection, jobs)
        add_decisions(connection, decisions)


def asked(workload: Workload, **policy: Any) -> tuple[list[DecisionRecord], np.ndarray[Any, np.dtype[np.int64]]]:
    """What the daemon's handler decides about each job when it comes into its queue, having learnt those that ended
    before; and the soft walltimes, -1 for none, in the workload's order.
    """
    clock = [0.0]
    predictions = PredictionService(SitePolicy(**policy), clock=lambda: clock[0])
    predictions.ready = True
    handler = RequestHandler(predictions, dict)
    decisions: list[DecisionRecord] = []
    soft_walltimes = np.full(len(workload.jobs), -1, np.int64)
    for kind, number, _ in events(workload):
        job = workload.jobs[number]
        if kind == Kind.ENDED:
            clock[0] = max(clock[0], job.end)
            predictions.learn([job])
            continue
        of = job.submission
        clock[0] = max(clock[0], of.submitted)
        asked_about = {
            "job_id": of.job_id, "user": of.user, "project": of.project, "queue": of.queue, "walltime": of.walltime,
            "job_name": of.job_name, "min_walltime": of.min_walltime, "max_walltime": of.max_walltime,
        }  # fmt: skip
        line = {"v": 1, "op": "predict", "event": "postqueuejob", "now": of.submitted, "job": asked_about}
        assert b"error" not in handler.answer(json.dumps(line).encode())
        handler.note()
        decision = handler.decisions.pop()
        decisions.append(decision)
        if decision.soft_walltime is not None:
            soft_walltimes[number] = decision.soft_walltime
    return decisions, soft_walltimes


def lately(jobs: Sequence[CompletedJob], days: int = 80) -> list[CompletedJob]:
    """Return the jobs with ends moved into the last ``days`` days; runtimes and waits are unchanged."""
    first, last = min(job.end for job in jobs), max(job.end for job in jobs)
    factor = days * DAY / max(1, last - first)
    moved = []
    for each in jobs:
        end = NOW - int((last - each.end) * factor)
        start = end - each.runtime
        submitted = start - min(DAY, (each.start or 0) - each.submission.submitted)
        submission = replace(each.submission, submitted=submitted)
        moved.append(replace(each, submission=submission, start=start, end=end, etime=submitted, qtime=submitted))
    return moved


def decision(job_id: str = "1.srv", at: int = NOW - 2 * HOUR, **more: Any) -> DecisionRecord:
    """A decision in mode on that gives the job 600 s, of a walltime of one hour."""
    fields = {
        "event": "postqueuejob", "mode": "on", "predictor": "v1", "predicted": 600.0, "soft_walltime": 600,
        "action": "set", "basis": "mean", "took": 100,
    } | more  # fmt: skip
    submission = job(job_id=job_id, walltime=fields.pop("walltime", HOUR), queue="q").submission
    return DecisionRecord(at, submission=submission, **fields)


def ended(job_id: str = "1.srv", *, start: int = NOW - HOUR, runtime: int = 900, **more: Any) -> Any:
    """A job that ran for 900 s of an hour, submitted two hours ago."""
    return job(
        job_id=job_id, submitted=start - HOUR, end=start + runtime, runtime=runtime,
        **{"walltime": HOUR, "queue": "q", "ncpus": 4, **more},
    )  # fmt: skip


def one(engine: Engine, view: str) -> dict[str, Any]:
    """The only row of a view."""
    with engine.connect() as connection:
        (row,) = rows(connection, view)
    return row


def found(engine: Engine, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query, or all rows of a view."""
    with engine.connect() as connection:
        return rows(connection, query)
