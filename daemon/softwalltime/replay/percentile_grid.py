"""Drive many settings of the percentile predictor through a workload at once.

Which percentile, which window, which keys?  Asked one by one, hundreds of settings would each sort the same jobs.  Here
the jobs are sorted once for each choice of keys and window, and every percentile is read off the same sorted shares.
A test holds the result equal to :func:`softwalltime.replay.drive.drive` with each setting by itself.
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
    """The seconds that would have been predicted for each job: a row a percentile (0 to 100); NaN for no prediction.

    Of ``options`` the keys, the window and the least number of jobs count.

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
                # A shrink-to-fit job gets no soft walltime, whatever is predicted.
                if submission.min_walltime is None:
                    prediction = predict(submission, submission.submitted)
                    if isinstance(prediction, Prediction):
                        rows[number] = prediction.quantiles(shares)
    return np.array(rows, np.float64).reshape(count, len(shares)).T


def soft_walltimes(
    workload: Workload, seconds: NDArray[np.float64], threshold: float | None = None, minimum: int = MINIMUM
) -> NDArray[np.int64]:
    """What the policy makes of predicted seconds (NaN for none): soft walltimes, -1 for none.

    The same as :func:`softwalltime.policy.clamp.soft_walltime` job by job, which a test holds it to.

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
