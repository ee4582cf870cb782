"""A user's submissions in order of time, and which of the jobs waited and ran at an earlier time, with numpy.

:mod:`.sequence_kernel` does the same compiled.
"""

from typing import NamedTuple

import numpy as np

from softwalltime.predictors.learned.present_jobs import Floats
from softwalltime.predictors.learned.user_jobs import END, KEY, MIN_USER_JOBS, START, SUBMITTED, UserJobs

RUNNING = 64
"""Running jobs of one user that count, the last ones to start."""
NO_JOBS: Floats = np.empty((0, 2))
"""No submissions and keys."""


class Then(NamedTuple):
    """What was known of a user's jobs at an earlier time.

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
    times = submitted[SUBMITTED]
    before = times < now
    times, keys = times[before], submitted[KEY][before]
    if len(present):
        more = present[: present[:, 0].searchsorted(now)]
        times, keys = np.concatenate([times, more[:, 0]]), np.concatenate([keys, more[:, 1]])
    order = times.argsort(kind="stable")
    return times[order], keys[order]


def ended_by(columns: Floats, time: float) -> int:
    """Return the number of the jobs that ended by a time; they are in order of end."""
    count: int = columns.shape[1]
    # Most questions are about now.
    if count and columns[END, count - 1] > time:
        count = int(columns[END].searchsorted(time, "right"))
    return count


def look_back(jobs: UserJobs, now: int, end: int, without: str | None) -> Then:
    """Return what was known at the time ``now`` of the jobs that have ended by ``end``.

    :param without: id of a job to leave out that ended between these times.
    """
    columns = jobs.columns
    then, last = ended_by(columns, now), ended_by(columns, end)
    first = max(then - MIN_USER_JOBS, 0)
    running, submitted = columns[:, then:last], columns[:, first:last]
    if without is not None:
        own = jobs.ids.index(without, then, last)
        running, submitted = np.delete(running, own - then, 1), np.delete(submitted, own - first, 1)
    running = running[:, running[SUBMITTED] < now]
    waiting = running.shape[1]
    running = running[:, running[START] < now]
    waiting -= running.shape[1]
    running = running[:, np.argsort(running[START], kind="stable")[-RUNNING:]]
    return Then(columns[:, first:then], running, *submissions(submitted, NO_JOBS, now), waiting)
