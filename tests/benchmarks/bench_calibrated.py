"""The predictor calibrated: processor time to predict, observe and learn a job."""

from pathlib import Path
from pickle import dumps
from time import thread_time_ns

import numpy as np

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Deleted, Kind, Submitted
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.markdown import table
from tests.samples import job
from tests.traces import TRACES

JOBS = 10_000
WARM_UP = 3000
"""First jobs that are left out: the predictor compiles, and its price starts."""
USERS = 1000
PRESENT = (1000, 200_000)
"""Waiting jobs of one user."""
ASKED = 500


def main() -> None:
    """Measure on KTH-SP2, or a synthetic workload; then a user with many waiting jobs, and the state."""
    kth = TRACES / "KTH-SP2-1996-unfiltered.swf.gz"
    jobs = list(read_jobs([Path(kth)], Tally())) if kth.exists() else generate(JOBS, seed=1)
    workload = Workload(jobs, JOBS)
    print(table(["step", "mean, us", "99th percentile, us"], _times(workload)))
    print()
    print(table(["waiting jobs of the user", "job there to predict and gone, us"], list(map(_crowded, PRESENT))))
    print(f"\nstate of {USERS:,} users with 300 jobs each: {_state() / 1e6:.0f} MB pickled")


def _times(workload: Workload) -> list[list[str]]:
    model = make("calibrated")
    times: dict[str, list[int]] = {"predict": [], "observe": [], "learn": []}
    for stride in workload.stream(everything=True):
        for kind, number, each, now, _ in zip(*stride, strict=True):
            began = thread_time_ns()
            if kind == Kind.SUBMITTED:
                model.predict(each.submission, each.submission.submitted)
                times["predict"].append(thread_time_ns() - began)
            event = event_of(kind, now, each)
            began = thread_time_ns()
            model.observe(event)
            times["observe"].append(thread_time_ns() - began)
            if kind == Kind.ENDED and workload.teaches[number]:
                began = thread_time_ns()
                model.learn(each)
                times["learn"].append(thread_time_ns() - began)
    late = {step: np.array(taken[WARM_UP:]) / 1000 for step, taken in times.items()}
    return [[step, f"{taken.mean():.0f}", f"{np.quantile(taken, 0.99):.0f}"] for step, taken in late.items()]


def _crowded(count: int) -> list[str]:
    """Return the time to observe a submission, predict, and observe the deletion, of a user with so many others."""
    model = make("calibrated")
    for number in range(300):
        model.learn(job(job_id=f"old{number}.srv", submitted=10 * number))
    jobs = [job(job_id=f"{number}.srv", submitted=10_000 + number).submission for number in range(count + ASKED)]
    for submission in jobs[:count]:
        model.observe(Submitted(submission.submitted, submission))
    began = thread_time_ns()
    for submission in jobs[count:]:
        model.observe(Submitted(submission.submitted, submission))
        model.predict(submission, submission.submitted)
        model.observe(Deleted(submission.submitted, submission))
    return [f"{count:,}", f"{(thread_time_ns() - began) / 1000 / ASKED:,.0f}"]


def _state() -> int:
    """Bytes of a predictor that knows many users, each with several walltimes."""
    model = make("calibrated:statistic=median")
    for number in range(300 * USERS):
        walltime = 3600 * (1 + number // USERS % 5)
        model.learn(
            job(f"user{number % USERS}", job_id=f"{number}.srv", submitted=10 * number, walltime=walltime, group="g")
        )
    return len(dumps(model))
