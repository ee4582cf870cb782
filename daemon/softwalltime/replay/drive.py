"""Drive a predictor through a workload: the fast replay."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from softwalltime.policy.clamp import MINIMUM, soft_walltime
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
    jobs = workload.jobs
    count = len(jobs)
    learn, predict = predictor.learn, predictor.predict
    soft_walltimes = [-1] * count
    begin = perf_counter()
    for events in strides(workload, progress):
        for event in events:
            if event < count:
                learn(jobs[event])
            else:
                submission = jobs[event - count].submission
                seconds = soft_walltime(predict(submission, submission.submitted), submission, minimum)
                if seconds is not None:
                    soft_walltimes[event - count] = seconds
    return Outcome(np.array(soft_walltimes, np.int64), perf_counter() - begin)


def strides(workload: Workload, progress: Callable[[int], None]) -> Iterator[list[int]]:
    """The workload's ``order``, many events at a time.

    :param progress: told the number of jobs done since it was last told.
    """
    order = workload.order
    for position in range(0, len(order), _STRIDE):
        events = order[position : position + _STRIDE]
        yield events
        # A job is two events, its submission and its end.
        progress(len(events) // 2)
