"""Pass recorded events to predictors."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.replay.workload import Stride, Workload, event_of
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.predictors.base import Predictor

Ask = Callable[[int, int, int, CompletedJob], object]
"""Function called to predict at an event: (time in epoch seconds, kind, index of the job, job)."""
ENDED = int(Kind.ENDED)


def pass_events(stride: Stride, driver: PredictorDriver, ask: Ask) -> None:
    events = zip(*stride, strict=True)
    if not (driver.observes or driver.fits):
        # Inlined step: the full step would take a third of the time of cheap predictors.
        learn = driver.learn
        for kind, number, job, now, taught in events:
            if kind != ENDED:
                ask(now, kind, number, job)
            elif taught:
                learn(job)
        return
    for kind, number, job, now, taught in events:
        event = event_of(kind, now, job) if driver.observes else None
        if kind != ENDED:
            driver.step(now, ask, event, None, now, kind, number, job)
        else:
            driver.step(now, None, event, job if taught else None)


def predicted_quantiles(workload: Workload, predictor: Predictor, shares: Sequence[float]) -> NDArray[np.float64]:
    """Return a row for each job and a column for each share, in seconds; NaN where there is no distribution."""
    quantiles = np.full((len(workload.jobs), len(shares)), np.nan)
    driver = PredictorDriver({"": predictor})

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind == Kind.SUBMITTED:
            answer = predictor.predict(job.submission, now)
            if isinstance(answer, Prediction) and answer.is_distribution:
                quantiles[number] = answer.quantiles(shares)

    for stride in workload.stream(starts=driver.observes, everything=driver.observes):
        pass_events(stride, driver, ask)
    return quantiles
