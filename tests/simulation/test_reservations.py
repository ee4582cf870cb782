"""Conservative backfilling and PBS's cycle: promises, and what they have in common with EASY."""

from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.core.errors import OptionError, UsageError
from softwalltime.measure.simulation.engine import Engine, check, simulate
from softwalltime.measure.simulation.machine import FOREVER, Calendar, Processors, Profile
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from tests.samples import job
from tests.simulation.test_easy import ORDERS, Workload, run, workloads


@pytest.mark.parametrize("policy", [{"backfill": "conservative"}, {"backfill": "pbs", "depth": 3}], ids=str)
@given(workload=workloads())
@settings(deadline=None)
def test_no_processor_is_used_twice_and_no_job_starts_before_its_submission(
    policy: dict[str, object], workload: Workload
) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, **policy)
    assert np.all(outcome.start >= [each.submitted for each in jobs])
    for now in outcome.start.tolist():
        busy = (outcome.start <= now) & (now < outcome.start + outcome.duration)
        assert sum(each.processors for each, runs in zip(jobs, busy, strict=True) if runs) <= machine


@given(workload=workloads(bounded=True), order=st.sampled_from(list(ORDERS)))
@settings(deadline=None, max_examples=150)
def test_conservative_promises_are_kept_where_estimates_are_upper_bounds(workload: Workload, order: str) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, backfill="conservative", order=order)
    promised = outcome.promise >= 0
    assert np.all(outcome.start[promised] <= outcome.promise[promised])


@given(workload=workloads(bounded=True))
@settings(deadline=None)
def test_conservative_promises_every_job_that_waits_a_start(workload: Workload) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, backfill="conservative")
    waits = outcome.start > np.array([each.submitted for each in jobs])
    assert np.all(outcome.promise[waits] >= 0)


@given(workload=workloads(bounded=True), order=st.sampled_from(list(ORDERS)), depth=st.integers(1, 3))
@settings(deadline=None, max_examples=150)
def test_conservative_promises_are_kept_where_more_jobs_wait_than_have_a_reservation(
    workload: Workload, order: str, depth: int
) -> None:
    jobs, machine = workload
    outcome = run(jobs, machine, backfill="conservative", order=order, depth=depth)
    promised = outcome.promise >= 0
    assert np.all(outcome.start >= 0)
    assert np.all(outcome.start[promised] <= outcome.promise[promised])


def test_a_conservative_reservation_is_made_when_fewer_than_the_depth_are() -> None:
    workload = jobs_of(
        [
            job("u", submitted=0, walltime=10, runtime=4, ncpus=1, job_id="runs"),
            job("u", submitted=1, walltime=10, runtime=10, ncpus=2, job_id="first"),
            job("u", submitted=2, walltime=10, runtime=10, ncpus=2, job_id="second"),
            job("u", submitted=3, walltime=7, runtime=1, ncpus=1, job_id="candidate"),
        ]
    )
    # With one reservation the second job gets it when the first one starts, at 4.
    for depth, promise in ((1, 14), (2, 20), (None, 20)):
        outcome = simulate(workload, 2, SchedulerPolicy(backfill="conservative", depth=depth))
        assert outcome.promise.tolist() == [-1, 10, promise, -1]
        assert outcome.start.tolist() == [0, 4, 14, 3]


def test_a_job_gets_no_conservative_reservation_before_its_submission() -> None:
    # The first job outlives the value that it waited with, so the second one's reservation has passed when C comes.
    workload = jobs_of(
        [
            job("u", submitted=0, walltime=20, runtime=20, ncpus=2),
            job("u", submitted=0, walltime=20, runtime=5, ncpus=1),
            job("u", submitted=9, walltime=10, runtime=1, ncpus=1, job_id="C"),
        ]
    )
    policy = SchedulerPolicy(backfill="conservative", waiting="factor:0.2", running="walltime", minimum=1)
    assert simulate(workload, 2, policy).promise[-1] == 20


@given(workload=workloads(bounded=True), order=st.sampled_from(list(ORDERS)))
@settings(deadline=None)
def test_with_walltimes_and_one_top_job_pbs_is_easy(workload: Workload, order: str) -> None:
    jobs, machine = workload
    pbs, easy = (run(jobs, machine, backfill=kind, order=order) for kind in ("pbs", "easy"))
    assert pbs.start.tolist() == easy.start.tolist()
    assert pbs.promise.tolist() == easy.promise.tolist()


def test_without_strict_ordering_nothing_is_promised(jobs: Jobs) -> None:
    assert np.all(simulate(jobs, 64, SchedulerPolicy(backfill="pbs", strict_ordering=False)).promise < 0)


def test_more_top_jobs_have_more_promises(jobs: Jobs) -> None:
    promises = [
        (simulate(jobs, 64, SchedulerPolicy(backfill="pbs", depth=depth)).promise >= 0).sum() for depth in (1, 5)
    ]
    assert promises[0] < promises[1]


def test_a_class_that_cannot_run_hides_a_shorter_job_of_it() -> None:
    # As measured on OpenPBS: both candidates have one walltime, so the second one's short value is not looked at.
    workload = jobs_of(
        [
            job("u", submitted=0, walltime=500, runtime=500, ncpus=1, job_id="runs"),
            job("u", submitted=1, walltime=800, runtime=10, ncpus=2, job_id="top"),
            job("long", submitted=2, walltime=1000, runtime=90, ncpus=1, job_id="X"),
            job("short", submitted=3, walltime=1000, runtime=90, ncpus=1, job_id="Y"),
            # History: jobs of the user "short" take 100 s, those of "long" their walltime.
            job("short", submitted=-2000, walltime=1000, runtime=100, ncpus=1, job_id="h"),
        ]
    )
    index = [each.submission.job_id for each in workload.completed].index("Y")
    hidden, seen = (
        simulate(workload, 2, SchedulerPolicy(backfill="pbs", waiting="v1", classes_by_value=by_value)).start[index]
        for by_value in (False, True)
    )
    assert seen == 3
    assert hidden > 3


