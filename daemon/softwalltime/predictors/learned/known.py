"""What is known when a job is submitted, what is estimated from it, and which past jobs count."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.predictors.learned.distribution import Floats
from softwalltime.predictors.learned.user_jobs import Row

Integers = NDArray[np.int64]

LOOK_BACK = 256
"""The user's last jobs that are looked at."""
LAST, SAME, SAME_WALLTIME = 24, 24, 16
"""Of those count the last; the last with the same walltime, processors and queue; the last with the same walltime."""
OWN = 128
"""The user's last jobs with the same walltime that count for the prior."""
RUNNING = 0.7
"""Weight of a running job, relative to a completed one."""


class Known(NamedTuple):
    """What is known when a job is submitted.

    ``ended`` and ``running`` are the user's jobs, one column each, those that ended in order of end; ``submitted`` is
    when the user submitted jobs before this one, ascending.  ``project`` are the bins of the project's jobs that were
    submitted alike, ``everybody`` is the distribution of all jobs.

    ``queue`` are the bins of all jobs with the same queue and walltime, ``keys`` those of the user's submissions
    (:data:`.user_jobs.KEY`), ``key`` the one of this job, and ``waiting`` is the number of the user's waiting jobs.
    """

    now: float
    asked: Row
    ended: Floats
    running: Floats
    submitted: Floats
    project: Integers
    everybody: Floats
    queue: Integers
    keys: Floats
    key: float
    waiting: float


class Estimate(NamedTuple):
    """A distribution, and what it rests on: places of past jobs and their weights, and the number of running jobs.

    ``prior`` is the weight of all that is not a past job.
    """

    shares: Floats
    jobs: Integers
    weights: Floats
    running: int
    prior: float = 1.0
