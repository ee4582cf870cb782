"""Information known at submission, and names and constants of the features that :mod:`.gather` computes from it.

Nothing later than the submission is used.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.predict.predictors.learned.distribution import Floats
from softwalltime.predict.predictors.learned.user_jobs import Row

Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]

MAX_PAST_JOBS = 64
"""Maximum past jobs of an estimate."""
MAX_RUNNING_JOBS = 24
"""Maximum running jobs of an estimate, the last ones to start."""
MAX_PAIRS = MAX_PAST_JOBS + MAX_RUNNING_JOBS
POWERS = (0.0, 0.35, 1.0)
"""Powers of the ratio of walltimes by which a past runtime may be scaled."""
WIDTHS = (0.1, 0.3, 1.0)
"""Widths, in ln t, of the Laplace distributions by which a past runtime may be smeared; the first choice is none."""
ENDED, CENSORED, REACHED = 0, 1, 2
"""Kind of a past job: its runtime is known, a lower bound, or reaches the new job's walltime."""

PAIR_FEATURES = (
    "difference of walltimes", "walltime shorter or longer", "same walltime", "difference of processors",
    "same processors", "same queue", "same group", "same name", "alike", "rank", "rank among alike",
    "submissions since", "hours since end", "time since submission", "running", "killed", "short",
    "runtime against walltime asked for", "runtime against own walltime", "runtime", "reaches walltime",
    "ends while in system", "share with same runtime", "share with similar runtime", "like last outcome",
    "like last outcome of alike", "gap since last submission", "gap since last end", "same predecessor",
    "position in burst", "time of day", "last outcome then and now", "prior weight",
)  # fmt: skip
PAIR = len(PAIR_FEATURES)

JOB_FEATURES = (
    "walltime", "processors", "past jobs", "alike jobs", "jobs with same walltime", "whole hours", "whole half days",
    "gap since last submission", "gap since last end", "has past jobs", "last runtime", "second last runtime",
    "third last runtime", "last short", "second last short", "third last short", "last killed", "second last killed",
    "third last killed", "last alike runtime", "second last alike runtime", "has alike", "change of alike runtime",
    "last alike short", "last alike killed", "running", "waiting", "oldest running", "newest running", "alike running",
    "share short", "share killed", "mean runtime", "deviation of runtime", "mean alike runtime",
    "deviation of alike runtime", "site mean", "site reaches walltime", "streak of short jobs", "total prior weight",
    "project jobs", "project mean", "project reaches walltime", "queue jobs", "queue mean", "queue reaches walltime",
    "own jobs", "own mean", "own reach walltime", "position in burst", "share with same name", "name occurred",
    "like predecessor", "share alike of last",
)  # fmt: skip
JOB = len(JOB_FEATURES)

PRIORS = ("own", "project", "queue", "everybody", "reaches walltime", "uniform")
"""Parts of the prior."""


class Known(NamedTuple):
    """Information known when a job is submitted.

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
    """A distribution and its sources: places and weights of past jobs, and the number of running jobs.

    ``prior``: weight of everything else.
    """

    shares: Floats
    jobs: Integers
    weights: Floats
    running: int
    prior: float = 1.0
