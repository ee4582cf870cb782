"""Calibrate quantiles from ended jobs: by the user's jobs and walltime at submission, then by elapsed time.

In a distribution that is too narrow, the true 0.9 quantile is above level 0.9.  The level of each of :data:`KNOTS` is
learnt separately, by a step for each job; between the knots, levels are interpolated linearly.

- The quantiles 0.25 and 0.75 move until the range between them holds half of the jobs (Gibbs & Candès 2021).
- The quantiles 0.1, 0.5 and 0.95 move until their pinball loss in seconds is least: by a gradient step on it (Zinkevich
  2003), the same step times the width of the distribution at the quantile, in seconds.  The share of jobs would be a
  worse guide: no job exceeds a quantile that is the walltime, so too many jobs would have to exceed the other ones.
- The quantile 0.05 moves until the range from it to the quantile 0.95 holds 90% of the jobs.

Distributions are too narrow for a user's first jobs; given how long a job runs, they are too wide.  One correction for
all would mix both, so each situation learns its own (Mondrian categories: Vovk, Lindsay, Nouretdinov & Gammerman 2003).
Few first jobs have each walltime, so a submission has the sum of a correction by the user's number of jobs and one by
walltime, and both learn from it (groups that overlap: Gibbs, Cherian & Candès 2025).  Most jobs of users with few are
of bursts, and the next burst is another one: there a job of a burst counts less (see :mod:`.bursts`).
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
MIN_SHARE_STEP, MIN_RARE_STEP = 0.0003, 0.001
"""Minimum steps per job of levels that are learnt by share; the second of rarer jobs: running ones, and those of users
with few."""
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
_BOUNDS = [(0.0, 0.0), *[(_MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)] * (len(KNOTS) - 2), (1.0, 1.0)]
_SIDES: Floats = np.array([[-WIDTH_LEVELS], [WIDTH_LEVELS]])
_PROBABILITIES: list[float] = KNOTS.tolist()
_LOW, *_BY_SHARE, _HIGH = (_PROBABILITIES.index(probability) for probability in (0.05, 0.25, 0.75, 0.95))
_BY_LOSS = [_PROBABILITIES.index(probability) for probability in (0.1, 0.5, 0.95)]

ROUNDING_S = 0.5
"""Runtimes are whole seconds: one is inside a range if it may have been before it was rounded."""
Directions = list[tuple[int, float]]
"""Knots, and the directions in which a job moves their levels."""

FIRST_JOBS_LIMITS = (0, 5, 20)
"""Upper limits of the user's ended jobs for separate corrections at submission."""
FIRST_OF_FEW = 0.03
"""Step of the first job in these corrections: such jobs are rare, and their errors large."""
FIRST_OF_MANY = (FIRST, 0.002)
"""Steps of the first job in the correction for users with more jobs: by share, by loss."""
WALLTIMES_S = (3600, 14_400, 86_400)
"""Upper limits of the walltime, in seconds, for separate corrections at submission."""
FIRST_OF_WALLTIME = (0.015, 0.01)
"""Steps of the first job in the corrections by walltime: by share, by loss."""
RUNS_S = (60, 600, 3600, 14_400)
"""Elapsed seconds at which a running job enters the next situation; before the first it waits or starts."""
LATE_SHARES = (0.5, 0.75)
"""Shares of the walltime at which the last situation is learnt; it begins at the first one."""


class LevelShift:
    """What one class of jobs adds to the level of each knot; for knots learnt by loss, also the usual width there."""

    __slots__ = ("_first", "_jobs", "_least", "_usual", "_weighted", "added", "learnt")

    def __init__(
        self, by_share: float = FIRST, by_loss: float = FIRST, least: float = MIN_SHARE_STEP, *, weighted: bool = False
    ) -> None:
        """Begin with no correction; the steps of the first job, of levels that are learnt by share and by loss.

        :param least: minimum step per job of the former.
        :param weighted: whether jobs of a burst have less weight in shares, as they have in losses.
        """
        self._first, self._least, self._weighted = (by_share, by_loss), least, weighted
        self._jobs = 0.0
        self._usual = [0.0] * len(_BY_LOSS)
        self.added = [0.0] * len(KNOTS)
        """Added to the level of each knot."""
        self.learnt = 0
        """Number of updates."""

    def update(
        self, shares: Directions, losses: Directions, widths: list[float], jobs: int, weight: float, part: float
    ) -> None:
        """Move the levels by one step; see :meth:`.Levels.learn`.

        :param shares: each knot that is learnt by share, and its direction.
        :param losses: each knot that is learnt by loss, and its direction.
        :param widths: the width of the distribution at the latter, in seconds.
        :param part: part of the step by loss that this correction makes.
        """
        of_shares = weight if self._weighted else 1.0
        by_share, by_loss = (first / (1 + self._jobs / HALF_STEP_JOBS) for first in self._first)
        self._jobs += of_shares * jobs
        self.learnt += 1
        added, step = self.added, of_shares * (by_share + self._least * jobs)
        for knot, direction in shares:
            added[knot] += step * direction
        step = part * weight * (by_loss + MIN_LOSS_STEP * jobs)
        for place, ((knot, direction), width) in enumerate(zip(losses, widths, strict=True)):
            usual = self._usual[place] or width
            width = min(width, MAX_RELATIVE_WIDTH * usual)
            self._usual[place] = usual = usual + (width - usual) / min(self.learnt, WIDTH_MEMORY_STEPS)
            added[knot] += step * width / max(usual, _MIN_PROBABILITY) * direction


