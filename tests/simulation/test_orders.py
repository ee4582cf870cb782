"""Priorities of each order against their formulas, worked out job by job."""

from collections.abc import Callable

import numpy as np
import pytest

from softwalltime.measure.simulation.engine import Engine, simulate
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.orders import ORDERS
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job

NOW = 5000
FORMULAS: dict[str, Callable[[int, int, int], float]] = {
    # wait, value, processors
    "sjf": lambda w, r, n: -r,
    "ljf": lambda w, r, n: r,
    "wfp": lambda w, r, n: (w / r) ** 3 * n,
    "xf": lambda w, r, n: (w + 3600) / r,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_priorities_follow_the_formula(name: str) -> None:
    workload = jobs_of(
        [
            job(submitted=submitted, walltime=walltime, ncpus=size)
            for submitted in (1000, 2000, NOW)
            for walltime in (60, 86400)
            for size in (1, 2, 100)
        ]
    )
    order = ORDERS[name]
    assert order is not None
    made = order(workload, Values(workload, SchedulerPolicy(), list(workload.runtime)), SchedulerPolicy())
    expected = [
        FORMULAS[name](NOW - submitted, walltime, size)
        for submitted, walltime, size in zip(workload.submitted, workload.walltime, workload.processors, strict=True)
    ]
    assert made.priorities(np.arange(len(workload)), NOW) == pytest.approx(expected)


def test_every_order_but_those_with_tests_of_their_own_is_held_against_its_formula() -> None:
    assert set(ORDERS) - set(FORMULAS) == {"fcfs", "fairshare", "formula", "powers"}


def started(workload: Jobs, processors: int, **policy: object) -> list[str]:
    """Ids of the jobs in order of their start."""
    outcome = simulate(workload, processors, SchedulerPolicy(**policy))  # type: ignore[arg-type]
    return [workload.completed[index].submission.job_id for index in np.argsort(outcome.start, kind="stable")]


def test_the_user_who_used_less_comes_first() -> None:
    records = [job("heavy", submitted=0, runtime=1000, walltime=1000, ncpus=1, job_id="0")]
    records += [job("heavy", submitted=10, runtime=100, ncpus=1, job_id="1")]
    records += [job("light", submitted=20, runtime=100, ncpus=1, job_id="2")]
    assert started(jobs_of(records), 1, order="fairshare") == ["0", "2", "1"]
    assert started(jobs_of(records), 1, order="fcfs") == ["0", "1", "2"]


def test_a_start_counts_at_once_with_all_that_was_requested() -> None:
    # Both users are equal; the start of the first job makes the other user next, at the same instant.
    records = [
        job(user, submitted=submitted, walltime=1000, ncpus=1, job_id=name)
        for user, submitted, name in (("a", 0, "0"), ("b", 0, "x"), ("a", 5, "1"), ("a", 5, "2"), ("b", 5, "3"))
    ]
    # Runtimes are equal, so both processors are free at one instant.
    for backfill in ("none", "pbs"):
        assert started(jobs_of(records), 2, order="fairshare", backfill=backfill)[2:4] == ["1", "3"]


def test_usage_is_halved_every_day() -> None:
    workload = jobs_of([job("a", submitted=0, runtime=1000, walltime=1000, ncpus=8)])
    engine = Engine(workload, Processors(8, workload.processors), SchedulerPolicy(order="fairshare"))
    engine.run()
    usage = engine.system.order
    assert usage is not None
    first = np.array([0])
    assert usage.priorities(first, 86399)[0] == -8001
    assert usage.priorities(first, 86400)[0] == -8001 / 2
    assert usage.priorities(first, 3 * 86400)[0] == -8001 / 8
    assert usage.priorities(first, 100 * 86400)[0] == -1
