"""The quantiles that a predictor would have predicted for each job at its submission."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.events import Kind
from softwalltime.jobs import Prediction
from softwalltime.predictors.base import Predictor
from softwalltime.replay.workload import Workload


def predicted_quantiles(workload: Workload, predictor: Predictor, shares: Sequence[float]) -> NDArray[np.float64]:
    """Return a row for each job and a column for each share, in seconds; NaN where there is no distribution.

    :param predictor: a new one; it learns each job at its end.
    :param shares: between 0 and 1.
    """
    found = np.full((len(workload.jobs), len(shares)), np.nan)
    observes, fits, next_fit = predictor.observes, predictor.fits, -1
    for stride in workload.stream(starts=observes, everything=observes):
        for kind, number, job in zip(*stride, strict=True):
            if fits and (now := workload.time(kind, number)) >= next_fit:
                next_fit = now + predictor.fit_seconds
                predictor.fit(now)
            if kind == Kind.SUBMITTED:
                answer = predictor.predict(job.submission, job.submission.submitted)
                if isinstance(answer, Prediction) and answer.is_distribution:
                    found[number] = answer.quantiles(shares)
            if observes:
                predictor.observe(workload.event(kind, number, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                predictor.learn(job)
    return found
