"""Pass recorded events to predictors."""

from collections.abc import Callable

from softwalltime.drive import PredictorDriver
from softwalltime.events import Kind
from softwalltime.jobs import CompletedJob
from softwalltime.replay.workload import Stride, Workload

Ask = Callable[[int, int, int, CompletedJob], object]
"""Asks predictors at an event before the end: its time (epoch seconds), its kind, the index of the job, the job."""
ENDED = int(Kind.ENDED)


def pass_events(workload: Workload, stride: Stride, driver: PredictorDriver, ask: Ask) -> None:
    """Pass some events of a workload, each in the order of the driver."""
    kinds, numbers, jobs = stride
    events = zip(workload.times(stride), kinds, numbers, jobs, workload.teaches[numbers].tolist(), strict=True)
    if not (driver.observes or driver.fits):
        # Only the asking and the learning are left of a step, which would take a third of the time of cheap predictors.
        learn = driver.learn
        for now, kind, number, job, taught in events:
            if kind != ENDED:
                ask(now, kind, number, job)
            elif taught:
                learn(job)
        return
    for now, kind, number, job, taught in events:
        event = workload.event(kind, number, job) if driver.observes else None
        if kind != ENDED:
            driver.step(now, ask, event, None, now, kind, number, job)
        else:
            driver.step(now, None, event, job if taught else None)
