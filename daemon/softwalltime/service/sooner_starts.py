"""For users: how much sooner waiting jobs would start with the walltime that is suggested to their owners."""

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Engine

from softwalltime.core.shorter_walltimes import LEAST_JOBS, shorter_walltime
from softwalltime.measure.forecast.queue_model import ModelledQueue
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.measure.forecast.what_if import distributions_of, sooner_by
from softwalltime.store.own_jobs_rows import read_requests

SHARE = 0.1
"""Share of the time between two forecasts that may be spent on this, at most."""
VALID = 1800
"""Seconds for which a result is kept while the job waits, and what is suggested."""
WINDOW = 28 * 86400
"""Seconds of past jobs from which a walltime is suggested, as for softwalltime me."""


class SoonerStart(NamedTuple):
    """A walltime to request instead, and by how much sooner the job would start, both in seconds."""

    walltime: int
    sooner: int


class SoonerStarts:
    """Forecasts a few jobs at each step, in turn: of each user's jobs with one walltime the first in the queue.

    :param server: of past jobs, in the store; empty: all.
    :param running: what jobs are planned with once they run.
    :param every: seconds between two steps.
    """

    def __init__(self, engine: Engine, server: str, running: str, every: int) -> None:
        self._engine = engine
        self._server = server
        self._running = running
        self._seconds = SHARE * every
        self._suggested: dict[tuple[str, int], int] = {}
        self._asked = 0
        self._known: dict[str, tuple[int, SoonerStart | None]] = {}

    def step(self, snapshot: ServerSnapshot, queue: ModelledQueue, model: RuntimeModel) -> dict[str, SoonerStart]:
        """Return what is known of the jobs that wait, by job id."""
        now, begin = snapshot.taken, time.monotonic()
        if now - self._asked >= VALID:
            self._suggested, self._asked = self._suggestions(now), now
        wanted = dict(self._wanted(queue))
        self._known = {
            job_id: (since, found)
            for job_id, (since, found) in self._known.items()
            if job_id in wanted and now - since < VALID
        }
        distributions: Mapping[str, RuntimeDistribution] = {}
        for job_id, walltime in wanted.items():
            if job_id in self._known:
                continue
            if time.monotonic() - begin > self._seconds:
                break
            distributions = distributions or distributions_of(queue, model)
            sooner = sooner_by(snapshot, job_id, walltime, self._running, distributions)
            self._known[job_id] = now, None if sooner is None else SoonerStart(walltime, sooner)
        return {job_id: found for job_id, (_, found) in self._known.items() if found is not None}

    def _suggestions(self, now: int) -> dict[tuple[str, int], int]:
        with self._engine.connect() as connection:
            past = list(read_requests(connection, now - WINDOW, LEAST_JOBS, self._server))
        found = {(user, walltime): shorter_walltime(walltime, runtimes).seconds for user, walltime, runtimes in past}
        return {request: seconds for request, seconds in found.items() if seconds is not None}

    def _wanted(self, queue: ModelledQueue) -> Iterator[tuple[str, int]]:
        seen = set()
        for job in queue.live[queue.model.running :]:
            request = job.submission.user, job.submission.walltime or 0
            if request in self._suggested and request not in seen:
                seen.add(request)
                yield job.submission.job_id, self._suggested[request]
