"""Calibrate quantiles from ended jobs, by situation: first jobs of a user, other submissions, running jobs.

In a distribution that is too narrow, the true 0.9 quantile is above level 0.9.  The level of each of :data:`KNOTS` is
learnt separately, by a step for each job; between the knots, levels are interpolated linearly.

- The quantiles 0.25 and 0.75 move until the range between them holds half of the jobs (Gibbs & Candès 2021).
- The quantiles 0.1, 0.5 and 0.95 move until their pinball loss in seconds is least: by a gradient step on it (Zinkevich
  2003), the same step times the width of the distribution at the quantile, in seconds.  The share of jobs would be a
  worse guide: no job exceeds a quantile that is the walltime, so too many jobs would have to exceed the other ones.
- The quantile 0.05 moves until the range from it to the quantile 0.95 holds 90% of the jobs.

Distributions are too narrow for a user's first jobs; given how long a job runs, they are too wide.  One correction for
all would mix both, so each situation learns its own (Mondrian categories: Vovk, Lindsay, Nouretdinov & Gammerman 2003).
"""

import math
from bisect import bisect_left, bisect_right

import numpy as np

from softwalltime.predict.predictors.learned.distribution import (
    KNOTS,
    REACHES,
    Floats,
    bin_of,
    logs_at,
    part_below,
    remaining,
)

FIRST = 0.005
"""Step of the first job; it decreases with the number of jobs."""
HALF_STEP_JOBS = 50
"""Number of jobs after which the step is halved."""
MIN_SHARE_STEP = 0.0003
"""Minimum step per job of levels that are learnt by share."""
MIN_LOSS_STEP = 0.000075
"""Minimum step per job of levels that are learnt by loss, for a distribution of the usual width."""
WIDTH_LEVELS = 0.02
"""Distance in levels, on both sides of a quantile, over which the width of the distribution is measured."""
MAX_RELATIVE_WIDTH = 8.0
"""Maximum width of a distribution, relative to the usual width; wider ones are ignored."""
WIDTH_MEMORY_STEPS = 500
"""Averaging period of the usual width, in steps."""

OUTSIDE_SHARE = 0.1
"""Target share of the jobs outside the widest range."""
_MIN_PROBABILITY = 0.001
_FLOOR: Floats = np.where(KNOTS < 1.0, np.minimum(KNOTS, _MIN_PROBABILITY), 1.0)
_CEILING: Floats = np.where(KNOTS > 0.0, np.maximum(KNOTS, 1.0 - _MIN_PROBABILITY), 0.0)
_SIDES: Floats = np.array([[-WIDTH_LEVELS], [WIDTH_LEVELS]])
_PROBABILITIES: list[float] = KNOTS.tolist()
_LOW, *_BY_SHARE, _HIGH = (_PROBABILITIES.index(probability) for probability in (0.05, 0.25, 0.75, 0.95))
_BY_LOSS = [_PROBABILITIES.index(probability) for probability in (0.1, 0.5, 0.95)]

FIRST_JOBS_LIMITS = (0, 5, 20)
"""Upper limits of the user's ended jobs for separate situations at submission."""
FIRST_OF_FEW = 0.03
"""Step of the first job in these situations: such jobs are rare, and their errors large."""
RUNS_S = (60, 600, 3600, 14_400)
"""Elapsed seconds at which a running job enters the next situation; before the first it waits or starts."""
LATE_SHARES = (0.5, 0.75)
"""Shares of the walltime at which the last situation is learnt; it begins at the first one."""


