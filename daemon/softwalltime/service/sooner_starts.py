"""Forecast how much sooner waiting jobs would start with the walltime suggested to their owners."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from softwalltime.core.shorter_walltimes import MIN_JOBS, shorter_walltime
from softwalltime.measure.forecast.queue_model import ModelledQueue
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.measure.forecast.start_times import distributions_of
from softwalltime.measure.forecast.what_if import sooner_by
from softwalltime.service.users.own_jobs_server import DAYS
from softwalltime.store.own_jobs_rows import read_requests

MAX_TIME_SHARE = 0.1
"""Maximum share of the forecast interval to spend on this."""
RESULT_MAX_AGE_S = 1800
"""Seconds for which a result and the suggestions are reused."""

SoonerStart = tuple[int, int]
"""A suggested walltime, and how much sooner the job would start with it, both in seconds."""


@dataclass(eq=False)
class SoonerStarts:
    """Forecast a few jobs at each step, in turn: the first job in the queue of each user and walltime."""

    engine: Engine
    server: str
    """Server of the past jobs in the store; empty: all."""
    running: str
    """Value with which running jobs are planned: ``soft_walltime`` or ``walltime``."""
    every: int
    """Seconds between two steps."""

    def __post_init__(self) -> None:
        self._suggested: dict[tuple[str, int], int] = {}
        self._asked = 0
        self._known: dict[str, tuple[int, SoonerStart | None]] = {}

    def step(self, snapshot: ServerSnapshot, queue: ModelledQueue, model: RuntimeModel) -> dict[str, SoonerStart]:
        """Return the known results for waiting jobs, by job id."""
        now, begin = snapshot.taken, time.monotonic()
        if now - self._asked >= RESULT_MAX_AGE_S:
            with self.engine.connect() as connection:
                past = list(read_requests(connection, now - DAYS * 86400, MIN_JOBS, self.server))
            self._suggested = {
                (user, walltime): seconds
                for user, walltime, runtimes in past
                if (seconds := shorter_walltime(walltime, runtimes).seconds) is not None
            }
            self._asked = now
        wanted = self._wanted(queue)
        self._known = {
            job_id: known
            for job_id, known in self._known.items()
            if job_id in wanted and now - known[0] < RESULT_MAX_AGE_S
        }
        distributions: Mapping[str, RuntimeDistribution] = {}
        for job_id, walltime in wanted.items():
            if job_id in self._known:
                continue
            if time.monotonic() - begin > MAX_TIME_SHARE * self.every:
                break
            distributions = distributions or dict(
                zip((job.submission.job_id for job in queue.live), distributions_of(queue, model), strict=True)
            )
            sooner = sooner_by(snapshot, job_id, walltime, self.running, distributions)
            self._known[job_id] = now, None if sooner is None else (walltime, sooner)
        return {job_id: found for job_id, (_, found) in self._known.items() if found is not None}

    def _wanted(self, queue: ModelledQueue) -> dict[str, int]:
        first: dict[tuple[str, int], str] = {}
        for job in queue.live[queue.model.running :]:
            first.setdefault((job.submission.user, job.submission.walltime or 0), job.submission.job_id)
        return {job_id: self._suggested[request] for request, job_id in first.items() if request in self._suggested}
