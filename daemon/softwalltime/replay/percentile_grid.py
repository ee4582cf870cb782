"""Drive many settings of the percentile predictor through a workload at once.

With a separate replay for each setting, hundreds of settings would each sort the same jobs.  This module sorts the jobs
once for each choice of keys and window, and reads every percentile from the same sorted shares.  A test compares the
result with :func:`softwalltime.replay.fast_replay.drive` for each setting.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.like_jobs import RecentJobs
from softwalltime.predictors.percentile import PercentileOptions
from softwalltime.replay.fast_replay import clamp_all
from softwalltime.replay.workload import Workload

Floats = NDArray[np.float64]


def drive_percentiles(
    workload: Workload,
    options: PercentileOptions,
    percentiles: Sequence[float],
    progress: Callable[[int], None] = lambda _: None,
) -> Floats:
    """Return the predicted seconds of each job, one row per percentile (0 to 100); NaN for no prediction.

    Only the keys, the window and ``least`` of ``options`` are used.

    :param progress: called with the number of jobs done since the last call.
    """
    keys: dict[object, int] = {}
    code = np.array([keys.setdefault(key, len(keys)) for key in workload.rows(*options.keys)], np.int64)
    walltime, submitted, end = workload.walltime, workload.submitted, workload.numbers("end")
    share = np.divide(workload.runtime, walltime, out=np.zeros(len(walltime)), where=walltime > 0)
    learned = (workload.runtime > 0) & (walltime > 0)
    asks = (walltime > 0) & ~workload.shrink_to_fit
    ranks = _Ranks(percentiles)
    predicted = np.full((len(percentiles), len(walltime)), np.nan)
    recent = RecentJobs(options.window)
    for kinds, numbers in workload.submissions_and_ends(progress):
        submissions = kinds > 0
        # Others are neither learned nor predicted.
        useful = np.where(submissions, asks[numbers], learned[numbers])
        submissions, numbers = submissions[useful], numbers[useful]
        times = np.where(submissions, submitted[numbers], end[numbers])
        asked, neighbours, fractions = [], [], []
        for place, (submission, key, time, value) in enumerate(
            zip(submissions.tolist(), code[numbers].tolist(), times.tolist(), share[numbers].tolist(), strict=True)
        ):
            if submission:
                shares = recent.values(key, time)
                if (count := len(shares)) >= options.least:
                    around, between = ranks.of(count)
                    asked.append(place)
                    neighbours.append(around(shares))
                    fractions.append(between)
            else:
                recent.add(key, time, value)
        if asked:
            which = numbers[asked]
            predicted[:, which] = _interpolated(np.array(neighbours), np.array(fractions)).T * walltime[which]
    return predicted


class _Ranks:
    """Positions of the percentiles in a sorted sample, as in :func:`softwalltime.quantiles.quantile`."""

    def __init__(self, percentiles: Sequence[float]) -> None:
        self._shares = [percentile / 100 for percentile in percentiles]
        self.of = lru_cache(maxsize=20_000)(self._of)

    def _of(self, count: int) -> tuple[Callable[[list[float]], tuple[float, ...]], list[float]]:
        """Return a getter of the values around each percentile in a sample of this size, and the fractions between."""
        ranks = [share * (count - 1) for share in self._shares]
        below = [int(rank) for rank in ranks]
        above = [min(rank + 1, count - 1) for rank in below]
        return itemgetter(*below, *above), [rank - low for rank, low in zip(ranks, below, strict=True)]


def _interpolated(neighbours: Floats, fractions: Floats) -> Floats:
    """Return the percentiles, one row per job; same order of operations as :func:`softwalltime.quantiles.quantile`."""
    below, above = np.split(neighbours, 2, axis=1)
    percentiles: Floats = below + fractions * (above - below)
    return percentiles


def soft_walltimes(
    workload: Workload, seconds: Floats, threshold: float | None = None, minimum: int = MINIMUM
) -> NDArray[np.int64]:
    """Clamp predicted seconds (NaN for none) to soft walltimes (-1 for none).

    :param threshold: least share of the walltime ever predicted (Tang et al. 2013), ``None`` for none.
    """
    if threshold is not None:
        seconds = np.maximum(seconds, threshold * workload.walltime)
    return clamp_all(workload, seconds, minimum)
