"""Shaken workloads: the same jobs at slightly different times, because one schedule alone is chaotic.

One changed submission can move the mean bounded slowdown of a year by several per cent (Tsafrir, Ouaknine & Feitelson,
"Reducing performance evaluation sensitivity and variability by input shaking", MASCOTS 2007).  Policies are therefore
compared on many shaken workloads, each policy on the same ones.
"""

from dataclasses import replace

import numpy as np

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.names import SHAKES
from softwalltime.measure.simulation.simulated_jobs import Jobs

WEEK = 7 * 86400
_WEEKS = 2
_MINUTES = 5
MIN_USERS = 10
"""Minimum number of users for shaking by weeks, which shifts all jobs of a user together."""


FEW_USERS = (
    f"The simulated jobs have fewer than {MIN_USERS} users. The shaken workloads therefore hardly differ, and the "
    "95% intervals do not show how much other weeks would differ."
)
"""Caution for intervals over workloads of few users, which are too narrow for a verdict."""


def few_users(jobs: Jobs) -> bool:
    """Return whether there are too few users for shaking by weeks."""
    return len(set(jobs.completed.values("user"))) < MIN_USERS


def suitable_shake(jobs: Jobs) -> str:
    """Return the shake for these jobs: ``week``, or ``jitter`` where there are few users."""
    return "jitter" if few_users(jobs) else "week"


def shaken(jobs: Jobs, shake: str, seed: int) -> Jobs:
    """The workload shaken with this seed.

    ``week``: all jobs of a user are moved by the same whole number of weeks, -2 to 2, and up to 5 min either way.
    ``jitter``: each job is moved by up to 5 min either way.  ``resample``: as many weeks as there are, drawn from the
    recorded ones with replacement; a job that is drawn again gets a new id.

    :raises UsageError: for another shake.
    """
    draw = np.random.default_rng(seed)
    if shake == "week":
        users = dict.fromkeys(jobs.completed.values("user"))
        shifts = {
            user: int(draw.integers(-_WEEKS, _WEEKS + 1)) * WEEK + int(draw.integers(-_MINUTES * 60, _MINUTES * 60 + 1))
            for user in users
        }
        return jobs.shifted([shifts[user] for user in jobs.completed.values("user")])
    if shake == "jitter":
        return jobs.shifted(draw.integers(-_MINUTES * 60, _MINUTES * 60 + 1, len(jobs)).tolist())
    if shake == "resample":
        return _resampled(jobs, draw)
    raise UsageError(f"no shake is called {shake!r}; there are {', '.join(SHAKES)}")


def _resampled(jobs: Jobs, draw: np.random.Generator) -> Jobs:
    if not len(jobs):
        return jobs
    submitted = np.array(jobs.submitted, np.int64)
    week = (submitted - submitted[0]) // WEEK
    count = int(week[-1]) + 1
    first = np.searchsorted(week, np.arange(count + 1))
    indexes: list[int] = []
    shifts: list[int] = []
    for place, drawn in enumerate(draw.integers(0, count, count).tolist()):
        members = range(int(first[drawn]), int(first[drawn + 1]))
        indexes.extend(members)
        shifts.extend([(place - drawn) * WEEK] * len(members))
    drawn_jobs = jobs.chosen(indexes)
    times: dict[int, int] = {}
    job_ids: list[str] = []
    for index, job_id in zip(indexes, drawn_jobs.completed.values("job_id"), strict=True):
        again = times[index] = times.get(index, 0) + 1
        job_ids.append(job_id if again == 1 else f"{job_id}#{again}")
    return replace(drawn_jobs, completed=drawn_jobs.completed.replaced("job_id", job_ids)).shifted(shifts)
