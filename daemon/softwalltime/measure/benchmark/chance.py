"""Estimate of how many users are often underestimated by chance, where the outcomes of a user's jobs come in bursts."""

import numpy as np

from softwalltime.measure.replay.workload import Flags, Integers

SHUFFLES = 100
GROUP_BURSTS = 30
"""Number of bursts of similar size that exchange their shares."""


def bursts_of(user: Integers, submitted: Integers, ended: Integers) -> Integers:
    """Return the number of each job's burst: the jobs of a user submitted before the first of them ended.

    Jobs are in order of submission.  No outcome in a burst was known when another job of it was submitted.
    """
    last: dict[int, tuple[int, int]] = {}
    numbers, count = np.empty(len(user), np.int64), 0
    for place, (who, begin, end) in enumerate(zip(user.tolist(), submitted.tolist(), ended.tolist(), strict=True)):
        number, first_end = last.get(who, (0, begin))
        if begin >= first_end:
            number, first_end, count = count, end, count + 1
        last[who] = number, min(first_end, end)
        numbers[place] = number
    return numbers


def users_above_by_chance(marked: Flags, user: Integers, burst: Integers, least: int) -> float | None:
    """Return the share of the users above twice the share of all jobs: the mean if bursts exchange theirs at random.

    ``None`` if no user has ``least`` jobs.  The random numbers are the same each time.
    """
    random, count, size = np.random.default_rng(1), int(burst.max()) + 1, np.bincount(burst)
    owner = np.zeros(count, np.int64)
    owner[burst] = user
    jobs, share, above = np.bincount(user), np.bincount(burst, marked) / size, []
    group, chosen = np.arange(count) // GROUP_BURSTS, jobs >= least
    if not chosen.any():
        return None
    for _ in range(SHUFFLES):
        order = np.lexsort((random.random(count), size))
        received = np.empty(count)
        received[order] = share[order[np.lexsort((random.random(count), group))]]
        # Rounded up or down at random: a share of another size is no whole number of jobs.
        hits = np.floor(received * size + random.random(count))
        of_user = np.bincount(owner, hits, len(jobs))[chosen] / jobs[chosen]
        above.append((of_user > 2 * hits.sum() / len(user)).mean())
    return float(np.mean(above))
