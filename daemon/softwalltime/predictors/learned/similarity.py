"""Weigh a user's past jobs by their similarity to a new one, and estimate its runtime from them.

The constants were fitted by hand to SDSC-SP2 and KTH-SP2.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.predictors.learned.distribution import REACHES, SIZE, Floats, bins_of, estimate
from softwalltime.predictors.learned.priors import NO_BINS
from softwalltime.predictors.learned.user_jobs import (
    END,
    KILLED,
    NAME,
    NCPUS,
    OTHER_NAME,
    QUEUE,
    RUNTIME,
    SHARE,
    START,
    SUBMITTED,
    WALLTIME,
    Row,
)  # fmt: skip

Integers = NDArray[np.int64]

LOOK_BACK = 256
"""The user's last jobs that are looked at."""
LAST, SAME, SAME_WALLTIME = 24, 24, 16
"""Of those count the last; the last with the same walltime, processors and queue; the last with the same walltime."""
OWN = 128
"""The user's last jobs with the same walltime that count for the prior."""
SCALED = 0.35
"""Power of the ratio of walltimes by which a past runtime is scaled."""
RUNNING = 0.7
"""Weight of a running job, relative to a completed one."""
OTHER_SCRIPT = 1.0
"""Added to the distance of a past job whose script differs, if the user has a past job with the same script."""
ALIKE, OTHER = math.log(1.10), math.log(1.28)
"""Logarithms by which parts of a past runtime are moved: of jobs alike in walltime, processors and queue; others."""
_PARTS: Floats = np.array([[0.45], [0.30], [0.25]])
_MOVES: Floats = np.array([[0.0], [1.0], [-1.0]])
_RECENCY: Floats = np.arange(4096.0).clip(1) ** -0.75


_NO_KEYS: Floats = np.empty(0)


class Known(NamedTuple):
    """What is known when a job is submitted.

    ``ended`` and ``running`` are the user's jobs, one column each, those that ended in order of end; ``submitted`` is
    when the user submitted jobs before this one, ascending.  ``project`` are the bins of the project's jobs that were
    submitted alike, ``everybody`` is the distribution of all jobs.

    Only the learned attention needs the others: ``queue`` are the bins of all jobs with the same queue and walltime,
    ``keys`` those of the user's submissions (:data:`.user_jobs.KEY`), ``key`` the one of this job, and ``waiting``
    is the number of the user's waiting jobs.
    """

    now: float
    asked: Row
    ended: Floats
    running: Floats
    submitted: Floats
    project: Integers
    everybody: Floats
    queue: Integers = NO_BINS
    keys: Floats = _NO_KEYS
    key: float = 0.0
    waiting: float = 0.0


class Estimate(NamedTuple):
    """A distribution, and what it rests on: places of past jobs and their weights, and the number of running jobs.

    ``prior`` is the weight of all that is not a past job.
    """

    shares: Floats
    jobs: Integers
    weights: Floats
    running: int
    prior: float = 1.0


def choose(ended: Floats, asked: Row) -> Integers:
    """Return the places of the past jobs that count, ascending."""
    first = max(ended.shape[1] - LOOK_BACK, 0)
    walltime = ended[WALLTIME, first:] == asked[WALLTIME]
    same = walltime & (ended[NCPUS, first:] == asked[NCPUS]) & (ended[QUEUE, first:] == asked[QUEUE])
    chosen = np.zeros(len(same), np.bool_)
    chosen[-LAST:] = chosen[same.nonzero()[0][-SAME:]] = chosen[walltime.nonzero()[0][-SAME_WALLTIME:]] = True
    places: Integers = chosen.nonzero()[0] + first
    return places


def weigh(jobs: Floats, known: Known) -> Floats:
    """Return exp(-distance) of each job, less the more jobs the user has submitted since."""
    asked, submitted = known.asked, known.submitted
    walltime, ncpus = np.abs(jobs[WALLTIME] - asked[WALLTIME]), np.abs(jobs[NCPUS] - asked[NCPUS])
    distance = 0.8 * walltime + 0.1 * (walltime > 0) + 0.4 * ncpus + 0.4 * (ncpus > 0)
    distance += 0.06 * (jobs[QUEUE] != asked[QUEUE]) + 0.3 * (jobs[NAME] != asked[NAME])
    distance += OTHER_SCRIPT * (jobs[NAME] == OTHER_NAME)
    since = len(submitted) + 1 - submitted.searchsorted(jobs[SUBMITTED], "right")
    weights: Floats = np.exp(-distance) * _RECENCY[np.minimum(since, len(_RECENCY) - 1)]
    return weights


def prior(known: Known) -> Floats:
    """Return a distribution from like jobs of the user, of the project, and of everybody; else the walltime."""
    walltime = known.asked[WALLTIME]
    own = known.ended[SHARE, known.ended[WALLTIME] == walltime][-OWN:]
    distribution, left = np.zeros(SIZE), 1.0
    if len(own):
        share = 0.8 * len(own) / (len(own) + 4.0)
        distribution += np.bincount(own.astype(np.int64), minlength=SIZE) * (share / len(own))
        left -= share
    count = len(known.project)
    if count:
        share = left * 0.6 * count / (count + 4.0)
        distribution += np.bincount(known.project, minlength=SIZE) * (share / count)
        left -= share
    distribution += known.everybody * (0.2 * left)
    distribution[REACHES] += left * (1.0 - 0.2 * float(np.add.reduce(known.everybody)))
    return distribution


def estimate_runtime(known: Known) -> Estimate:
    """Return the distribution of the runtime of the job asked about, on the grid of its walltime."""
    walltime, ended = known.asked[WALLTIME], prior(known)
    chosen = choose(known.ended, known.asked)
    jobs = known.ended[:, chosen]
    weights = weigh(jobs, known) * (1.0 + (known.now - jobs[END]) / 3600.0) ** -0.15
    reaches = jobs[WALLTIME] >= walltime
    killed = jobs[KILLED] > 0
    reached, cut = killed & reaches, killed & ~reaches
    logs = np.where(reached, 0.0, jobs[RUNTIME] + SCALED * (walltime - jobs[WALLTIME]) - walltime)
    alike = (jobs[WALLTIME] == walltime) & (jobs[NCPUS] == known.asked[NCPUS]) & (jobs[QUEUE] == known.asked[QUEUE])
    bins = bins_of(logs + _MOVES * (np.where(alike, ALIKE, OTHER) * ~reached))
    ended += np.bincount(bins.ravel(), (_PARTS * (weights * ~cut)).ravel(), SIZE)
    running = known.running
    if not running.shape[1] and not np.logical_or.reduce(cut):
        return Estimate(ended / np.add.reduce(ended), chosen, weights, 0)
    # Of no jobs, bincount returns integers.
    censored = np.bincount(bins[0], weights * cut, SIZE).astype(np.float64)
    if running.shape[1]:
        logs = np.log(known.now - running[START]) + SCALED * (walltime - running[WALLTIME]) - walltime
        censored += np.bincount(bins_of(logs), RUNNING * weigh(running, known), SIZE)
    censored[REACHES - 1] += censored[REACHES]
    censored[REACHES] = 0.0
    return Estimate(estimate(ended, censored), chosen, weights, running.shape[1])
