"""Start times of jobs, first come, first served with EASY backfilling."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush


def start_times(
    submitted: Sequence[int], sizes: Sequence[int], runtimes: Sequence[int], requests: Sequence[int], processors: int
) -> list[int]:
    """Return start times (epoch seconds) of rigid jobs in order of submission; none may exceed the machine.

    EASY backfilling (D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs start in order of submission
    while they fit.  The first job that does not fit, the top job, gets a reservation for the earliest time at which
    enough running jobs will have reached their walltimes.  A later job may start at once if it does not delay the
    reservation.  The scheduler uses walltimes only.  Ends are processed before submissions of the same time, so a job
    runs in the half-open interval [start, start + runtime).  A job past its walltime counts as about to end.
    """
    count = len(submitted)
    starts = [0] * count
    free = processors
    ends: list[tuple[int, int]] = []  # (end, job), a heap of actual ends
    promised: list[tuple[int, int]] = []  # (start + request, job), sorted: the scheduler's view
    waiting: list[int] = []

    def start(job: int, now: int) -> None:
        starts[job] = now
        heappush(ends, (now + runtimes[job], job))
        insort(promised, (now + requests[job], job))

    arrived = 0
    while arrived < count or waiting:
        now = submitted[arrived] if arrived < count else ends[0][0]
        if ends and ends[0][0] < now:
            now = ends[0][0]
        released = False
        while ends and ends[0][0] <= now:
            job = heappop(ends)[1]
            del promised[bisect_left(promised, (starts[job] + requests[job], job))]
            free += sizes[job]
            released = True
        before = len(waiting)
        while arrived < count and submitted[arrived] <= now:
            waiting.append(arrived)
            arrived += 1

        served = 0
        if released or not before:
            while served < len(waiting) and sizes[waiting[served]] <= free:
                start(waiting[served], now)
                free -= sizes[waiting[served]]
                served += 1
            del waiting[:served]
        if not free or len(waiting) < 2:
            continue

        shadow, spare = _reservation(free, sizes[waiting[0]], promised, sizes)
        time_left = shadow - now
        # Without an end, jobs that could not be backfilled still cannot: check new submissions only.
        position = 1 if released or not before else before
        while position < len(waiting) and free:
            job = waiting[position]
            size = sizes[job]
            if size <= free and (requests[job] <= time_left or size <= spare):
                if requests[job] > time_left:
                    spare -= size
                free -= size
                start(job, now)
                del waiting[position]
            else:
                position += 1
    return starts


def _reservation(free: int, needed: int, promised: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, int]:
    """Return when ``needed`` processors will be free by the requests, and the number of spare processors then."""
    shadow = 0
    for end, job in promised:
        if free >= needed and end > shadow:
            break
        shadow = end
        free += sizes[job]
    return shadow, free - needed