class Levels:
    """The level of each knot: its probability, and the corrections of all classes that a job belongs to."""

    __slots__ = ("_corrected_levels", "_corrections", "_learnt")

    def __init__(self, *corrections: LevelShift) -> None:
        self._corrections = corrections
        self._corrected_levels, self._learnt = KNOTS, 0

    @property
    def corrected_levels(self) -> Floats:
        """The levels of :data:`KNOTS`, ascending."""
        learnt = sum(correction.learnt for correction in self._corrections)
        if learnt != self._learnt:
            self._corrected_levels, self._learnt = np.maximum.accumulate(_bounded(self._sums())), learnt
        return self._corrected_levels

    def learn(self, shares: Floats, log_share: float, walltime: float, jobs: int, weight: float) -> None:
        """Update the corrections by an ended job.

        :param shares: the distribution of the job.
        :param log_share: the logarithm of its runtime / walltime.
        :param walltime: in seconds.
        :param jobs: number of jobs for which this one stands.
        :param weight: its weight in losses, from 0 to 1; in shares only of weighted corrections.
        """
        below, sums = shares.cumsum(), self._sums()
        levels = _bounded(sums)
        # Corrections that grew beyond a bound would be late to leave it.
        for knot, (level, bound) in enumerate(zip(sums, levels, strict=True)):
            if level != bound:
                self._corrections[-1].added[knot] += bound - level
        at, reaches = part_below(below, log_share), bin_of(log_share) == REACHES
        # A job that reaches its walltime is inside a range that ends at the walltime.
        outside = (at > max(levels[: _HIGH + 1])) + (at <= levels[_LOW] and not reaches)
        by_share = [(_LOW, OUTSIDE_SHARE - outside)]
        for knot, rounding in zip(_BY_SHARE, (ROUNDING_S, -ROUNDING_S), strict=True):
            seconds = max(math.exp(log_share) * walltime + rounding, ROUNDING_S)
            rounded = at if reaches else part_below(below, math.log(seconds / walltime))
            inside = rounded <= levels[knot] and (_PROBABILITIES[knot] > 0.5 or not reaches)
            by_share.append((knot, _PROBABILITIES[knot] - inside))
        by_loss = [(knot, _PROBABILITIES[knot] - (at <= levels[knot])) for knot in _BY_LOSS]
        sides = np.minimum(np.maximum(np.array(levels)[_BY_LOSS] + _SIDES, 0.0), 1.0)
        short, long = np.exp(logs_at(below, sides)) * walltime
        widths = (long - short).tolist()
        for correction in self._corrections:
            correction.update(by_share, by_loss, widths, jobs, weight, 1.0 / len(self._corrections))

    def _sums(self) -> list[float]:
        return [sum(parts) for parts in zip(_PROBABILITIES, *(each.added for each in self._corrections), strict=True)]


def _bounded(levels: list[float]) -> list[float]:
    return [min(max(level, floor), ceiling) for level, (floor, ceiling) in zip(levels, _BOUNDS, strict=True)]


class Situations:
    __slots__ = ("_after", "_submitted")

    def __init__(self) -> None:
        few = [LevelShift(FIRST_OF_FEW, FIRST_OF_FEW, MIN_RARE_STEP, weighted=True) for _ in FIRST_JOBS_LIMITS]
        users = [*few, LevelShift(*FIRST_OF_MANY)]
        walltimes = [LevelShift(*FIRST_OF_WALLTIME) for _ in range(len(WALLTIMES_S) + 1)]
        self._submitted = [[Levels(user, walltime) for walltime in walltimes] for user in users]
        self._after = [Levels(LevelShift(least=MIN_RARE_STEP)) for _ in range(len(RUNS_S) + 2)]

    def submitted(self, user_jobs: int, walltime: float) -> Levels:
        """Return the levels of a submission, by the number of the user's jobs that have ended and its walltime."""
        of_user = self._submitted[bisect_left(FIRST_JOBS_LIMITS, user_jobs)]
        return of_user[bisect_left(WALLTIMES_S, walltime)]

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
