"""The probability that a waiting job starts by a moment, from the ends of its ranges."""

from datetime import datetime, time, timedelta
from itertools import pairwise

from softwalltime.users.own_jobs import WaitingJob

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Probabilities of a start by the ends of both ranges and the expected start, in order of time."""


def chance_by(job: WaitingJob, moment: int) -> float | None:
    """Return the probability that a job starts by a moment, straight between the known ones.

    Nothing is known of what is below 0.05 and above 0.95: these stand for it.  ``None``: there is no range.

    :param moment: epoch seconds.
    """
    if job.expected is None or job.range50 is None or job.range90 is None or job.range90[0] == job.range90[1]:
        return None
    ends = (job.range90[0], job.range50[0], job.expected, job.range50[1], job.range90[1])
    chance = SHARES[0]
    for (begin, low), (end, high) in pairwise(zip(ends, SHARES, strict=True)):
        if moment >= end:
            chance = high
        elif moment > begin:
            return low + (high - low) * (moment - begin) / (end - begin)
    return chance


def next_midnight(now: int) -> int:
    """Return the end of the day of ``now``, local time (both epoch seconds)."""
    tomorrow = datetime.fromtimestamp(now).astimezone().date() + timedelta(days=1)
    return int(datetime.combine(tomorrow, time()).astimezone().timestamp())
