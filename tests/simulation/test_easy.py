"""EASY as the engine does it is EASY by the rules, job for job, whatever the values and the order."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.measure.simulation import queue
from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import UNLIMITED_WALLTIME_S, Jobs, jobs_of
from tests.samples import job
from tests.simulation import oracle

Workload = tuple[list[oracle.Job], int]


@st.composite
def workloads(draw: st.DrawFn, *, bounded: bool = False) -> Workload:
    """Small machines and short times, so that queues form and many things happen at one instant.

    :param bounded: every value is the walltime, and no job runs longer.
    """
    machine = draw(st.integers(1, 6))
    jobs = []
    for _ in range(draw(st.integers(1, 25))):
        walltime = draw(st.integers(1, 12))
        duration = draw(st.integers(1, walltime if bounded else 15))
        waiting, running = (walltime if bounded else draw(st.integers(1, walltime)) for _ in range(2))
        submitted, size = draw(st.integers(0, 20)), draw(st.integers(1, machine))
        jobs.append(oracle.Job(submitted, size, walltime, duration, waiting, running))
    return sorted(jobs, key=lambda each: each.submitted), machine


def columns(jobs: list[oracle.Job]) -> Jobs:
    return jobs_of(
        [
            job(submitted=each.submitted, walltime=each.walltime, runtime=each.duration, ncpus=each.processors)
            for each in jobs
        ]
    )


def run(jobs: list[oracle.Job], machine: int, **policy: object) -> ScheduleOutcome:
    """The engine's schedule, with the values of these jobs."""
    found = columns(jobs)
    # Two specifications, so that waiting and running values are two lists.
    asked = SchedulerPolicy(kill_at_walltime=False, running="runtime", minimum=1, **policy)  # type: ignore[arg-type]
    engine = Engine(found, Processors(machine, found.processors), asked)
    values = engine.system.values
    values.waiting[:] = [each.waiting for each in jobs]
    values.waiting_array[:] = values.waiting
    values.running[:] = [each.running for each in jobs]
    return engine.run()


def wfp(each: oracle.Job, now: int) -> float:
    relative = (now - each.submitted) / each.walltime
    return relative * relative * relative * each.processors


def expansion(each: oracle.Job, now: int) -> float:
    return (now - each.submitted + 3600) / each.walltime


ORDERS: dict[str, Callable[[oracle.Job, int], float] | None] = {
    "fcfs": None,
    "wfp": wfp,
    "xf": expansion,
    "sjf": lambda each, _: -each.walltime,
    "ljf": lambda each, _: each.walltime,
}


@pytest.mark.parametrize("backfill", ["easy", "sjbf"])
@pytest.mark.parametrize("order", ORDERS)
@given(workload=workloads(), guard=st.none() | st.integers(0, 5))
@settings(deadline=None)
def test_every_start_and_promise_follows_the_rules(
    order: str, backfill: str, workload: Workload, guard: int | None
) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, order=order, backfill=backfill, guard=guard)
    oracle.schedule(jobs, machine, priority=ORDERS[order], shortest=backfill == "sjbf", guard=guard)
    assert outcome.start.tolist() == [each.start for each in jobs]
    assert outcome.promise.tolist() == [each.promise for each in jobs]


@pytest.mark.parametrize("classes", [0, 100], ids=["blocks", "classes"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("backfill", ["easy", "sjbf"])
@given(workload=workloads(), guard=st.none() | st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_arrays_in_place_of_lists_and_blocks_or_classes_of_candidates_change_nothing(
    order: str, backfill: str, classes: int, workload: Workload, guard: int | None
) -> None:
    jobs, machine = workload
    expected = run(jobs, machine, order=order, backfill=backfill, guard=guard)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "MIN_ARRAY_JOBS", 2)
        patch.setattr(queue, "_MAX_LIST_JOBS", 1)
        patch.setattr("softwalltime.measure.simulation.backfilling.MIN_ARRAY_JOBS", 2)
        patch.setattr("softwalltime.measure.simulation.orders.BLOCK", 1)
        patch.setattr("softwalltime.measure.simulation.candidates._MIN_JOBS_PER_CLASS", 1)
        patch.setattr("softwalltime.measure.simulation.candidates._MAX_CLASSES", classes)
        outcome = run(jobs, machine, order=order, backfill=backfill, guard=guard)
    assert outcome.start.tolist() == expected.start.tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("backfill", ["none", "easy", "sjbf"])
@given(workload=workloads())
@settings(deadline=None, max_examples=50)
def test_no_processor_is_used_twice_and_no_job_starts_before_its_submission(
    order: str, backfill: str, workload: Workload
) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, order=order, backfill=backfill)
    assert np.all(outcome.start >= [each.submitted for each in jobs])
    for now in outcome.start.tolist():
        busy = (outcome.start <= now) & (now < outcome.start + outcome.duration)
        assert sum(each.processors for each, runs in zip(jobs, busy, strict=True) if runs) <= machine


@pytest.mark.parametrize("backfill", ["easy", "sjbf"])
@given(workload=workloads(bounded=True))
@settings(deadline=None)
def test_with_upper_bounds_the_head_starts_no_later_than_first_promised(backfill: str, workload: Workload) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, backfill=backfill)
    promised = outcome.promise >= 0
    assert np.all(outcome.start[promised] <= outcome.promise[promised])


@given(workload=workloads())
@settings(deadline=None, max_examples=30)
def test_without_backfilling_jobs_start_in_order(workload: Workload) -> None:
    jobs, machine = workload
    starts = run(jobs, machine, backfill="none").start.tolist()
    assert starts == sorted(starts)


@given(workload=workloads())
@settings(deadline=None, max_examples=30)
def test_the_same_jobs_give_the_same_schedule(workload: Workload) -> None:
    jobs, machine = workload
    first, second = (run(jobs, machine, order="wfp", backfill="sjbf") for _ in range(2))
    assert first.start.tobytes() == second.start.tobytes()


@pytest.mark.parametrize("backfill", ["easy", "sjbf", "pbs"])
def test_nothing_is_promised_before_a_job_without_a_walltime_has_ended(backfill: str) -> None:
    """Its end is planned in five years; the guard would wait for as long."""
    jobs = [
        oracle.Job(0, 2, UNLIMITED_WALLTIME_S, 1000, UNLIMITED_WALLTIME_S, UNLIMITED_WALLTIME_S),
        oracle.Job(1, 2, 2000, 2000, 2000, 2000),
        oracle.Job(2, 4, 60, 60, 60, 60),
    ]
    outcome = run(jobs, 4, backfill=backfill, depth=1)
    assert outcome.start.tolist() == [0, 1, 2001]
    # Known when the first job has ended.
    assert outcome.promise.tolist() == [-1, -1, 2001]
