"""The exact rules of EASY, written down as plainly as possible: slow, and independent of the engine.

At one instant all ends, then all submissions, then one pass.  Everything is recomputed at every instant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class Job:
    submitted: int
    processors: int
    walltime: int
    duration: int
    waiting: int
    running: int
    start: int = -1
    promise: int = -1


def planned_end(job: Job, now: int) -> int:
    elapsed = now - job.start
    end = job.start + job.running
    if end <= now:
        end = job.start + min(job.walltime, job.running * (elapsed // job.running + 1))
    return max(end, now + 1)


def schedule(
    jobs: Sequence[Job],
    machine: int,
    *,
    priority: Callable[[Job, int], float] | None = None,
    shortest: bool = False,
    guard: int | None = None,
) -> None:
    """Fill in start and promise of every job; jobs come in order of submission, and each fits the machine."""
    instants = {job.submitted for job in jobs}
    while instants:
        now = min(instants)
        instants.remove(now)
        running = [job for job in jobs if job.start >= 0 and job.start + job.duration > now]
        waiting = [job for job in jobs if job.start < 0 and job.submitted <= now]
        if priority is not None:
            waiting.sort(key=lambda job: -priority(job, now))
        free = machine - sum(job.processors for job in running)
        begun: list[Job] = []
        while waiting and waiting[0].processors <= free:
            begun.append(waiting.pop(0))
            begun[-1].start = now
            free -= begun[-1].processors
        if waiting:
            head, *candidates = waiting
            ends = sorted((planned_end(job, now), job.processors) for job in running + begun)
            shadow = next(
                end for end, _ in ends if free + sum(size for other, size in ends if other <= end) >= head.processors
            )
            extra = free + sum(size for other, size in ends if other <= shadow) - head.processors
            if head.promise < 0:
                head.promise = shadow
            guarded = guard is not None and now > head.promise + guard

            def value(job: Job, guarded: bool = guarded) -> int:
                return job.walltime if guarded else job.waiting

            if shortest:
                candidates.sort(key=lambda job: (value(job), jobs.index(job)))
            for job in candidates:
                if job.processors > free:
                    continue
                if now + value(job) <= shadow:
                    pass
                elif job.processors <= extra:
                    extra -= job.processors
                else:
                    continue
                job.start = now
                free -= job.processors
                begun.append(job)
        instants |= {job.start + job.duration for job in begun}
