"""From predicted runtimes to soft walltimes, for all jobs of a workload at once."""

import numpy as np
from numpy.typing import NDArray

from softwalltime.policy.clamp import MINIMUM
from softwalltime.replay.workload import Workload


def clamp_all(workload: Workload, seconds: NDArray[np.float64], minimum: int = MINIMUM) -> NDArray[np.int64]:
    """Return the soft walltime of each job in whole seconds, -1 for none.

    The result is that of :func:`softwalltime.policy.clamp.soft_walltime` for each job; a test compares them.

    :param seconds: the prediction for each job, NaN for none.
    :param minimum: least soft walltime in seconds.
    """
    walltime = workload.walltime
    # Comparisons with NaN are false, so a job without a prediction or a walltime gets no soft walltime.
    below = (seconds < walltime) & ~workload.shrink_to_fit
    rounded = np.ceil(np.maximum(np.where(below, seconds, 0.0), minimum)).astype(np.int64)
    return np.where(below & (rounded < walltime), rounded, -1)
