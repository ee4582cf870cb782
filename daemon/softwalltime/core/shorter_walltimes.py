"""Suggest a shorter walltime from past jobs with the same walltime."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softwalltime.core.formatting import DAY, HOUR, MINUTE

MIN_JOBS = 20
"""Minimum number of a user's jobs with the same walltime for a suggestion."""
QUANTILE, MARGIN = 0.99, 1.2
"""The suggestion is this quantile of the runtimes, times this margin, rounded up to a usual walltime."""
MAX_WALLTIME_SHARE = 0.75
"""Maximum suggestion as a share of the walltime."""
FITS = "fits"
"""Reason for no suggestion: the jobs need most of the walltime."""
MAX_KILLED_SHARE = 0.02
"""Maximum share of the newer half of the jobs that outlive a suggestion made from the older half."""
USUAL = tuple(minutes * MINUTE for minutes in (5, 10, 15, 20, 30, 45, 60, 90)) + tuple(
    hours * HOUR for hours in (2, 3, 4, 6, 8, 12, 18, 24, 36, 48)
)
"""Walltimes to suggest, in seconds; then whole days."""


@dataclass(frozen=True, slots=True)
class ShorterWalltime:
    """Suggestion for a walltime.

    ``seconds`` is ``None`` without a suggestion, with the ``reason``.  ``killed`` is the share of the newer half of the
    jobs that outlive a suggestion made from the older half.
    """

    seconds: int | None
    reason: str = ""
    killed: float = 0.0


def shorter_walltime(walltime: int, runtimes: Sequence[int]) -> ShorterWalltime:
    """Return the shorter walltime for jobs that requested this one.

    :param walltime: in seconds.
    :param runtimes: of the jobs with this walltime, in seconds, in order of submission.
    """
    jobs = len(runtimes)
    if jobs < MIN_JOBS:
        return ShorterWalltime(None, f"fewer than {MIN_JOBS} jobs")
    suggested = suggest(runtimes)
    if suggested > MAX_WALLTIME_SHARE * walltime:
        return ShorterWalltime(None, FITS)
    older, newer = suggest(runtimes[: jobs // 2]), runtimes[jobs // 2 :]
    killed = sum(runtime > older for runtime in newer) / len(newer)
    if killed > MAX_KILLED_SHARE:
        return ShorterWalltime(None, "runtimes change too much", killed)
    return ShorterWalltime(suggested, "", killed)


def suggest(runtimes: Sequence[int]) -> int:
    """Return the usual walltime, in seconds, that is enough for these runtimes with a margin.

    >>> suggest([100, 200, 3000]), suggest([40 * 3600]), suggest([1])
    (3600, 172800, 300)
    """
    ascending = sorted(runtimes)
    needed = MARGIN * ascending[math.ceil(QUANTILE * (len(ascending) - 1))]
    return next((usual for usual in USUAL if usual >= needed), DAY * math.ceil(needed / DAY))
