"""Shaken workloads: the same jobs at slightly different times, because one schedule alone is chaotic.

One changed submission can move the mean bounded slowdown of a year by several per cent (Tsafrir, Ouaknine & Feitelson,
"Reducing performance evaluation sensitivity and variability by input shaking", MASCOTS 2007).  Policies are therefore
compared on many shaken workloads, each policy on the same ones.
"""

import numpy as np

from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import DAY
from softwalltime.measure.simulation.names import SHAKES
from softwalltime.measure.simulation.simulated_jobs import Jobs

WEEK = 7 * DAY
_WEEKS = 2
_JITTER_S = 300
AS_SUBMITTED = -1
"""A seed that no user can give: it stands for the workload as it is recorded."""
_SHORT_S = 12 * WEEK
"""Span of submissions in seconds below which jobs move in a circle.  Without it the jobs of two weeks are spread over
six and wait a sixth as long (KTH-SP2, SDSC-SP2, HPC2N); those of 13 weeks, spread over 17, wait about as long."""
MIN_USERS = 10
"""Minimum number of users for shaking by weeks, which shifts all jobs of a user together."""
FEW_USERS = (
    f"The simulated jobs have fewer than {MIN_USERS} users. The shaken workloads therefore hardly differ, and the "
    "95% intervals do not show how much other weeks would differ."
)
"""Caution for intervals over workloads of few users, which are too narrow for a verdict."""


def few_users(jobs: Jobs) -> bool:
    return len(set(jobs.completed.values("user"))) < MIN_USERS


def suitable_shake(jobs: Jobs) -> str:
    """Return the shake for these jobs: ``week``, or ``jitter`` where there are few users."""
    return "jitter" if few_users(jobs) else "week"


def shaken(jobs: Jobs, shake: str, seed: int) -> Jobs:
    """The workload shaken with this seed; the recorded one for an empty ``shake`` or :data:`AS_SUBMITTED`.

    ``week``: all jobs of a user are moved by the same whole number of weeks, -2 to 2, and up to 5 min either way.  In a
    short log, jobs that would leave it at one end enter it at the other, which keeps the load.
    ``jitter``: each job is moved by up to 5 min either way.

    :raises UsageError: for another shake.
    """
    if not shake or seed == AS_SUBMITTED:
        return jobs
    if shake not in SHAKES:
        raise UsageError(f"no shake is called {shake!r}; there are {', '.join(SHAKES)}")
    draw = np.random.default_rng(seed)
    if shake == "jitter":
        return jobs.shifted(draw.integers(-_JITTER_S, _JITTER_S + 1, len(jobs)).tolist())
    users = list(jobs.completed.values("user"))
    shifts = {
        user: int(draw.integers(-_WEEKS, _WEEKS + 1)) * WEEK + int(draw.integers(-_JITTER_S, _JITTER_S + 1))
        for user in dict.fromkeys(users)
    }
    moved, since = np.array([shifts[user] for user in users], np.int64), np.array(jobs.submitted, np.int64)
    since -= since[:1]
    days = (int(since.max(initial=0)) // DAY + 1) * DAY
    if days < _SHORT_S:
        moved = (since + moved) % days - since
    return jobs.shifted(moved.tolist())
