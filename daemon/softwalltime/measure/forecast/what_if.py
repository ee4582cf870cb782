"""Change the jobs of a snapshot: one not yet submitted (Li et al. 2004, section 4.1), another walltime, holds."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from softwalltime.accounting.conversions import duration, whole
from softwalltime.core.errors import UsageError
from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.queue_model import limit, model_of
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.server_vnodes import largest_vnode
from softwalltime.measure.forecast.snapshot import HELD, QUEUED, LiveJob, QueueSettings, ServerSnapshot
from softwalltime.measure.forecast.start_times import forecast
from softwalltime.predict.policy.power_order import PROMISED

KEYS = ("user", "ncpus", "walltime", "queue", "group", "project", "job_name")
PROBE = "?"
"""The id of a probe job."""
EXAMPLE = "user=alice,ncpus=64,walltime=4:00:00"


def probe_of(text: str, user: str) -> Submission:
    """Return the job that ``user=alice,ncpus=64,walltime=4:00:00,queue=long`` describes; no walltime: the queue's.

    :raises UsageError: names what is wrong, and an example.
    """
    given: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not equals or key not in KEYS or not value or key in given:
            raise UsageError(f"{text!r}: {part.strip()!r} is not one of {', '.join(KEYS)}, each once: write {EXAMPLE}")
        given[key] = value
    try:
        ncpus = whole(given.pop("ncpus", "1"))
        seconds = duration(given.pop("walltime")) if "walltime" in given else None
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}: write {EXAMPLE}") from error
    if ncpus < 1 or seconds == 0:
        raise UsageError(f"{text!r}: a job needs at least one processor and one second: write {EXAMPLE}")
    return probe(given.pop("user", user), ncpus, seconds, **given)


def probe(user: str, ncpus: int, walltime: int | None, **more: Any) -> Submission:
    """Return a job of one chunk that is not submitted yet.

    :param walltime: seconds; ``None``: that of the queue.
    :param more: further fields of the submission, such as its queue.
    """
    return Submission(PROBE, user, 0, walltime, ncpus=ncpus, nodect=1, select=f"1:ncpus={ncpus}", place="free", **more)


def probe_job(text: str, probe: Submission, snapshot: ServerSnapshot) -> LiveJob:
    """Return the job that a text describes, as if just submitted to this server.

    A routing queue is resolved to its first destination that accepts the walltime.  If no vnode has so many
    processors, the job asks for chunks as large as the largest vnode.

    :raises UsageError: if the server has no such queue, or the queue does not take the walltime.
    """
    queues = {queue.name: queue for queue in snapshot.queues}
    scheduler = snapshot.scheduler
    name = probe.queue or scheduler.default_queue
    walltime = probe.walltime
    if queues:
        if name not in queues:
            raise UsageError(f"{text!r}: no queue is called {name!r}; there are {', '.join(queues)}")
        queue = queues[name]
        if not queue.execution:
            wanted = walltime or scheduler.default_walltime
            reached = [queues[name] for name in queue.destinations if name in queues]
            queue = next((destination for destination in reached if accepts(destination, wanted)), queue)
        walltime = walltime or queue.default_walltime or scheduler.default_walltime
        if not queue.execution or not accepts(queue, walltime):
            raise UsageError(f"{text!r}: queue {name} does not take a job with this walltime")
        name = queue.name
    submission = replace(probe, submitted=snapshot.taken, walltime=walltime, queue=name)
    ncpus = probe.ncpus or 1
    if ncpus > 1 and 0 < (largest := largest_vnode(snapshot.vnodes, name)) < ncpus:
        whole, rest = divmod(ncpus, largest)
        select = f"{whole}:ncpus={largest}" + (f"+1:ncpus={rest}" if rest else "")
        submission = replace(submission, select=select, nodect=whole + (rest > 0))
    rank = max((job.rank for job in snapshot.jobs), default=0) + 1
    return LiveJob(submission, QUEUED, rank, qtime=snapshot.taken, etime=snapshot.taken)


def accepts(queue: QueueSettings, walltime: int | None) -> bool:
    """Return whether a queue's limits permit a walltime in seconds."""
    if walltime is None:
        return True
    return (queue.min_walltime or 0) <= walltime <= (queue.max_walltime or walltime)


