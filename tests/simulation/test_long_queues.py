"""Queues that are never looked at job by job give the schedules of ones that are, job for job."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.measure.simulation import orders as order_module
from softwalltime.measure.simulation.backfilling import DISCIPLINES
from softwalltime.measure.simulation.engine import ScheduleOutcome, simulate
from softwalltime.measure.simulation.names import ORDERS
from softwalltime.measure.simulation.orders import best_first
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job
from tests.simulation.plain_conservative import PlainConservative
from tests.simulation.plain_cycle import PlainCycle

FORMULAS = ("ncpus * 10 - walltime", "(eligible_time + 5) / predicted", "soft_walltime - queue_priority")
DEPTHS = {"pbs": st.integers(1, 4), "conservative": st.none() | st.integers(1, 12)}
"""Number of reservations by the kind of backfilling: fewer than jobs wait, or of all."""
QUEUE_DEPTHS = st.just(()) | st.lists(
    st.tuples(st.sampled_from("qr"), st.integers(0, 3)), max_size=2, unique_by=lambda pair: pair[0]
).map(tuple)
VALUES = st.sampled_from(["walltime", "v1", "factor:0.4", "runtime"])


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[Jobs, int]:
    """Many jobs at few instants, of few sizes and walltimes, so that classes have several jobs."""
    machine = draw(st.integers(2, 8))
    fields = st.tuples(
        st.sampled_from("abc"), st.sampled_from([0, 0, 1, 7, 20]), st.sampled_from([3, 6, 9]), st.integers(1, 11),
        st.integers(1, machine), st.sampled_from("qrs"),
    )  # fmt: skip
    records = [
        job(user, submitted=submitted, walltime=walltime, runtime=runtime, ncpus=ncpus, queue=queue)
        for user, submitted, walltime, runtime, ncpus, queue in draw(st.lists(fields, min_size=5, max_size=40))
    ]
    return jobs_of(records), machine


@st.composite
def policies(draw: st.DrawFn, backfill: str) -> SchedulerPolicy:
    order = draw(st.sampled_from(ORDERS))
    return SchedulerPolicy(
        order=order, formula=draw(st.sampled_from(FORMULAS)) if order == "formula" else "", backfill=backfill,
        waiting=draw(VALUES), running=draw(VALUES), ordering=draw(VALUES), minimum=1,
        depth=draw(DEPTHS.get(backfill, st.none())),
        strict_ordering=draw(st.booleans()), classes_by_value=draw(st.booleans()),
        guard=draw(st.none() | st.integers(0, 5)), live=draw(st.none() | st.integers(1, 9)),
        kill_at_walltime=draw(st.booleans()), queue_depths=draw(QUEUE_DEPTHS) if backfill == "pbs" else (),
        keep_promises=draw(st.none() if backfill == "conservative" else st.none() | st.integers(0, 5)),
    )  # fmt: skip


def assert_equal(found: ScheduleOutcome, expected: ScheduleOutcome) -> None:
    for column in ("start", "promise", "backfilled", "extensions", "waiting"):
        assert getattr(found, column).tolist() == getattr(expected, column).tolist(), column


@pytest.mark.parametrize("long", [2, 48], ids=["arrays", "job by job"])
@given(workload=backlogs(), policy=policies("pbs"))
@settings(deadline=None, max_examples=200)
def test_the_cycle_of_pbs_is_the_plain_one(long: int, workload: tuple[Jobs, int], policy: SchedulerPolicy) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("softwalltime.measure.simulation.pbs_cycle.MIN_ARRAY_JOBS", long)
        patch.setattr(order_module, "BLOCK", long)
        found = simulate(*workload, policy)
        patch.setitem(DISCIPLINES, "pbs", PlainCycle)
        expected = simulate(*workload, policy)
    assert_equal(found, expected)


def test_a_late_top_job_takes_one_reservation() -> None:
    """When the guard sets in, the classes of jobs change; under fair share the jobs are then sorted again."""
    sizes, runtimes = (1, 1, 6, 1, 1, 1, 1, 1, 5, 4, 3), (1, 1, 8, *[1] * 8)
    records = [
        job("a", submitted=0, walltime=3, runtime=runtime, ncpus=ncpus)
        for ncpus, runtime in zip(sizes, runtimes, strict=True)
    ]
    policy = SchedulerPolicy(
        order="fairshare", backfill="pbs", waiting="factor:0.4", guard=0, depth=2, classes_by_value=True,
        kill_at_walltime=False, minimum=1,
    )  # fmt: skip
    # At 8 the last job fits beside the one of 5 processors, and only the one of 4 is planned.
    assert simulate(jobs_of(records), 8, policy).start.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 8, 9, 8]


@given(workload=backlogs(), policy=policies("conservative"))
@settings(deadline=None, max_examples=300)
def test_conservative_backfilling_is_the_plain_one(workload: tuple[Jobs, int], policy: SchedulerPolicy) -> None:
    found = simulate(*workload, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DISCIPLINES, "conservative", PlainConservative)
        expected = simulate(*workload, policy)
    assert_equal(found, expected)


@pytest.mark.parametrize("backfill", ["none", "easy", "sjbf"])
@given(data=st.data(), workload=backlogs())
@settings(deadline=None, max_examples=60)
def test_a_ranked_queue_gives_the_schedule_of_sorting_at_each_pass(
    backfill: str, data: st.DataObject, workload: tuple[Jobs, int]
) -> None:
    policy = data.draw(policies(backfill))
    found = simulate(*workload, policy)
    with pytest.MonkeyPatch.context() as patch:
        # No order is fixed, and pieces of candidates are as short as can be.
        patch.setattr("softwalltime.measure.simulation.system_state._has_fixed_ranks", lambda order: False)
        patch.setattr(order_module, "CHUNK", 1)
        expected = simulate(*workload, policy)
    assert_equal(found, expected)


@given(priorities=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, float("inf")]), max_size=400))
def test_sorted_pieces_are_the_sorted_jobs(priorities: list[float]) -> None:
    jobs = np.arange(len(priorities))
    found = list(chain.from_iterable(piece.tolist() for piece in best_first(jobs, np.array(priorities))))
    assert found == sorted(jobs.tolist(), key=lambda each: -priorities[each])
