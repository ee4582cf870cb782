"""Priorities of each order against their formulas, worked out job by job."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.orders import ORDERS, Order, QueueByQueue
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, jobs_of
from tests.samples import job

NOW = 5000
FORMULAS: dict[str, Callable[[int, int, int, int], float]] = {
    # wait, value, processors, submission since the first one
    "sjf": lambda w, r, n, s: -r,
    "ljf": lambda w, r, n, s: r,
    "wfp": lambda w, r, n, s: (w / r) ** 3 * n,
    "xf": lambda w, r, n, s: (w + 3600) / r,
    "f1": lambda w, r, n, s: -(math.log10(r) * n + 870 * math.log10(max(s, 1))),
    "f2": lambda w, r, n, s: -(math.sqrt(r) * n + 25600 * math.log10(max(s, 1))),
    "f3": lambda w, r, n, s: -(r * n + 6.86e6 * math.log10(max(s, 1))),
    "f4": lambda w, r, n, s: -(r * math.sqrt(n) + 5.3e5 * math.log10(max(s, 1))),
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
        FORMULAS[name](NOW - submitted, walltime, size, submitted - 1000)
        for submitted, walltime, size in zip(workload.submitted, workload.walltime, workload.processors, strict=True)
    ]
    assert made.priorities(np.arange(len(workload)), NOW) == pytest.approx(expected)


# Worked out by hand with the published constants: r = 100 s or 10,000 s, n = 16, s = 1,000 s.
BY_HAND = {
    "f1": (2 * 16 + 870 * 3, 4 * 16 + 870 * 3),
    "f2": (10 * 16 + 25_600 * 3, 100 * 16 + 25_600 * 3),
    "f3": (100 * 16 + 6_860_000 * 3, 10_000 * 16 + 6_860_000 * 3),
    "f4": (100 * 4 + 530_000 * 3, 10_000 * 4 + 530_000 * 3),
}
# The coefficients of the regressions: of the term of value and processors, and of the term of the submission.
REGRESSIONS = {
    "f1": (0.0155183403 * 0.0005149209, 0.0069596182),
    "f2": (0.0000342717 * 0.0076562110, 0.0067364626),
    "f3": (0.2188093701 * 0.0000000049, 0.0073580361),
    "f4": (0.0056500287 * 0.0000024814, 0.0074444355),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_learned_orders_have_the_published_constants(name: str) -> None:
    records = [job(submitted=500, ncpus=1)]
    records += [job(submitted=1500, walltime=walltime, ncpus=16) for walltime in (100, 10_000)]
    workload = jobs_of(records)
    order = ORDERS[name]
    assert order is not None
    made = order(workload, Values(workload, SchedulerPolicy(), list(workload.runtime)), SchedulerPolicy())
    found = made.priorities(np.array([1, 2]), 99_999)
    assert found == pytest.approx([-score for score in BY_HAND[name]])
    assert found[0] > found[1], "the shorter job comes first"
    assert -made.priorities(np.array([0]), 0)[0] < BY_HAND[name][0], "the job submitted first comes before both"


def test_the_constants_of_the_learned_orders_are_the_quotients_of_the_regressions() -> None:
    # BY_HAND adds the constant times 3 to the first term.
    quotients = {name: submission / product for name, (product, submission) in REGRESSIONS.items()}
    assert {name: round(quotient) for name, quotient in quotients.items()} == {
        "f1": 871, "f2": 25_673, "f3": 6_862_777, "f4": 530_988,
    }  # fmt: skip
    first = {"f1": 32, "f2": 160, "f3": 1600, "f4": 400}
    for name, quotient in quotients.items():
        assert (BY_HAND[name][0] - first[name]) / 3 == pytest.approx(quotient, rel=0.003)


def test_every_order_but_those_with_tests_of_their_own_is_held_against_its_formula() -> None:
    assert set(ORDERS) - set(FORMULAS) == {"fcfs", "fairshare", "formula", "powers"}


QUEUED = [
    job("a", submitted=0, runtime=500, walltime=600, ncpus=4, queue="slow", job_id="0"),
    job("a", submitted=10, runtime=100, walltime=300, ncpus=4, queue="slow", job_id="1"),
    job("a", submitted=20, runtime=100, walltime=200, ncpus=4, queue="slow", job_id="2"),
    job("a", submitted=30, runtime=100, walltime=900, ncpus=4, queue="fast", job_id="3"),
    job("a", submitted=40, runtime=100, walltime=800, ncpus=4, queue="fast", job_id="4"),
    job("a", submitted=50, runtime=100, walltime=100, ncpus=4, queue="elsewhere", job_id="5"),
]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ({}, ["0", "3", "4", "1", "2", "5"]),
        ({"order": "formula", "formula": "-walltime"}, ["0", "4", "3", "2", "1", "5"]),
        ({"order": "sjf"}, ["0", "4", "3", "2", "1", "5"]),
    ],
)
@pytest.mark.parametrize("backfill", ["none", "easy", "pbs"])
def test_queues_come_one_after_the_other(order: dict[str, str], expected: list[str], backfill: str) -> None:
    workload = jobs_of(QUEUED)
    policy = SchedulerPolicy(**order, queues=("fast", "slow"), backfill=backfill)
    started = np.argsort(simulate(workload, 4, policy).start, kind="stable")
    assert [workload.completed[index].submission.job_id for index in started] == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.5, np.inf, -np.inf])), max_size=20))
def test_an_order_holds_within_each_queue(jobs: list[tuple[int, float]]) -> None:
    class Within(Order):
        def priorities(self, waiting: Integers, now: int) -> Floats:
            return np.array([jobs[index][1] for index in waiting.tolist()], np.float64)

    order = QueueByQueue(Within(), np.array([queue for queue, _ in jobs], np.int64))
    expected = sorted(range(len(jobs)), key=lambda index: (jobs[index][0], -jobs[index][1]))
    assert order.ranked(np.arange(len(jobs)), 0).tolist() == expected
