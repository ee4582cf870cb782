"""Reconstruct a user's submissions, and waiting and running jobs, at an earlier time."""

from typing import NamedTuple

import numpy as np

from softwalltime.core.compiling import kernel
from softwalltime.predict.predictors.learned.distribution import Floats
from softwalltime.predict.predictors.learned.features import Integers
from softwalltime.predict.predictors.learned.user_jobs import END, KEY, MIN_USER_JOBS, ROW, START, SUBMITTED, UserJobs

MAX_USER_RUNNING_JOBS = 64
"""Maximum running jobs of one user, the last ones to start."""
NO_JOBS: Floats = np.empty((0, 2))
"""No submissions and keys."""
STEPS_PER_JOB = 32
"""Insertion steps per job after which merge sort is used: thousands of unordered jobs would take 100 ms."""


class Then(NamedTuple):
    """A user's jobs as known at an earlier time.

    ``ended`` and ``running`` hold one column for each job; ``times`` are those of the submissions, ascending, and
    ``keys`` what was submitted (:data:`.user_jobs.KEY`); ``waiting`` is the number of waiting jobs.
    """

    ended: Floats
    running: Floats
    times: Floats
    keys: Floats
    waiting: int


def submissions(submitted: Floats, present: Floats, now: float) -> tuple[Floats, Floats]:
    """Return the times of the submissions before ``now``, ascending, and their keys.

    :param submitted: jobs that have ended, one column each.
    :param present: of further jobs the submission and the key, one row each, ascending: jobs of one second count in
        the same order after a restart.
    """
    return _ordered(submitted, 0, submitted.shape[1], -1, now, present)


def look_back(jobs: UserJobs, now: int, end: int, without: str | None) -> Then:
    """Reconstruct the state at ``now`` from the jobs that ended by ``end``; ``without`` one that ended in between."""
    columns = jobs.columns
    then, last = ended_by(columns, now), ended_by(columns, end)
    first = max(then - MIN_USER_JOBS, 0)
    own = -1 if without is None else jobs.ids.index(without, then, last)
    running = np.empty((ROW, MAX_USER_RUNNING_JOBS))
    count, waiting = present_at(columns, then, last, own, now, np.empty(MAX_USER_RUNNING_JOBS, np.int64), running)
    times, keys = _ordered(columns, first, last, own, now, NO_JOBS)
    return Then(columns[:, first:then], running[:, :count], times, keys, waiting)


def _ordered(columns: Floats, first: int, last: int, own: int, now: float, present: Floats) -> tuple[Floats, Floats]:
    # With a wrong clock, a job may end long before its submission: then there are no jobs in between.
    most = max(last - first, 0) + len(present)
    times, keys = np.empty(most), np.empty(most)
    count = order(columns, first, last, own, now, present, times, keys)
    return times[:count], keys[:count]


def ended_by(columns: Floats, time: float) -> int:
    """Return the number of the jobs that ended by a time; they are in order of end."""
    count: int = columns.shape[1]
    # Most requests are for the current time.
    if count and columns[END, count - 1] > time:
        count = int(columns[END].searchsorted(time, "right"))
    return count


@kernel("i8(f8[:,:], i8, i8, i8, f8, f8[:,::1], f8[::1], f8[::1])")
def order(
    columns: Floats, first: int, last: int, own: int, now: float, present: Floats, times: Floats, keys: Floats
) -> int:
    """Write the submissions before ``now`` into ``times`` and ``keys``, in order of time; return their number.

    :param first: first one of the columns to take, to ``last``, without the column ``own``.
    :param present: rows of a submission and its key, ascending.
    """
    count = steps = 0
    most_steps = STEPS_PER_JOB * (last - first)
    for job in range(first, last):
        time = columns[SUBMITTED, job]
        if job == own or time >= now:
            continue
        # Few steps: jobs mostly end in the order of submission.
        place = count
        while place > 0 and times[place - 1] > time and steps < most_steps:
            times[place], keys[place] = times[place - 1], keys[place - 1]
            place -= 1
            steps += 1
        times[place], keys[place] = time, columns[KEY, job]
        count += 1
    if steps == most_steps:
        by_time = np.argsort(times[:count], kind="mergesort")
        times[:count], keys[:count] = times[by_time], keys[by_time]
    more = len(present)
    while more > 0 and present[more - 1, 0] >= now:
        more -= 1
    ended, count = count, count + more
    place = count
    while more > 0:
        place -= 1
        if ended > 0 and times[ended - 1] > present[more - 1, 0]:
            ended -= 1
            times[place], keys[place] = times[ended], keys[ended]
        else:
            more -= 1
            times[place], keys[place] = present[more, 0], present[more, 1]
    return count


@kernel("UniTuple(i8, 2)(f8[:,:], i8, i8, i8, f8, i8[::1], f8[:,::1])")
def present_at(
    columns: Floats, then: int, last: int, own: int, now: float, places: Integers, running: Floats
) -> tuple[int, int]:
    """Write the jobs that ran at the time ``now`` into ``running``, in order of start; return how many ran and waited.

    :param then: first one of the columns to take, to ``last``, without the column ``own``.
    :param places: of the running jobs, at most as many as it holds; those that started last.
    """
    count = waiting = 0
    for job in range(then, last):
        if job == own or columns[SUBMITTED, job] >= now:
            continue
        start = columns[START, job]
        if start >= now:
            waiting += 1
            continue
        if count == len(places):
            if start < columns[START, places[0]]:
                continue
            for place in range(1, count):
                places[place - 1] = places[place]
            count -= 1
        place = count
        while place > 0 and columns[START, places[place - 1]] > start:
            places[place] = places[place - 1]
            place -= 1
        places[place] = job
        count += 1
    for place in range(count):
        for row in range(ROW):
            running[row, place] = columns[row, places[place]]
    return count, waiting
