"""Jobs without a walltime hold their processors, are planned without an end, and are not scored."""

import numpy as np
import pytest

from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import classes, measure
from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, Jobs, jobs_of
from softwalltime.reports.simulation_document import unscored_line
from tests.samples import job


@pytest.fixture
def workload() -> Jobs:
    """Four processors: three are held without a known end, the second job needs all, the third one fits beside."""
    return jobs_of(
        [
            job("holder", submitted=0, runtime=500, walltime=None, ncpus=3),
            job("wide", submitted=1, runtime=10, walltime=50, ncpus=4),
            job("narrow", submitted=2, runtime=3000, walltime=86400, ncpus=1),
        ]
    )


@pytest.mark.parametrize("backfill", ["easy", "sjbf", "conservative", "pbs"])
def test_nothing_is_promised_before_the_end_of_a_job_without_a_walltime(workload: Jobs, backfill: str) -> None:
    outcome = simulate(workload, 4, SchedulerPolicy(backfill=backfill))
    # The narrow job of a day ends long before the holder's planned end, so it does not delay the wide one.
    assert outcome.start.tolist() == [0, 3002, 2]
    # The wide one's start is foreseen when the holder has ended: at the narrow one's planned end.
    assert outcome.promise.tolist() == [-1, 2 + 86400, -1]


def test_figures_are_of_the_scored_jobs_and_use_is_of_all(workload: Jobs) -> None:
    outcome = simulate(workload, 4, SchedulerPolicy())
    metrics = measure(workload, outcome, 4)
    assert metrics.wait_mean == np.mean([3001, 0])
    assert metrics.makespan == 3012
    assert metrics.utilisation == (3 * 500 + 4 * 10 + 3000) / (4 * 3012)
    assert {name: which.tolist() for name, which in classes(workload, "user", 4).items()} == {
        "narrow": [2],
        "wide": [1],
    }
    assert workload.scored_share() == 3040 / 4540
    line = unscored_line(int(workload.scored.sum()), len(workload), workload.scored_share())
    assert line.startswith("1 of the jobs have no walltime.")
    assert "the 2 other jobs, which are 67.0% of the processor time" in " ".join(line.split())
    assert unscored_line(2, 2, 1.0) == ""


@pytest.mark.parametrize("spec", ["runtime", "v1", "percentile:p=50,keys=user,least=1"])
def test_no_value_is_set_for_a_job_without_a_walltime(spec: str) -> None:
    records = [
        job("a", submitted=time, runtime=100, walltime=walltime, ncpus=1)
        for time, walltime in ((0, 1000), (200, 1000), (400, 1000), (600, None), (2000, 1000))
    ]
    policy = SchedulerPolicy(order="xf", waiting=spec, running=spec, ordering=spec, correction="conditional", live=60)
    outcome = simulate(jobs_of(records), 1, policy)
    assert outcome.waiting.tolist()[3] == UNLIMITED_WALLTIME_S
    assert outcome.waiting.tolist()[4] < 1000
