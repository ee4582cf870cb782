"""The family of orders in the simulator: the schedule of the order is that of its formula, to the last start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.engine import check, simulate
from softwalltime.measure.simulation.orders import Formula, powers
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import Vnodes
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.predict.policy.power_order import BALANCED, PowerOrder
from tests.samples import job

MACHINE = 16


@st.composite
def workloads(draw: st.DrawFn) -> Jobs:
    """Jobs of minutes to days in few distinct lengths and sizes, so that priorities are close and often equal."""
    records = []
    for _ in range(draw(st.integers(5, 40))):
        walltime = draw(st.sampled_from((60, 600, 3600, 3601, 86400, 200_000)))
        records.append(
            job(
                submitted=draw(st.integers(0, 400_000)), walltime=walltime, runtime=draw(st.integers(1, walltime)),
                ncpus=draw(st.sampled_from((1, 2, 3, 8, MACHINE))),
            )
        )  # fmt: skip
    # Whole vnodes are more processors than those that the formula counts.
    return jobs_of(records, vnodes=draw(st.sampled_from(((), (Vnodes(2, MACHINE // 2, "", "force_excl"),)))))


orders = st.builds(
    PowerOrder,
    wait=st.sampled_from((0.5, 1.0, 2.0, 3.0)),
    length=st.floats(0, 4),
    size=st.sampled_from((-1.0, 0.0, 0.25, 0.5, 2.0)),
    predicted=st.sampled_from((0.0, 0.25, 0.5, 1.0)),
    age=st.sampled_from((60.0, 3600.0, 14400.0)),
    days=st.sampled_from((0.0, 0.5, 3.0, 5.0)),
    cap=st.sampled_from((0.0, 0.5, 8.0)),
)


@pytest.mark.parametrize("backfill", ["easy", "pbs"])
@given(workload=workloads(), order=orders)
def test_an_order_gives_the_schedule_of_its_formula(backfill: str, workload: Jobs, order: PowerOrder) -> None:
    values = {"backfill": backfill, "ordering": "factor:0.3", "waiting": "factor:0.5"}
    of_order = simulate(workload, MACHINE, SchedulerPolicy(order=str(order), **values))  # type: ignore[arg-type]
    formula = SchedulerPolicy(order="formula", formula=order.formula("predicted"), **values)  # type: ignore[arg-type]
    assert of_order.start.tolist() == simulate(workload, MACHINE, formula).start.tolist()


@given(workload=workloads(), order=orders, beyond=st.integers(-1, 1))
def test_priorities_are_those_of_the_formula_also_at_the_limit(workload: Jobs, order: PowerOrder, beyond: int) -> None:
    policy = SchedulerPolicy(order=str(order), formula=order.formula("predicted"), ordering="factor:0.3")
    values = Values(workload, policy, list(workload.runtime))
    every = np.arange(len(workload))
    for index, submitted in enumerate(workload.submitted):
        values.submitted(index, submitted)
    # The first job has waited as long as the limit, a second less or a second more.
    now = max(workload.submitted[0] + (order.limit or 0) + beyond, workload.submitted[-1])
    mine, formula = powers(workload, values, policy), Formula(workload, values, policy)
    assert mine.priorities(every, now).tolist() == formula.priorities(every, now).tolist()


def test_priorities_are_in_single_precision() -> None:
    workload = jobs_of([job(submitted=0, walltime=86400, ncpus=4)])
    policy = SchedulerPolicy(order=str(BALANCED), ordering="factor:0.25")
    values = Values(workload, policy, list(workload.runtime))
    values.submitted(0, 0)
    order = powers(workload, values, policy)
    # By hand: (5400 + 3600) / 21600^(1/8) / 86400^(3/8) x 4^(1/4).
    exact = 9000 / 21600**0.125 / 86400**0.375 * 4**0.25
    assert order.priorities(np.array([0]), 5400).tolist() == [float(np.float32(exact))]
    assert float(np.float32(exact)) != exact
    # After four days the wait decides; 70 days are still exact to the second.
    assert order.priorities(np.array([0]), 345_601).tolist() == [10_345_601.0]
    assert order.priorities(np.array([0]), 6_048_001).tolist() == [16_048_001.0]


def test_wrong_orders_are_refused() -> None:
    for order, message in (("powers:wait=x", "not a number"), ("wfp:wait=1", "has no options"), ("x", "no order")):
        with pytest.raises(OptionError, match=message):
            check(SchedulerPolicy(order=order))
