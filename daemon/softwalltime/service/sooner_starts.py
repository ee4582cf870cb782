"""Forecast how much sooner waiting jobs would start with the walltime suggested to their owners."""

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Engine

from softwalltime.core.shorter_walltimes import MIN_JOBS, shorter_walltime
from softwalltime.measure.forecast.queue_model import ModelledQueue
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.measure.forecast.start_times import distributions_of
from softwalltime.measure.forecast.what_if import sooner_by
from softwalltime.store.own_jobs_rows import read_requests

MAX_TIME_SHARE = 0.1
"""Maximum share of the forecast interval to spend on this."""
RESULT_MAX_AGE_S = 1800
"""Seconds for which a result and the suggestions are reused."""
HISTORY_WINDOW_S = 28 * 86400
"""Seconds of history from which walltimes are suggested, as in softwalltime me."""


class SoonerStart(NamedTuple):
    """A suggested walltime, and how much sooner the job would start with it, both in seconds."""

    walltime: int
    sooner: int


class SoonerStarts:
    """Forecast a few jobs at each step, in turn: the first job in the queue of each user and walltime.

    :param server: server of the past jobs in the store; empty: all.
    :param running: value with which running jobs are planned: ``soft_walltime`` or ``walltime``.
    :param every: seconds between two steps.
    """

    def __init__(self, engine: Engine, server: str, running: str, every: int) -> None:
        self._engine = engine
        self._server = server
        self._running = running
        self._seconds = MAX_TIME_SHARE * every
        self._suggested: dict[tuple[str, int], int] = {}
        self._asked = 0
        self._known: dict[str, tuple[int, SoonerStart | None]] = {}

    def step(self, snapshot: ServerSnapshot, queue: ModelledQueue, model: RuntimeModel) -> dict[str, SoonerStart]:
        """Return the known results for waiting jobs, by job id."""
        now, begin = snapshot.taken, time.monotonic()
        if now - self._asked >= RESULT_MAX_AGE_S:
            self._suggested, self._asked = self._suggestions(now), now
        wanted = dict(self._wanted(queue))
        self._known = {
            job_id: (since, found)
            for job_id, (since, found) in self._known.items()
            if job_id in wanted and now - since < RESULT_MAX_AGE_S
        }
        distributions: Mapping[str, RuntimeDistribution] = {}
        for job_id, walltime in wanted.items():
            if job_id in self._known:
                continue
            if time.monotonic() - begin > self._seconds:
                break
            distributions = distributions or dict(
                zip((job.submission.job_id for job in queue.live), distributions_of(queue, model), strict=True)
            )
            sooner = sooner_by(snapshot, job_id, walltime, self._running, distributions)
            self._known[job_id] = now, None if sooner is None else SoonerStart(walltime, sooner)
        return {job_id: found for job_id, (_, found) in self._known.items() if found is not None}

    def _suggestions(self, now: int) -> dict[tuple[str, int], int]:
        with self._engine.connect() as connection:
            past = list(read_requests(connection, now - HISTORY_WINDOW_S, MIN_JOBS, self._server))
        shorter = {(user, walltime): shorter_walltime(walltime, runtimes).seconds for user, walltime, runtimes in past}
        return {request: seconds for request, seconds in shorter.items() if seconds is not None}

    def _wanted(self, queue: ModelledQueue) -> Iterator[tuple[str, int]]:
        seen = set()
        for job in queue.live[queue.model.running :]:
            request = job.submission.user, job.submission.walltime or 0
            if request in self._suggested and request not in seen:
                seen.add(request)
                yield job.submission.job_id, self._suggested[request]