@given(
    free=st.integers(0, 4),
    ends=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3)), max_size=4, unique_by=lambda end: end[1]),
    job_and_seconds=st.tuples(st.integers(0, 3), st.integers(1, 15)),
    planned=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 10)), max_size=3),
)
def test_a_profile_finds_the_first_time_that_fits(
    free: int, ends: list[tuple[int, int]], job_and_seconds: tuple[int, int], planned: list[tuple[int, int, int]]
) -> None:
    needs = (1, 2, 3, 4)
    profile = Profile(0, free, sorted(ends), needs, np.array(needs))
    for other, start, seconds in planned:
        profile.occupy(other, start, start + seconds)

    def free_at(time: int) -> int:
        ended = sum(needs[other] for end, other in ends if end <= time)
        return free + ended - sum(needs[other] for other, start, length in planned if start <= time < start + length)

    asked, seconds = job_and_seconds
    fitting = [
        time for time in range(40) if all(free_at(each) >= needs[asked] for each in range(time, time + seconds))
    ]  # fmt: skip
    assert profile.earliest(asked, seconds) == (fitting[0] if fitting else FOREVER)
    for time in range(25):
        assert profile.fits(asked, time, seconds) == (time in fitting)
    for other, start, length in planned:
        profile.vacate(other, start, start + length)
    untouched = Profile(0, free, sorted(ends), needs, np.array(needs))
    assert [profile.earliest(each, 5) for each in range(4)] == [untouched.earliest(each, 5) for each in range(4)]


@pytest.mark.parametrize("backfill", ["easy", "pbs"])
@given(workload=workloads(bounded=True), order=st.sampled_from(list(ORDERS)))
@settings(deadline=None, max_examples=150)
def test_a_top_job_that_keeps_its_place_starts_as_promised_where_estimates_are_upper_bounds(
    backfill: str, workload: Workload, order: str
) -> None:
    outcome = run(*workload, backfill=backfill, order=order, keep_promises=0)
    promised = outcome.promise >= 0
    assert np.all(outcome.start[promised] <= outcome.promise[promised])


def test_a_shorter_job_takes_the_place_of_the_top_job_unless_that_keeps_it() -> None:
    jobs = [
        job("runs", submitted=0, runtime=100, walltime=100, ncpus=4),
        job("top", submitted=1, runtime=500, walltime=500, ncpus=4),
        job("shorter", submitted=50, runtime=10, walltime=10, ncpus=4),
    ]
    policy = SchedulerPolicy(backfill="pbs", order="xf")
    assert simulate(jobs_of(jobs), 4, policy).start.tolist() == [0, 110, 100]
    assert simulate(jobs_of(jobs), 4, replace(policy, keep_promises=0)).start.tolist() == [0, 100, 600]
    assert simulate(jobs_of(jobs), 4, replace(policy, keep_promises=50)).start.tolist() == [0, 110, 100]


def test_what_starts_beside_a_top_job_with_a_shorter_value_corrects_its_promise() -> None:
    jobs = [
        job("first", submitted=0, runtime=100, walltime=100, ncpus=2),
        job("top", submitted=0, runtime=10, walltime=10, ncpus=4),
        job("later", submitted=60, runtime=1, walltime=1, ncpus=4),
    ]
    outcome = simulate(jobs_of(jobs), 4, SchedulerPolicy(backfill="pbs", waiting="factor:0.5", minimum=1))
    # The first cycle planned the top job for 50.
    assert outcome.promise[1] == 100


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (SchedulerPolicy(depth=2), "a depth is for the backfillings pbs, conservative and slack, and it is easy"),
        (SchedulerPolicy(guard=1, backfill="none"), "a guard needs a top job"),
        (SchedulerPolicy(guard=1, backfill="conservative"), "a guard needs a top job"),
        (
            SchedulerPolicy(keep_promises=0, backfill="conservative"),
            "keep_promises is for backfillings that promise a",
        ),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(policy: SchedulerPolicy, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check(policy)


class OtherMachine:
    """A machine that is not :class:`Processors`, and offers what any machine must."""

    def __init__(self, total: int, needs: tuple[int, ...]) -> None:
        self._processors = Processors(total, needs)

    def fits(self, job: int) -> bool:
        return self._processors.fits(job)

    def allocate(self, job: int) -> None:
        self._processors.allocate(job)

    def release(self, job: int) -> None:
        self._processors.release(job)

    def kind(self, job: int) -> Hashable:
        return self._processors.kind(job)

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> Calendar:
        return self._processors.calendar(now, ends)


def test_pbs_runs_on_any_machine(jobs: Jobs) -> None:
    policy = SchedulerPolicy(backfill="pbs", depth=3, order="wfp", waiting="factor:0.5")
    outcome = Engine(jobs, OtherMachine(64, jobs.processors), policy).run()
    assert np.array_equal(outcome.start, simulate(jobs, 64, policy).start)


@pytest.mark.parametrize("backfill", ["easy", "sjbf", "conservative"])
def test_disciplines_for_processors_only_refuse_another_machine(jobs: Jobs, backfill: str) -> None:
    with pytest.raises(UsageError, match=f"the backfilling {backfill} knows processors only"):
        Engine(jobs, OtherMachine(64, jobs.processors), SchedulerPolicy(backfill=backfill))
