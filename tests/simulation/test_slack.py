"""Slack-based backfilling keeps the bound of every job, whatever the order and the predictions are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.core.errors import OptionError, UsageError
from softwalltime.measure.simulation import slack as slack_module
from softwalltime.measure.simulation.engine import Engine, check, simulate
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.names import ORDERS
from softwalltime.measure.simulation.policies import SchedulerPolicy, policy_of, read_policies
from softwalltime.measure.simulation.pools import Pools
from softwalltime.measure.simulation.schedule_metrics import measure
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.reports.candidates import preset_policies
from tests.samples import ROOT, job
from tests.simulation.test_long_queues import FORMULAS, backlogs

VALUES = st.sampled_from(
    ["walltime", "v1", "factor:0.4", "runtime", "runtime:factor=10", "runtime:random", "runtime:inverse"]
)


@st.composite
def slack_policies(draw: st.DrawFn) -> SchedulerPolicy:
    order = draw(st.sampled_from(ORDERS))
    return SchedulerPolicy(
        order=order, formula=draw(st.sampled_from(FORMULAS)) if order == "formula" else "", backfill="slack",
        waiting=draw(VALUES), running=draw(VALUES), ordering=draw(VALUES), minimum=1,
        slack=draw(st.integers(0, 12)), slack_share=draw(st.sampled_from([0, 0.25, 1])),
        depth=draw(st.none() | st.integers(1, 6)), live=draw(st.none() | st.integers(1, 9)),
    )  # fmt: skip


@pytest.mark.parametrize("refusals", [0, 32])
@given(workload=backlogs(), policy=slack_policies())
@settings(deadline=None, max_examples=400)
def test_no_job_starts_after_its_latest_start(
    refusals: int, workload: tuple[Jobs, int], policy: SchedulerPolicy
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slack_module, "MAX_FAILED_PLANS", refusals)
        outcome = simulate(*workload, policy)
    promised = outcome.promise >= 0
    assert np.all(outcome.start[promised] <= outcome.promise[promised])
    assert policy.depth is not None or promised.all()


@given(workload=backlogs(), policy=slack_policies())
@settings(deadline=None)
def test_every_job_runs_and_no_processor_is_used_twice_also_where_jobs_outlive_their_walltime(
    workload: tuple[Jobs, int], policy: SchedulerPolicy
) -> None:
    jobs, machine = workload
    outcome = simulate(jobs, machine, replace(policy, kill_at_walltime=False))
    assert np.all(outcome.start >= np.array(jobs.submitted))
    sizes = np.array(jobs.processors)
    for now in outcome.start.tolist():
        assert sizes[(outcome.start <= now) & (now < outcome.start + outcome.duration)].sum() <= machine


def overtaking() -> Jobs:
    """A job runs until 100 at the latest, the wide one waits for it, and a short one on all processors comes at 50."""
    return jobs_of(
        [
            job("runs", submitted=0, runtime=100, walltime=100, ncpus=4),
            job("wide", submitted=1, runtime=500, walltime=500, ncpus=4),
            job("short", submitted=50, runtime=10, walltime=10, ncpus=4),
        ]
    )


@pytest.mark.parametrize(
    ("slack", "share", "starts"), [(9, 0, [0, 100, 600]), (10, 0, [0, 110, 100]), (0, 0.1, [0, 100, 600])]
)
def test_a_job_overtakes_another_one_within_its_slack(slack: int, share: float, starts: list[int]) -> None:
    policy = SchedulerPolicy(backfill="slack", order="sjf", slack=slack, slack_share=share)
    outcome = simulate(overtaking(), 4, policy)
    assert outcome.start.tolist() == starts
    wait = max(slack, int(share * 99))
    assert outcome.promise.tolist()[1] == 100 + wait


def test_other_kinds_of_backfilling_measure_what_is_past_its_bound() -> None:
    policy = SchedulerPolicy(backfill="pbs", order="sjf", slack=4, slack_share=0)
    outcome = simulate(overtaking(), 4, policy)
    assert outcome.start.tolist() == [0, 110, 100]
    # The short job's bound is behind the wide one.
    assert outcome.bound is not None
    assert outcome.bound.tolist() == [4, 104, 604]
    metrics = measure(overtaking(), outcome, 4)
    assert (metrics.past_bound, metrics.past_bound_max) == (1 / 3, 6)
    assert measure(overtaking(), simulate(overtaking(), 4, replace(policy, slack=10)), 4).past_bound_max == 0
    without = simulate(overtaking(), 4, SchedulerPolicy(backfill="pbs", order="sjf"))
    assert without.bound is None
    assert measure(overtaking(), without, 4).past_bound is None


def test_a_bound_changes_no_schedule_where_it_is_only_measured(jobs: Jobs) -> None:
    for policy in (SchedulerPolicy(backfill="pbs", order="wfp", waiting="factor:0.5"), SchedulerPolicy()):
        assert np.array_equal(simulate(jobs, 64, policy).start, simulate(jobs, 64, replace(policy, slack=60)).start)


@pytest.mark.parametrize(("lead", "starts"), [(3, [0, 110, 100]), (4, [0, 100, 600])])
def test_a_job_whose_bound_is_near_comes_first(lead: int, starts: list[int]) -> None:
    policy = SchedulerPolicy(backfill="pbs", order="sjf", slack=4, slack_share=0, raise_lead=lead)
    assert simulate(overtaking(), 4, policy).start.tolist() == starts


@pytest.mark.parametrize(("lead", "starts"), [(None, [0, 231, 20, 101]), (1000, [0, 170, 20, 670])])
def test_the_guard_counts_a_job_whose_bound_is_near_as_late(lead: int | None, starts: list[int]) -> None:
    records = [
        job("runs", submitted=0, runtime=100, walltime=100, ncpus=2),
        job("wide", submitted=1, runtime=500, walltime=500, ncpus=4),
        job("narrow", submitted=20, runtime=150, walltime=150, ncpus=2),
        job("narrow", submitted=101, runtime=130, walltime=130, ncpus=2),
    ]
    # A lead longer than the slack counts as the slack: at 20 no bound is near.
    policy = SchedulerPolicy(
        backfill="pbs", order="ljf", waiting="factor:0.5", minimum=1, guard=1000, slack=10, slack_share=0,
        raise_lead=lead,
    )  # fmt: skip
    assert simulate(jobs_of(records), 4, policy).start.tolist() == starts


def test_a_job_behind_the_depth_gets_its_bound_later() -> None:
    records = [job("u", submitted=time, runtime=50, walltime=100, ncpus=1) for time in range(4)]
    outcome = simulate(jobs_of(records), 1, SchedulerPolicy(backfill="slack", depth=2, slack=0, slack_share=0))
    # The last job is one of the first two that wait from 50 on, and gets its bound in the pass after that, at 100.
    assert outcome.promise.tolist() == [0, 100, 200, 200]
    assert outcome.start.tolist() == [0, 50, 100, 150]


def test_a_job_without_a_walltime_is_planned_for_five_years_and_others_start_beside_it() -> None:
    records = [
        job("endless", submitted=0, runtime=500, walltime=None, ncpus=3),
        job("wide", submitted=1, runtime=10, walltime=50, ncpus=4),
        job("narrow", submitted=2, runtime=3000, walltime=86400, ncpus=1),
    ]
    outcome = simulate(jobs_of(records), 4, SchedulerPolicy(backfill="slack"))
    assert outcome.start.tolist() == [0, 3002, 2]
    assert outcome.promise.tolist()[1] == -1


def test_true_values_and_wrong_ones_keep_the_bounds_of_a_busy_machine(jobs: Jobs) -> None:
    specs = ("runtime", "runtime:factor=10", "runtime:random", "runtime:inverse")
    waits = {}
    for spec in specs:
        policy = SchedulerPolicy(backfill="slack", order="xf", ordering=spec, waiting=spec, slack=600)
        outcome = simulate(jobs, 64, policy)
        promised = outcome.promise >= 0
        assert promised.mean() > 0.99
        assert np.all(outcome.start[promised] <= outcome.promise[promised])
        waits[spec] = measure(jobs, outcome, 64).bsld10_mean or 0
    assert waits["runtime"] < waits["runtime:random"] < waits["runtime:inverse"]


def test_a_distorted_runtime_is_the_value_of_each_job() -> None:
    def values(spec: str) -> list[int]:
        records = [job("u", submitted=0, runtime=runtime, walltime=1000, ncpus=1) for runtime in (10, 100, 400)]
        found = jobs_of(records)
        policy = SchedulerPolicy(waiting=spec, ordering=spec, running=spec, minimum=1)
        chosen = Engine(found, Processors(4, found.processors), policy).system.values
        assert chosen.waiting == chosen.running
        return chosen.waiting

    assert values("runtime:factor=2") == [20, 200, 800]
    assert values("runtime:factor=10") == [100, 1000, 1000]
    assert values("runtime:inverse") == [100, 10, 3]
    drawn = values("runtime:random")
    assert drawn == values("runtime:random")
    assert len(set(drawn)) == 3


@pytest.mark.parametrize(
    "spec", ["runtime:", "runtime:factor", "runtime:factor=0", "runtime:factor=inf", "runtime:x=2"]
)
def test_a_distortion_that_does_not_exist_is_refused(spec: str) -> None:
    with pytest.raises(OptionError, match="there are runtime:factor=2, runtime:random and runtime:inverse"):
        policy_of({"ordering": spec}, "the options")


def test_bounds_are_of_processors_only() -> None:
    jobs = overtaking()
    machine = Pools([8], [((0, need),) for need in jobs.processors], jobs.walltime)
    with pytest.raises(UsageError, match="the backfilling slack knows processors only"):
        Engine(jobs, machine, SchedulerPolicy(backfill="slack"))
    with pytest.raises(UsageError, match="bounds are planned on processors only"):
        Engine(jobs, machine, SchedulerPolicy(backfill="pbs", slack=60))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (SchedulerPolicy(slack_share=1), "a slack_share is for a slack, or the backfilling slack, and it is easy"),
        (SchedulerPolicy(guard=1, backfill="slack"), "a guard needs a top job"),
        (SchedulerPolicy(keep_promises=0, backfill="slack"), "keep_promises is for backfillings"),
        (SchedulerPolicy(raise_lead=0, backfill="pbs"), "raise_lead is for a slack"),
        (SchedulerPolicy(raise_lead=0, slack=0, backfill="slack"), "that the backfilling slack only measures"),
        (SchedulerPolicy(raise_lead=0, slack=0), "raise_lead is for an order other than fcfs"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(policy: SchedulerPolicy, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check(policy)


def test_the_file_of_bounds_can_be_simulated() -> None:
    policies = read_policies(ROOT / "deploy" / "bounds.toml", {})
    for policy in policies.values():
        check(policy)
    assert policies["balanced"] == replace(preset_policies()["balanced"], slack=14_400)
    assert policies["raised"] == replace(policies["balanced"], raise_lead=3600)
