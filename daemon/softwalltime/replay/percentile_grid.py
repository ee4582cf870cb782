"""Drive many settings of the percentile predictor through a workload at once.

Which percentile, which window, which keys?  Asked one by one, hundreds of settings would each sort the same jobs.  Here
the jobs are sorted once for each choice of keys and window, and every percentile is read off the same sorted shares.
A test holds the result equal to :func:`softwalltime.replay.drive.drive` with each setting by itself.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Kind
from softwalltime.jobs import Submission
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.like_jobs import percentile
from softwalltime.predictors.percentile import Percentile, PercentileOptions
from softwalltime.replay.workload import Workload


class _Family(Percentile):
    """The percentile predictor, which answers for several percentiles at once."""

    def all_shares(self, submission: Submission, now: int, percentiles: Sequence[float]) -> list[float] | None:
        """The percentiles (each between 0 and 1) of like jobs' shares; ``None`` if there are too few like jobs.

        ``now`` never goes back in a replay, so what is too old is forgotten for good.
        """
        self._recent.forget(now - self._window)
        shares = self._recent.values(self._key(submission), now)
        count = len(shares)
        if count < self._least:
            return None
        return [percentile(shares, each) for each in percentiles]


def drive_percentiles(
    workload: Workload,
    options: PercentileOptions,
    percentiles: Sequence[float],
    progress: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float64]:
    """The share of its walltime that each job would have been predicted to use: a row a percentile (0 to 100).

    NaN where there is no prediction.  Of ``options`` the keys, the window and the least number of jobs count.

    :param progress: told the number of jobs done since it was last told.
    """
    jobs = workload.jobs
    count = len(jobs)
    family = _Family(options)
    learn, predict = family.learn, family.all_shares
    ranks = [percentile / 100 for percentile in percentiles]
    unknown = [np.nan] * len(ranks)
    rows: list[list[float]] = [unknown] * count
    for kinds, numbers in workload.stream(progress=progress):
        for kind, number in zip(kinds, numbers, strict=True):
            if kind == Kind.ENDED:
                learn(jobs[number])
            else:
                submission = jobs[number].submission
                # A shrink-to-fit job gets no soft walltime, whatever is predicted.
                if submission.walltime and not submission.shrink_to_fit:
                    shares = predict(submission, submission.submitted, ranks)
                    if shares is not None:
                        rows[number] = shares
    return np.array(rows, np.float64).reshape(count, len(ranks)).T


def soft_walltimes(
    workload: Workload, shares: NDArray[np.float64], threshold: float | None = None, minimum: int = MINIMUM
) -> NDArray[np.int64]:
    """What the policy makes of predicted shares of the walltime (NaN for none): soft walltimes, -1 for none.

    The same as :func:`softwalltime.policy.clamp.soft_walltime` job by job, which a test holds it to.

    :param threshold: least share ever predicted (Tang et al. 2013), ``None`` for none.
    """
    walltime = workload.walltime
    if threshold is not None:
        shares = np.maximum(shares, threshold)
    seconds = shares * walltime
    # Comparisons with NaN are false, as in the policy.
    below = seconds < walltime
    rounded = np.ceil(np.where(below, seconds, 0)).astype(np.int64)
    rounded = np.maximum(rounded, minimum)
    return np.where(below & (rounded < walltime), rounded, -1)
