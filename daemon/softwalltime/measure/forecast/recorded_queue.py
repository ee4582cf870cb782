"""The queue at a time of a log, as a snapshot: what waited and what ran then."""

from dataclasses import replace

import numpy as np

from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import plural
from softwalltime.measure.forecast.snapshot import (
    QUEUED,
    RUNNING,
    LiveJob,
    SchedulerSettings,
    ServerSnapshot,
    VnodeState,
)
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.simulated_jobs import jobs_of

_NEVER = 1 << 62
"""Start of a job that never started."""


def recorded_queue(completed: JobColumns, now: int, server: ServerSnapshot | None = None) -> ServerSnapshot:
    """Return the state of a server at a time of its log, in epoch seconds.

    :param server: has the vnodes, queues and settings; ``None``: as many processors as were in use at one time, and
        strict order of arrival with one reservation.
    :raises UsageError: if no job waited then.
    """
    ended = completed.by_submission()
    submitted, end = ended.numbers("submitted"), ended.numbers("end")
    start, eligible, runtime = ended.numbers("start", _NEVER), ended.numbers("etime"), ended.numbers("runtime")
    start = np.where((start == _NEVER) & (runtime > 0), end - runtime, start)
    there = (submitted <= now) & (now < end)
    held = there & (start > now) & (eligible > now)
    chosen = np.flatnonzero(there & ~held).tolist()
    jobs = tuple(
        LiveJob(job.submission, state, rank, since, job.qtime, job.etime, soft_walltime=job.soft_walltime)
        for rank, job in zip(chosen, ended.select(np.array(chosen, np.int64)), strict=True)
        for state, since in [(RUNNING, int(start[rank])) if start[rank] <= now else (QUEUED, None)]
    )
    if not any(job.state == QUEUED for job in jobs):
        raise UsageError("no job of the log waited at that time: give another time with --at")
    remarks = [] if server is None else [*server.remarks]
    if held.any():
        remarks.append(f"left out: {plural(int(held.sum()), 'job')} that PBS could not start yet, such as held ones")
    if server is None:
        processors = jobs_of(completed).peak()
        remarks.append(
            f"a log has no settings: strict order of arrival is simulated, on {processors:,} processors, the most in "
            "use at one time; --snapshot gives those of the server"
        )
        vnodes = (VnodeState("machine", "machine", "free", processors),)
        settings = SchedulerSettings(strict_ordering=True, eligible_time=True)
        server = ServerSnapshot(now, "the log", "", (), vnodes, (), (), settings)
    return replace(server, taken=now, jobs=jobs, reservations=(), remarks=tuple(remarks))


def ended_by(completed: JobColumns, now: int) -> JobColumns:
    """Return the jobs that had ended at this time, from which runtimes may be learnt."""
    return completed.select(np.flatnonzero(completed.numbers("end") <= now))
