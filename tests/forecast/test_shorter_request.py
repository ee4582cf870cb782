"""How much sooner a job would start with a shorter walltime: by hand, where a gap is shorter than what it requested."""

import numpy as np

from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.runtimes import RuntimeDistribution
from softwalltime.measure.forecast.snapshot import ServerSnapshot
from softwalltime.measure.forecast.what_if import sooner_by
from softwalltime.measure.simulation.policies import SOFT_WALLTIME
from tests.forecast.states import running, server, waiting

HOUR = 3600


def known(snapshot: ServerSnapshot, **hours: float) -> dict[str, RuntimeDistribution]:
    ids = [job.submission.job_id for job in model_of(snapshot).live]
    return {
        name: RuntimeDistribution(np.array([HOUR * hours[f"job{name.partition('.')[0]}"]]), "by hand") for name in ids
    }


def test_a_job_that_fits_into_a_gap_starts_at_once() -> None:
    # Job 1 holds 3 of 4 processors for two hours, job 2 waits for all; job 3 would delay it with its 10 hours.
    snapshot = server(
        4, running(1, 3, 2 * HOUR, 0), waiting(2, 4, 5 * HOUR), waiting(3, 1, 10 * HOUR), backfill_depth=1
    )
    runtimes = known(snapshot, job1=2, job2=5, job3=1)
    assert sooner_by(snapshot, "3.srv", HOUR, SOFT_WALLTIME, runtimes) == 7 * HOUR
    # A walltime that does not fit either.
    assert sooner_by(snapshot, "3.srv", 3 * HOUR, SOFT_WALLTIME, runtimes) == 0


def test_the_walltime_ends_the_job_in_the_forecast_too() -> None:
    # Job 3 would start behind job 2, and job 4 behind both: a shorter job 2 frees the machine sooner for nobody but it.
    snapshot = server(4, running(1, 4, 2 * HOUR, 0), waiting(2, 4, 5 * HOUR))
    runtimes = known(snapshot, job1=2, job2=5)
    assert sooner_by(snapshot, "2.srv", HOUR, SOFT_WALLTIME, runtimes) == 0


def test_of_a_job_that_is_not_in_the_model_nothing_is_said() -> None:
    snapshot = server(4, running(1, 4, 2 * HOUR, 0), waiting(2, 8, HOUR))
    runtimes = known(snapshot, job1=2)
    assert sooner_by(snapshot, "2.srv", 600, SOFT_WALLTIME, runtimes) is None
    assert sooner_by(snapshot, "9.srv", 600, SOFT_WALLTIME, runtimes) is None
