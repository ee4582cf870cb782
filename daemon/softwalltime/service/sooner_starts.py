"""Forecast how much sooner waiting jobs would start with the walltime suggested to their owners."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from softwalltime.core.shorter_walltimes import MIN_JOBS, shorter_walltime
from softwalltime.measure.forecast.queue_model import ModelledQueue
from softwalltime.measure.forecast.runtimes import RuntimeDistribution
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.measure.forecast.what_if import sooner_by
from softwalltime.service.spare_time import RESULT_MAX_AGE_S, SpareTime
from softwalltime.service.users.own_jobs_server import DAYS
from softwalltime.store.own_jobs_rows import read_requests

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
        self._results = SpareTime[str, SoonerStart | None](self.every)

    def step(
        self, snapshot: ServerSnapshot, queue: ModelledQueue, known: Mapping[str, RuntimeDistribution]
    ) -> dict[str, SoonerStart]:
        """Return the known results for waiting jobs, by job id.

        :param known: predicted runtimes by job id.
        """
        now = snapshot.taken
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

        def sooner(job_id: str) -> SoonerStart | None:
            seconds = sooner_by(snapshot, job_id, wanted[job_id], self.running, known)
            return None if seconds is None else (wanted[job_id], seconds)

        results = self._results.step(now, wanted, sooner)
        return {job_id: result.value for job_id, result in results.items() if result.value is not None}

    def _wanted(self, queue: ModelledQueue) -> dict[str, int]:
        first: dict[tuple[str, int], str] = {}
        for job in queue.live[queue.model.running :]:
            first.setdefault((job.submission.user, job.submission.walltime or 0), job.submission.job_id)
        return {job_id: self._suggested[request] for request, job_id in first.items() if request in self._suggested}
