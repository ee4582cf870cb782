"""Start times: the simulator runs forward from a snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from softwalltime.core.errors import UsageError
from softwalltime.core.formatting import local_time
from softwalltime.measure.forecast.calibration import Corrections
from softwalltime.measure.forecast.expected import Learnt, expected_starts
from softwalltime.measure.forecast.queue_model import QueueModel, limit, model_of
from softwalltime.measure.forecast.runtimes import RuntimeDistribution, RuntimeModel
from softwalltime.measure.forecast.snapshot import DEDICATED, AdvanceReservation, LiveJob, ServerSnapshot
from softwalltime.measure.forecast.start_times import forecast, waits_for
from softwalltime.measure.forecast.what_if import probe_job, probe_of
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs
from tests.forecast.states import NOW, recorded, running, server, waiting
from tests.samples import job


def exactly(*seconds: int) -> list[RuntimeDistribution]:
    return [RuntimeDistribution(np.array([float(each)]), "known") for each in seconds]


def starts(snapshot: ServerSnapshot, *runtimes: int, probes: Sequence[LiveJob] = ()) -> list[int]:
    """Seconds from now to the start of each waiting job, in the scheduler's order, with these runtimes."""
    model = model_of(snapshot, probes).model
    found = forecast(model, exactly(*runtimes), runs=0)
    return (found.point - NOW).tolist()


def test_jobs_start_when_predicted_runtimes_free_processors_and_backfill_by_walltimes() -> None:
    snapshot = server(
        16,
        running(1, 8, 3600, elapsed=600),
        running(2, 4, 7200, elapsed=100),
        waiting(3, 16, 3600),  # promised 7100 s from now, when job 2 must have ended
        waiting(4, 4, 7000),  # fits before that
        waiting(5, 4, 7200),  # does not
    )
    # Job 1 ends 400 s from now, job 2 900 s from now, job 4 runs 500 s.
    assert starts(snapshot, 1000, 1000, 50, 500, 60) == [900, 0, 950]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_schedule_goes_on_from_any_moment_as_it_went(jobs: Jobs, depth: int) -> None:
    backfill = "easy" if depth == 1 else "pbs"
    policy = SchedulerPolicy(backfill=backfill, depth=depth)
    whole = simulate(jobs, 64, policy)
    end = whole.start + whole.duration
    submitted = np.array(jobs.submitted)
    # The longest queue of each third of the workload.
    lengths = np.array([((submitted <= now) & (whole.start > now)).sum() for now in submitted.tolist()])
    for third in np.array_split(np.arange(len(jobs)), 3):
        now = int(submitted[third[lengths[third].argmax()]])
        known = np.flatnonzero(submitted <= now)
        there = jobs.chosen(known.tolist())
        expected = simulate(there, 64, policy).start
        alive = [index for index in known.tolist() if whole.start[index] <= now < end[index]]
        left = [index for index in known.tolist() if whole.start[index] > now]
        assert left, "somebody waits"
        began = tuple(int(whole.start[index]) for index in alive)
        chosen = jobs.chosen([*alive, *left])
        model = QueueModel(chosen, began, chosen.walltime[: len(alive)], now, 64, policy)
        found = model.run([int(whole.duration[index]) for index in (*alive, *left)])
        assert found.start[len(alive) :].tolist() == expected[left].tolist()


