"""The engine gives the figures that an independent simulator gave for the same rules, to the printed digits."""

from functools import cache

import numpy as np
import pytest

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import measure
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import trace

MACHINES = {"KTH-SP2": 100, "SDSC-SP2": 128}
# Mean wait in seconds and mean bounded slowdown (10 s).
FIGURES = [
    (SchedulerPolicy(kill_at_walltime=False), ("6844.41", "91.288"), ("22841.29", "102.616")),
    (SchedulerPolicy(order="wfp", kill_at_walltime=False), ("5288.62", "55.679"), ("18460.94", "59.679")),
    (SchedulerPolicy(), ("6834.59", "92.688"), ("20567.86", "87.760")),
    (SchedulerPolicy(waiting="factor:0.5"), ("5760.59", "77.034"), ("18104.35", "83.882")),
    (SchedulerPolicy(waiting="runtime"), ("5794.60", "68.340"), ("17057.03", "77.638")),
    (SchedulerPolicy(order="wfp"), ("5157.29", "54.328"), ("16484.28", "51.737")),
]


@cache
def jobs(name: str) -> Jobs:
    found, refused = jobs_of(list(read_jobs([trace(name)], Tally())), limited_only=True).that_fit(MACHINES[name])
    assert refused == 0
    return found


@pytest.mark.parametrize(
    ("name", "policy", "expected"),
    [(name, policy, figures) for policy, *both in FIGURES for name, figures in zip(MACHINES, both, strict=True)],
    ids=lambda value: (
        f"{value.order}-{value.waiting}-{value.kill_at_walltime}" if isinstance(value, SchedulerPolicy) else None
    ),
)
def test_wait_and_slowdown_are_those_of_the_independent_simulator(
    name: str, policy: SchedulerPolicy, expected: tuple[str, str]
) -> None:
    outcome = simulate(jobs(name), MACHINES[name], policy)
    metrics = measure(jobs(name), outcome, MACHINES[name])
    assert (f"{metrics.wait_mean:.2f}", f"{metrics.bsld10_mean:.3f}") == expected


def test_no_trace_loses_a_job_that_can_be_simulated() -> None:
    assert (len(jobs("KTH-SP2")), jobs("KTH-SP2").left_out) == (28481, {"no runtime": 8})
    assert (len(jobs("SDSC-SP2")), jobs("SDSC-SP2").left_out) == (53999, {"no runtime": 5681, "no walltime": 35})


def test_a_promise_is_kept_where_estimates_are_upper_bounds() -> None:
    found = jobs("SDSC-SP2")
    outcome = simulate(found, 128, SchedulerPolicy())
    promised = outcome.promise >= 0
    assert promised.sum() > 1000
    assert np.all(outcome.start[promised] <= outcome.promise[promised])