class Levels:
    """The level of each knot; for knots learnt by loss, also the usual width of the distributions there."""

    __slots__ = ("_first", "_jobs", "_learnt", "_of_knot", "_usual", "corrected_levels")

    def __init__(self, first: float = FIRST) -> None:
        """Begin with no correction; ``first`` is the step of the first job."""
        self._first = first
        self._jobs = 0
        self._of_knot = KNOTS.tolist()
        self._usual = [0.0] * len(_BY_LOSS)
        self._learnt = 0
        self.corrected_levels: Floats = KNOTS
        """The levels of :data:`KNOTS`, ascending."""

    def learn(self, shares: Floats, log_share: float, walltime: float, jobs: int, weight: float) -> None:
        """Update the levels by an ended job.

        :param shares: the distribution of the job.
        :param log_share: the logarithm of its runtime / walltime.
        :param walltime: in seconds.
        :param jobs: number of jobs for which this one stands.
        :param weight: weight of its loss, from 0 to 1; shares of the jobs are not weighted.
        """
        below = shares.cumsum()
        at, reaches = part_below(below, log_share), bin_of(log_share) == REACHES
        levels, first = self._of_knot, self._first / (1 + self._jobs / HALF_STEP_JOBS)
        self._jobs += jobs
        step = first + MIN_SHARE_STEP * jobs
        above = at > self.corrected_levels[_HIGH]
        # A job that reaches its walltime is inside a range that ends at the walltime.
        levels[_LOW] += step * (OUTSIDE_SHARE - above - (at <= levels[_LOW] and not reaches))
        for knot in _BY_SHARE:
            inside = at <= levels[knot] and (_PROBABILITIES[knot] > 0.5 or not reaches)
            levels[knot] += step * (_PROBABILITIES[knot] - inside)
        step = weight * (first + MIN_LOSS_STEP * jobs)
        self._learnt += 1
        for place, (knot, width) in enumerate(zip(_BY_LOSS, self._widths(below, walltime), strict=True)):
            usual = self._usual[place] or width
            width = min(width, MAX_RELATIVE_WIDTH * usual)
            self._usual[place] = usual = usual + (width - usual) / min(self._learnt, WIDTH_MEMORY_STEPS)
            levels[knot] += step * width / max(usual, _MIN_PROBABILITY) * (_PROBABILITIES[knot] - (at <= levels[knot]))
        bounded = np.minimum(np.maximum(levels, _FLOOR), _CEILING)
        self._of_knot, self.corrected_levels = bounded.tolist(), np.maximum.accumulate(bounded)

    def _widths(self, below: Floats, walltime: float) -> list[float]:
        """Return the width in seconds of a distribution at the quantiles that are learnt by loss."""
        middle = np.array(self._of_knot)[_BY_LOSS]
        short, long = np.exp(logs_at(below, np.minimum(np.maximum(middle + _SIDES, 0.0), 1.0))) * walltime
        return (long - short).tolist()  # type: ignore[no-any-return]  # tolist has no type


class Situations:
    __slots__ = ("_after", "_submitted")

    def __init__(self) -> None:
        self._submitted = [Levels(FIRST_OF_FEW) for _ in FIRST_JOBS_LIMITS] + [Levels(FIRST)]
        self._after = [Levels(FIRST) for _ in range(len(RUNS_S) + 2)]

    def submitted(self, user_jobs: int) -> Levels:
        """Return the levels of a submission, by the number of the user's jobs that have ended."""
        return self._submitted[bisect_left(FIRST_JOBS_LIMITS, user_jobs)]

    def running(self, elapsed: float, walltime: float) -> Levels:
        """Return the levels of a job that waits, or has run for ``elapsed`` seconds."""
        late = elapsed >= LATE_SHARES[0] * walltime
        return self._after[-1 if late else bisect_right(RUNS_S, elapsed)]

    def learn_running(self, shares: Floats, log_share: float, walltime: float, jobs: int, weight: float) -> None:
        """Update the levels of running jobs by an ended job; see :meth:`.Levels.learn`.

        :param shares: the distribution of the job at its start.
        """
        runtime = math.exp(log_share) * walltime
        early = (elapsed for elapsed in RUNS_S if elapsed < LATE_SHARES[0] * walltime)
        for elapsed in (*early, *(share * walltime for share in LATE_SHARES)):
            if elapsed < runtime:
                of_rest = remaining(shares, math.log(elapsed / walltime))
                self.running(elapsed, walltime).learn(of_rest, log_share, walltime, jobs, weight)
