"""The start that order of arrival and walltimes would give each waiting job of a server now."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from softwalltime.forecast.queue_model import model_of
from softwalltime.forecast.snapshot import QUEUED, LiveJob, ServerSnapshot
from softwalltime.simulation.policies import SchedulerPolicy

DEPTH: Final = 1000
"""Waiting jobs, the first ones by arrival, that are planned."""


def planned_starts(snapshot: ServerSnapshot, arrived: Mapping[str, int], jobs: Collection[str]) -> dict[str, int]:
    """Return the planned start of these jobs by id, in epoch seconds, at least the time of the snapshot.

    All jobs run for their walltime, in order of arrival with EASY backfilling.  Limits on running jobs, reservations
    and vnodes count as in forecasts.  A job that is held, can never run, or is behind the first :data:`DEPTH` has none.

    :param arrived: when jobs took their place in that order, epoch seconds; others, when PBS let them wait.
    """

    def arrival(job: LiveJob) -> int:
        known = arrived.get(job.submission.job_id)
        return known if known is not None else job.etime or job.qtime or job.submission.submitted

    waiting = sorted((job for job in snapshot.jobs if job.state == QUEUED and not job.held), key=arrival)
    occupying = [job for job in snapshot.jobs if job.occupies]
    scheduler = replace(snapshot.scheduler, formula="", by_queue=False, scheduling=True)
    queue = model_of(replace(snapshot, jobs=(*occupying, *waiting[:DEPTH]), scheduler=scheduler))
    walltimes, first = queue.model.jobs.walltime, queue.model.running
    model = replace(queue.model, policy=SchedulerPolicy(minimum=1), planned=walltimes[:first])
    ids = {index: queue.live[index].submission.job_id for index in range(first, len(queue.live))}
    wanted = [index for index, job_id in ids.items() if job_id in jobs]
    if not wanted:
        return {}
    starts = model.run(walltimes, wanted).start
    return {ids[index]: int(starts[index]) for index in wanted}
