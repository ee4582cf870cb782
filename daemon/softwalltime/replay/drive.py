"""Drive a predictor through a workload: the fast replay."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.policy import MINIMUM, soft_walltime
from softwalltime.predictors.base import Predictor
from softwalltime.replay.workload import Workload

_STRIDE = 20_000
"""Events between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The soft walltime of every job of the workload at submission, in its order; -1 for none."""

    soft_walltimes: NDArray[np.int64]
    seconds: float

    @property
    def jobs_per_second(self) -> float:
        """Jobs that the predictor learnt, predicted and had clamped in a second of wall-clock time."""
        return len(self.soft_walltimes) / self.seconds if self.seconds else 0.0


def drive(
    workload: Workload,
    predictor: Predictor,
    minimum: int = MINIMUM,
    progress: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Let the predictor learn each job at its end and predict each at its submission.

    :param minimum: least soft walltime in seconds.
    :param progress: told the number of jobs done since it was last told.
    """
    jobs, order = workload.jobs, workload.order
    count = len(jobs)
    learn, predict = predictor.learn, predictor.predict
    soft_walltimes = [-1] * count
    begin = perf_counter()
    for position in range(0, len(order), _STRIDE):
        for event in order[position : position + _STRIDE]:
            if event < count:
                learn(jobs[event])
            else:
                submission = jobs[event - count].submission
                seconds = soft_walltime(predict(submission, submission.submitted), submission, minimum)
                if seconds is not None:
                    soft_walltimes[event - count] = seconds
        progress(min(_STRIDE, len(order) - position) // 2)
    return Outcome(np.array(soft_walltimes, np.int64), perf_counter() - begin)
