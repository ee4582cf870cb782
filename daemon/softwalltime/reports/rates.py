"""The rate of underestimation by week of submission."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.formatting import DAY
from softwalltime.replay.metrics import means_by_code

MIN_POINT_JOBS = 20
"""Jobs without which a week has no rate of underestimation."""
MAX_POINTS = 60
"""Most points in the figure; with more weeks, one point is several weeks."""


class WeekRate(NamedTuple):
    """The share of underestimated jobs of those submitted in the weeks that begin at ``start`` (epoch seconds)."""

    start: int
    underestimated: float
    weeks: int = 1


def rates_by_week(submitted: NDArray[np.int64], under: NDArray[np.bool_]) -> tuple[WeekRate, ...]:
    """Return the share of underestimated jobs by week of submission (UTC, from Monday), of weeks with enough jobs.

    More than ``MAX_POINTS`` weeks are joined into periods of several weeks, so that as many periods are left at most.
    """
    if not len(submitted):
        return ()
    # 1970 began on a Thursday.
    week = (submitted + 3 * DAY) // (7 * DAY)
    first = int(week.min())
    together = -(-(int(week.max()) - first + 1) // MAX_POINTS)
    parts, codes = np.unique((week - first) // together, return_inverse=True)
    jobs = np.bincount(codes).tolist()
    shares = means_by_code(codes, under, len(parts))
    return tuple(
        WeekRate((first + part * together) * 7 * DAY - 3 * DAY, share, together)
        for part, share, count in zip(parts.tolist(), shares, jobs, strict=True)
        if count >= MIN_POINT_JOBS
    )
