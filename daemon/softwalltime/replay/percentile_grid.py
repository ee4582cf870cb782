"""Drive many settings of the percentile predictor through a workload at once.

With a separate replay for each setting, hundreds of settings would each sort the same jobs.  This module sorts the jobs
once for each choice of keys and window, and reads every percentile from the same sorted shares.  A test compares the
result with :func:`softwalltime.replay.drive.drive` for each setting.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Kind
from softwalltime.jobs import Prediction
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.percentile import Percentile, PercentileOptions
from softwalltime.replay.workload import Workload


def drive_percentiles(
    workload: Workload,
    options: PercentileOptions,
    percentiles: Sequence[float],
    progress: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float64]:
    """Return the predicted seconds of each job, one row per percentile (0 to 100); NaN for no prediction.

    Only the keys, the window and ``least`` of ``options`` are used.

    :param progress: called with the number of jobs done since the last call.
    """
    count = len(workload.jobs)
    predictor = Percentile(options)
    learn, predict = predictor.learn, predictor.predict
    shares = [percentile / 100 for percentile in percentiles]
    unknown = [np.nan] * len(shares)
    rows: list[list[float]] = [unknown] * count
    for stride in workload.stream(progress=progress):
        for kind, number, job in zip(*stride, strict=True):
            if kind == Kind.ENDED:
                learn(job)
            else:
                submission = job.submission
                # A shrink-to-fit job gets no soft walltime.
                if submission.min_walltime is None:
                    prediction = predict(submission, submission.submitted)
                    if isinstance(prediction, Prediction):
                        rows[number] = prediction.quantiles(shares)
    return np.array(rows, np.float64).reshape(count, len(shares)).T


def soft_walltimes(
    workload: Workload, seconds: NDArray[np.float64], threshold: float | None = None, minimum: int = MINIMUM
) -> NDArray[np.int64]:
    """Clamp predicted seconds (NaN for none) to soft walltimes (-1 for none).

    The result equals :func:`softwalltime.policy.clamp.soft_walltime` for each job, which a test verifies.

    :param threshold: least share of the walltime ever predicted (Tang et al. 2013), ``None`` for none.
    """
    walltime = workload.walltime
    if threshold is not None:
        seconds = np.maximum(seconds, threshold * walltime)
    # Comparisons with NaN are false, as in the policy.
    below = seconds < walltime
    rounded = np.ceil(np.where(below, seconds, 0)).astype(np.int64)
    rounded = np.maximum(rounded, minimum)
    return np.where(below & (rounded < walltime), rounded, -1)
