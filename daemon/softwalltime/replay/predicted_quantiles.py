"""The quantiles that a predictor would have predicted for each job at its submission."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.drive import PredictorDriver
from softwalltime.events import Kind
from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.base import Predictor
from softwalltime.replay.pass_events import pass_events
from softwalltime.replay.workload import Workload


def predicted_quantiles(workload: Workload, predictor: Predictor, shares: Sequence[float]) -> NDArray[np.float64]:
    """Return a row for each job and a column for each share, in seconds; NaN where there is no distribution.

    :param predictor: a new one; it learns each job at its end.
    :param shares: between 0 and 1.
    """
    quantiles = np.full((len(workload.jobs), len(shares)), np.nan)
    driver = PredictorDriver({"": predictor})

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind == Kind.SUBMITTED:
            answer = predictor.predict(job.submission, now)
            if isinstance(answer, Prediction) and answer.is_distribution:
                quantiles[number] = answer.quantiles(shares)

    for stride in workload.stream(starts=driver.observes, everything=driver.observes):
        pass_events(workload, stride, driver, ask)
    return quantiles