MAX_NEW_JOBS = 100_000


def new_jobs(snapshot: ServerSnapshot, text: str, user: str) -> list[LiveJob]:
    """Return the jobs that a text describes as in :func:`probe_of`, with ``count=500`` so many, just submitted.

    :raises UsageError: as :func:`probe_of` and :func:`probe_job`, or if the count is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    counts = [part.partition("=")[2] for part in parts if part.startswith("count=")]
    try:
        count = whole(counts[0]) if counts else 1
    except ValueError:
        count = 0
    if len(counts) > 1 or not 0 < count <= MAX_NEW_JOBS:
        raise UsageError(f"{text!r}: count is a number from 1 to {MAX_NEW_JOBS:,}: write {EXAMPLE},count=500")
    described = probe_of(",".join(part for part in parts if not part.startswith("count=")), user)
    job = probe_job(text, described, snapshot)
    first = len(snapshot.jobs)
    return [
        replace(job, submission=replace(job.submission, job_id=f"{PROBE}{first + number}"), rank=job.rank + number)
        for number in range(count)
    ]


def with_holds(snapshot: ServerSnapshot, ids: Collection[str]) -> ServerSnapshot:
    """Return the server with an operator's hold on these waiting jobs."""
    jobs = [replace(job, state=HELD, holds="o") if job.submission.job_id in ids else job for job in snapshot.jobs]
    return replace(snapshot, jobs=tuple(jobs))


def with_predictions(snapshot: ServerSnapshot, runtimes: RuntimeModel) -> ServerSnapshot:
    """Return the server with the median runtime as ``predicted`` of the waiting jobs that have none.

    It is longer than the value that marks a promise.
    """

    def filled(job: LiveJob) -> LiveJob:
        if job.occupies or job.predicted is not None:
            return job
        known = runtimes.distribution(job.submission, limit(job.submission), snapshot.taken)
        return replace(job, predicted=max(known.median, PROMISED + 1)) if known.known else job

    return replace(snapshot, jobs=tuple(map(filled, snapshot.jobs)))


RUNS = 20
"""Runs with drawn runtimes for the start of one changed or new job."""


def sooner_by(
    snapshot: ServerSnapshot, job_id: str, walltime: int, running: str, known: Mapping[str, RuntimeDistribution]
) -> int | None:
    """Return the seconds by which a job would start earlier with a shorter walltime, the median of paired runs.

    ``None`` if there is no forecast.  Both runs have the same runtimes and differ only in this job's walltime, and in
    its place in the queue if the site orders jobs by walltime.

    :param running: value with which running jobs are planned (:func:`.queue_model.model_of`).
    """
    if job_id not in known:
        return None

    def shorter(job: LiveJob) -> LiveJob:
        soft = None if job.soft_walltime is None else min(job.soft_walltime, walltime)
        return replace(job, submission=replace(job.submission, walltime=walltime), soft_walltime=soft)

    killed = replace(known[job_id], values=np.minimum(known[job_id].values, walltime))
    jobs = tuple(shorter(job) if job.submission.job_id == job_id else job for job in snapshot.jobs)
    starts = []
    for state, distributions in ((snapshot, known), (replace(snapshot, jobs=jobs), {**known, job_id: killed})):
        queue = model_of(state, running=running)
        ids = queue.ids
        if job_id not in ids[queue.model.running :] or not known.keys() >= set(ids):
            return None
        place = ids.index(job_id)
        outcome = forecast(queue.model, [distributions[name] for name in ids], RUNS, until=[place])
        starts.append(outcome.sampled[:, place - queue.model.running])
    return round(float(np.median(starts[0] - starts[1])))