def test_easy_stands_in_for_the_cycle_of_pbs_only_where_both_decide_alike(jobs: Jobs) -> None:
    waits = [waiting(n, jobs.processors[n], jobs.walltime[n]) for n in range(200)]
    soft = [replace(job, soft_walltime=limit(job.submission) // 2 + 60) for job in waits]
    runtimes = jobs.runtime[:200]
    for formula in ("", "walltime"):
        plain = model_of(server(64, *waits, formula=formula)).model
        assert plain.policy.backfill == "easy"
        by_pbs = replace(plain, policy=replace(plain.policy, backfill="pbs"))
        assert plain.run(runtimes).start.tolist() == by_pbs.run(runtimes).start.tolist()
    assert model_of(server(64, *waits, backfill_depth=2)).model.policy.backfill == "pbs"
    assert model_of(server(64, *waits, backfill_depth=0)).model.policy.backfill == "none"
    mixed = model_of(server(64, *waits[:100], *(replace(job, soft_walltime=60) for job in waits[100:]))).model
    assert mixed.policy.backfill == "pbs", "classes of PBS ignore soft walltimes, EASY does not know classes"
    assert model_of(server(64, *soft)).model.policy.backfill == "easy"


def test_each_of_many_runs_is_the_run_alone(jobs: Jobs) -> None:
    waits = [waiting(n, jobs.processors[n], jobs.walltime[n], soft_walltime=60 * n or None) for n in range(100)]
    drawn = [jobs.runtime[number : number + 102] for number in range(3)]
    for formula in ("", "(eligible_time + 60) / predicted"):
        begun = running(200, 8, 3600, elapsed=600), running(201, 16, 7200, elapsed=900, soft_walltime=800)
        model = model_of(server(64, *begun, *waits, formula=formula)).model
        alone = [model.run(runtimes).start.tolist() for runtimes in drawn]
        assert [outcome.start.tolist() for outcome in model.runs(drawn)] == alone
        assert alone[0] != alone[1]


def test_a_running_job_that_outlived_its_soft_walltime_is_planned_as_pbs_does() -> None:
    snapshot = server(8, running(1, 8, 7200, elapsed=700, soft_walltime=600), waiting(2, 8, 600), waiting(3, 8, 400))
    model = model_of(snapshot).model
    outcome = model.run([1300, 600, 400])
    assert outcome.promise[1] == NOW + 500, "2 x 600 s after its start"
    assert (outcome.start[1:] - NOW).tolist() == [600, 1200]


def test_the_ranges_hold_the_middle_of_the_starts_and_depend_on_the_seed_alone() -> None:
    snapshot = server(8, running(1, 8, 3600, elapsed=600), waiting(2, 8, 600))
    spread = [RuntimeDistribution(np.arange(601.0, 1602.0), "even"), *exactly(600)]
    model = model_of(snapshot).model
    found = forecast(model, spread, runs=400, seed=1)
    low, lower, _, upper, high = (found.quantiles()[:, 0] - NOW).tolist()
    assert found.point[0] - NOW == pytest.approx(501, abs=2)
    assert (low, lower, upper, high) == pytest.approx((50, 250, 750, 950), abs=60)
    again, other = (forecast(model, spread, runs=400, seed=seed) for seed in (1, 2))
    assert np.array_equal(found.sampled, again.sampled)
    assert not np.array_equal(found.sampled, other.sampled)


def test_a_job_that_waits_for_the_end_of_a_dedicated_time_says_so() -> None:
    dedicated = AdvanceReservation(DEDICATED, NOW + 600, NOW + 4200, 8)
    queue = model_of(replace(server(8, waiting(1, 4, 900)), reservations=(dedicated,)))
    found = forecast(queue.model, exactly(60), runs=0)
    ends = local_time(NOW + 4200, NOW)
    assert waits_for(queue, found, 0) == f"first in the queue; dedicated time ends at {ends}"


def test_what_a_job_waits_for_is_one_sentence() -> None:
    snapshot = server(
        16, running(1, 8, 3600, elapsed=600), running(2, 4, 7200, elapsed=100), waiting(3, 16, 3600),
        waiting(4, 4, 7000), waiting(5, 4, 7200),
    )  # fmt: skip
    queue = model_of(snapshot)
    spread = exactly(1000, 1000, 50, 500, 60)
    spread[1] = RuntimeDistribution(np.array([900.0, 1000.0, 1100.0]), "some")
    found = forecast(queue.model, spread, runs=200)
    first, second, third = (waits_for(queue, found, index) for index in (2, 3, 4))
    assert first.startswith("first in the queue; 4 processors come free at ")
    assert "when 2.srv ends, by then with probability 5" in first
    assert second == "enough processors are free: starts at the next scheduling cycle"
    assert third.startswith("behind 1 job of queue q; 16 processors come free at ")
    assert third.endswith("when 3.srv ends")


def test_a_start_that_depends_on_a_job_without_a_walltime_is_forecast_from_past_ones_or_not_at_all() -> None:
    endless = running(1, 8, 0, elapsed=100)
    queue = model_of(server(16, endless, running(2, 4, 900, elapsed=0), waiting(3, 4, 60), waiting(4, 12, 60)))
    runtimes = RuntimeModel(None)
    found = list(expected_starts(queue, Learnt(runtimes), frozenset(("3.srv", "4.srv")), runs=5))
    assert [(one.job.submission.job_id, one.expected) for one in found] == [("3.srv", NOW), ("4.srv", None)]
    assert found[1].waits_for == (
        "its start depends on 1.srv, of unknown runtime: no walltime, and no past job without one is known"
    )
    for number in range(3):
        runtimes.ended(job("bob", runtime=2000, walltime=None, job_id=f"{number}.srv"))
    # Neither is the scheduler's assumption of 5 years a forecast by walltimes, of which corrections are made.
    for corrections in (Corrections(), Corrections((1.0, 0.0))):
        learnt = Learnt(runtimes, correct=lambda _, given=corrections: given)
        (found,) = expected_starts(queue, learnt, frozenset(("4.srv",)), runs=5)
        assert found.expected == NOW + 1900


def test_the_expected_start_is_as_likely_early_as_late_and_not_the_mean_of_a_long_tail() -> None:
    queue = model_of(server(16, running(1, 16, 100_000, elapsed=0), waiting(2, 16, 60)))
    runtimes = RuntimeModel(None)
    for number in range(20):
        runtimes.ended(job("bob", runtime=1 if number < 14 else 1000, walltime=1000, job_id=f"{number}.srv"))
    (found,) = expected_starts(queue, Learnt(runtimes), frozenset(("2.srv",)), runs=200)
    # The mean is about 30,000 s.
    assert found.expected is not None
    assert found.expected < NOW + 1000


def test_jobs_that_cannot_start_have_a_reason_in_place_of_a_forecast() -> None:
    queue = model_of(recorded())
    reasons = {each.job.submission.job_id: each.reason for each in queue.impossible}
    assert reasons["6.pbs1"] == "it is held by its user (Hold_Types = u) and cannot start before it is released"
    assert reasons["7.pbs1"].startswith("it waits for other jobs (afterok:3.pbs1@pbs1)")
    assert reasons["9.pbs1"] == "it needs 64 processors, the vnodes that are up have 16"
    assert [job.submission.job_id for job in queue.live] == [
        "1.pbs1", "2.pbs1", "3.pbs1", "4.pbs1", "5[2].pbs1", "5[3].pbs1", "5[4].pbs1", "8.pbs1",
    ]  # fmt: skip
    assert queue.remarks == ()
    found = forecast(queue.model, exactly(*(limit(job.submission) for job in queue.live)), runs=0)
    delayed = queue.model.jobs.submitted[-1]
    assert found.point[-1] == delayed == NOW + 27372
    assert "delayed until" in waits_for(queue, found, 7)


def test_queues_are_taken_by_priority_where_the_scheduler_does() -> None:
    snapshot = recorded()
    by_queue = replace(snapshot, scheduler=replace(snapshot.scheduler, by_queue=True))
    assert [job.submission.queue for job in model_of(by_queue).live[2:]] == ["short"] * 4 + ["long", "short"]


def test_a_shorter_probe_job_starts_sooner() -> None:
    snapshot = server(16, running(1, 8, 3600, elapsed=600), waiting(2, 16, 3600))
    found = {}
    for text in ("ncpus=8,walltime=50:00", "ncpus=8,walltime=51:00"):
        probe = probe_job(text, probe_of(text, "alice"), snapshot)
        found[text] = starts(snapshot, 2000, 3600, 60, probes=[probe])[-1]
    # 50 min fit before the walltime of job 1 ends, 51 min do not.
    assert found == {"ncpus=8,walltime=50:00": 0, "ncpus=8,walltime=51:00": 5000}


def test_the_ranges_of_many_jobs_are_those_of_one_reservation_and_that_is_said() -> None:
    jobs = [running(0, 8, 3600, elapsed=600), *(waiting(number, 4, 600) for number in range(1, 400))]
    queue = model_of(server(8, *jobs, backfill_depth=5))
    assert queue.model.policy.depth == 5
    assert queue.model.quick().policy.backfill == "easy"
    assert queue.remarks == ("ranges are those of one reservation in place of several, as there are many jobs",)
    assert model_of(server(8, *jobs[:20], backfill_depth=5)).remarks == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ncpus", "'ncpus' is not one of user"),
        ("cpus=4", "'cpus=4' is not one of user"),
        ("ncpus=4,ncpus=5", "each once"),
        ("ncpus=many", "not a whole number"),
        ("ncpus=0", "at least one processor"),
        ("walltime=soon", "not a duration"),
        ("queue=none", "no queue is called 'none'"),
        ("queue=short,walltime=3:00:00", "does not take a job with this walltime"),
    ],
)
def test_a_probe_job_that_cannot_be_understood_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        probe_job(text, probe_of(text, "alice"), recorded())


def test_a_probe_job_is_routed_and_gets_the_defaults_of_its_queue() -> None:
    snapshot = recorded()
    routed = {
        text: probe_job(text, probe_of(text, "alice"), snapshot).submission
        for text in ("ncpus=2", "walltime=3:00:00", "user=bob,queue=long,walltime=2:00:00")
    }
    assert [(each.queue, each.walltime, each.user) for each in routed.values()] == [
        ("short", 1800, "alice"), ("long", 10800, "alice"), ("long", 7200, "bob"),
    ]  # fmt: skip
