"""Levels of quantiles by situation: a user's first jobs, later ones, and jobs that wait or have run for some time.

Distributions are too narrow for a user's first jobs; given how long a job runs, they are too wide.  One correction for
all would mix both, so each situation learns its own (Mondrian categories: Vovk, Lindsay, Nouretdinov & Gammerman 2003).
"""

import math
from bisect import bisect_left, bisect_right

from softwalltime.predictors.learned.distribution import Floats, remaining
from softwalltime.predictors.learned.levels import FIRST, Levels

FEW_JOBS = (0, 5, 20)
"""Jobs of the user that have ended, up to which a submission is a situation of its own."""
FIRST_OF_FEW = 0.03
"""Step of the first job there: such jobs are rare, and far off."""
RUNS_S = (60, 600, 3600, 14_400)
"""Seconds that a job has run from which on it is in the next situation; before the first of them it waits or starts."""
LATE = (0.5, 0.75)
"""Shares of the walltime at which the last situation is learnt; it begins at the first of them."""


class Situations:
    """The levels of each situation."""

    __slots__ = ("_after", "_submitted")

    def __init__(self) -> None:
        self._submitted = [Levels(FIRST_OF_FEW) for _ in FEW_JOBS] + [Levels(FIRST)]
        self._after = [Levels(FIRST) for _ in range(len(RUNS_S) + 2)]

    def submitted(self, user_jobs: int) -> Levels:
        """Return the levels of a submission, by the number of the user's jobs that have ended."""
        return self._submitted[bisect_left(FEW_JOBS, user_jobs)]

    def running(self, elapsed: float, walltime: float) -> Levels:
        """Return the levels of a job that waits, or has run for ``elapsed`` seconds."""
        late = elapsed >= LATE[0] * walltime
        return self._after[-1 if late else bisect_right(RUNS_S, elapsed)]

    def learn_started(self, shares: Floats, log_share: float, walltime: float, jobs: int, weight: float) -> None:
        """Move the levels of jobs that wait, or start after a wait, and of running jobs."""
        self.running(0.0, walltime).learn(shares, log_share, walltime, jobs, weight)
        self.learn_running(shares, log_share, walltime, jobs, weight)

    def learn_running(self, shares: Floats, log_share: float, walltime: float, jobs: int, weight: float) -> None:
        """Move the levels of running jobs by a job that ended; see :meth:`.Levels.learn`.

        :param shares: the distribution of the job at its start.
        """
        runtime = math.exp(log_share) * walltime
        early = (elapsed for elapsed in RUNS_S if elapsed < LATE[0] * walltime)
        for elapsed in (*early, *(share * walltime for share in LATE)):
            if elapsed < runtime:
                of_rest = remaining(shares, math.log(elapsed / walltime))
                self.running(elapsed, walltime).learn(of_rest, log_share, walltime, jobs, weight)
