"""How much sooner a waiting job would start if it had requested a shorter walltime."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from softwalltime.forecast.queue_model import ModelledQueue, limit, model_of
from softwalltime.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.forecast.snapshot import ServerSnapshot
from softwalltime.forecast.start_times import forecast

RUNS = 20
"""Runs with drawn runtimes, the same ones with both walltimes."""


def distributions_of(queue: ModelledQueue, model: RuntimeModel) -> dict[str, RuntimeDistribution]:
    found = {}
    for index, job in enumerate(queue.live):
        submission = job.submission
        elapsed = queue.model.elapsed(index)
        found[submission.job_id] = model.distribution(submission, limit(submission), queue.model.now, elapsed)
    return found


def sooner_by(
    snapshot: ServerSnapshot, job_id: str, walltime: int, running: str, known: Mapping[str, RuntimeDistribution]
) -> int | None:
    """Return the seconds by which a job would start earlier with a shorter walltime, the median of paired runs.

    ``None`` where it cannot be forecast.  Only this job changes, and its place in the queue only where the site's order
    rests on walltimes.  The runtimes of all jobs are the same with both walltimes.

    :param running: what jobs are planned with once they run (:func:`.queue_model.model_of`).
    """
    if job_id not in known:
        return None
    killed = replace(known[job_id], values=np.minimum(known[job_id].values, walltime))
    jobs = list(snapshot.jobs)
    for index, job in enumerate(jobs):
        if job.submission.job_id == job_id:
            soft = None if job.soft_walltime is None else min(job.soft_walltime, walltime)
            jobs[index] = replace(job, submission=replace(job.submission, walltime=walltime), soft_walltime=soft)
    starts = []
    shorter = replace(snapshot, jobs=tuple(jobs)), {**known, job_id: killed}
    for state, distributions in ((snapshot, known), shorter):
        queue = model_of(state, running=running)
        ids = [job.submission.job_id for job in queue.live]
        if job_id not in ids[queue.model.running :] or not known.keys() >= set(ids):
            return None
        place = ids.index(job_id)
        outcome = forecast(queue.model, [distributions[name] for name in ids], RUNS, until=[place])
        starts.append(outcome.sampled[:, place - queue.model.running])
    return round(float(np.median(starts[0] - starts[1])))
