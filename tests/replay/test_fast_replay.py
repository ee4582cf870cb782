"""The fast replay: what predictors are told and asked, when, and that every decision is the policy's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.measure.replay.fast_replay import drive, drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.decide import decide
from softwalltime.predict.policy.site import KEEP, WALLTIME, JobPolicy
from softwalltime.predict.predictors.registry import make
from tests.samples import job
from tests.spy import Entry, ObservingSpy, Spy, assert_nothing_was_known_early, registered


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(generate(3000, seed=7))


@pytest.mark.parametrize("spy", [Spy, ObservingSpy])
def test_a_predictor_knows_exactly_what_has_ended_when_it_is_asked(spy: type[Spy]) -> None:
    jobs = [job(job_id=str(n), submitted=n // 3 * 50, end=n // 3 * 50 + n % 7 * 25, runtime=10) for n in range(300)]
    workload, waiting, running = Workload(jobs), spy(), spy()
    drive(workload, waiting, running=running)
    for each in (waiting, running):
        assert_nothing_was_known_early(each.entries, workload)
        assert len(each.learnt) == len(jobs)
    asked = [(entry.job_id, entry.time) for entry in waiting.entries if entry.did == "predict"]
    assert asked == [(each.submission.job_id, each.submission.submitted) for each in workload.jobs]
    asked_at_start = {(entry.job_id, entry.time) for entry in running.entries if entry.did == "predict"}
    assert asked_at_start == {(each.submission.job_id, int(t)) for each, t in zip(jobs, workload.started, strict=True)}


def test_one_predictor_for_both_is_taught_once() -> None:
    spy = Spy()
    drive(Workload([job(submitted=0, end=200, runtime=100)]), spy, running=spy)
    assert spy.entries == [Entry("predict", "1.srv", 0), Entry("predict", "1.srv", 100), Entry("learn", "1.srv", 200)]


def test_a_predictor_that_observes_sees_the_life_of_every_job_after_it_is_asked() -> None:
    spy = ObservingSpy()
    never = CompletedJob(job(job_id="gone", submitted=20).submission, "srv", None, 30, 0, exit_status=-1)
    rerun = job(job_id="rerun", submitted=250, end=400, exit_status=-11)
    drive(Workload([job(job_id="ran", submitted=0, end=200, runtime=100), never, rerun]), spy)
    assert spy.entries == [
        Entry("predict", "ran", 0), Entry("Submitted", "ran", 0),
        Entry("predict", "gone", 20), Entry("Submitted", "gone", 20), Entry("Deleted", "gone", 30),
        Entry("Started", "ran", 100), Entry("Ended", "ran", 200), Entry("learn", "ran", 200),
        Entry("predict", "rerun", 250), Entry("Submitted", "rerun", 250), Entry("Started", "rerun", 300),
        Entry("Ended", "rerun", 400),
    ]  # fmt: skip


def test_a_record_with_impossible_times_teaches_nothing_before_it_is_asked() -> None:
    spy = Spy()
    early = job(job_id="early", submitted=100, end=50, runtime=10)
    at_once = job(job_id="at-once", submitted=300, end=400, runtime=10)
    jobs = [early, CompletedJob(at_once.submission, "srv", 400, 400, 10)]
    drive(Workload(jobs), spy, running=spy)
    assert [entry[:2] for entry in spy.entries] == [
        (did, each.submission.job_id) for each in jobs for did in ("predict", "predict", "learn")
    ]


@pytest.mark.parametrize("waiting", ["v1", "v3", "percentile:keys=user", "factor:0.5", "request"])
@pytest.mark.parametrize("running", [WALLTIME, KEEP, "v2", "same"])
def test_every_soft_walltime_is_the_decision_of_the_policy(workload: Workload, waiting: str, running: str) -> None:
    running = waiting if running == "same" else running
    found = drive_specs(workload, [waiting], running)[waiting]
    predictors = {spec: make(spec) for spec in {waiting, running} - {WALLTIME, KEEP}}
    terms, has, now = JobPolicy("on", waiting, running, 60), [None] * len(workload.jobs), 0

    def predict(spec: str, submission: Submission) -> Prediction | NoPrediction:
        return predictors[spec].predict(submission, now)

    at_submission = list(has)
    for stride in workload.stream(everything=True):
        for kind, number, each, time, _ in zip(*stride, strict=True):
            now = time
            assert each == workload.jobs[number]
            if kind == Kind.ENDED and workload.teaches[number]:
                for predictor in predictors.values():
                    predictor.learn(each)
            elif kind in (Kind.SUBMITTED, Kind.STARTED):
                decision = decide(terms, kind, each.submission, has[number], predict)
                if decision.action == "set":
                    has[number] = decision.soft_walltime
                if kind == Kind.SUBMITTED:
                    at_submission[number] = has[number]
    assert found.soft_walltimes.tolist() == [-1 if value is None else value for value in at_submission]
    running_now = np.array([-1 if value is None else value for value in has])
    running_now[(running_now == workload.walltime) | (workload.started < 0)] = -1
    assert found.at_start.tolist() == running_now.tolist()
    if waiting not in ("request",):
        assert (found.soft_walltimes >= 0).sum() > 100


def test_all_jobs_count_as_progress_once(workload: Workload) -> None:
    for running in (WALLTIME, "v3"):
        told: list[int] = []
        drive_specs(workload, ["v1", "v2"], running, progress=told.append)
        assert sum(told) == 2 * len(workload.jobs)


class Unfitted(Spy):
    """Is fitted and learns nothing by it, which takes it off the fast path."""

    def fit(self, now: int) -> None:
        pass


RECORDED = st.builds(
    lambda submitted, waited, **fields: job(submitted=submitted, end=submitted + waited + fields["runtime"], **fields),
    submitted=st.integers(0, 300),
    waited=st.integers(-20, 200),
    runtime=st.integers(0, 200),
    walltime=st.sampled_from([None, 0, 60, 101, 103, 3600]),
    min_walltime=st.sampled_from([None, None, None, 10]),
    start=st.sampled_from([None, 50, 250]),
    exit_status=st.sampled_from([0, 0, 0, 1, -1, -11, 271]),
)


@given(st.lists(RECORDED, max_size=12), st.sampled_from([WALLTIME, KEEP]), st.sampled_from([1, 60, 102]))
def test_the_fast_path_asks_teaches_and_decides_as_the_driver_does(
    jobs: list[CompletedJob], running: str, minimum: int
) -> None:
    workload = Workload([replace(recorded, submission=replace(recorded.submission, job_id=f"{n}.srv"))
                         for n, recorded in enumerate(jobs)])  # fmt: skip
    fast, driven = Spy(), Unfitted()
    expected = drive(workload, driven, minimum, running=running)
    result = drive(workload, fast, minimum, running=running)
    assert result.soft_walltimes.tolist() == expected.soft_walltimes.tolist()
    assert result.at_start.tolist() == expected.at_start.tolist()
    # The fast path also asks for jobs that get no soft walltime by their walltimes.
    limited = {known.submission.job_id for known in workload.jobs if known.submission.walltime}
    shrunk = {known.submission.job_id for known in workload.jobs if known.submission.min_walltime is not None}

    def entries(spy: Spy) -> list[Entry]:
        return [entry for entry in spy.entries if entry.did == "learn" or entry.job_id in limited - shrunk]

    assert entries(fast) == entries(driven)


class Trained(Spy):
    """Is fitted every 100 s."""

    fit_seconds = 100

    def fit(self, now: int) -> None:
        self.entries.append(Entry("fit", "", now))


def test_a_predictor_is_fitted_by_the_time_of_the_events_before_it_is_asked() -> None:
    spy = Trained()
    jobs = [job(job_id=str(n), submitted=at, end=at + 30, runtime=10) for n, at in enumerate((0, 50, 130, 500))]
    drive(Workload(jobs), spy)
    fits = [(number, entry.time) for number, entry in enumerate(spy.entries) if entry.did == "fit"]
    assert [time for _, time in fits] == [0, 130, 500]
    assert all(spy.entries[number + 1].did == "predict" for number, _ in fits)


def test_the_simulator_too_tells_a_predictor_exactly_what_has_ended_when_it_asks() -> None:
    jobs = [
        job(job_id=str(n), submitted=n * 10, end=n * 10 + 200, runtime=50 + n % 7 * 30, walltime=400, ncpus=1 + n % 3)
        for n in range(200)
    ]
    Spy.instances.clear()
    with registered(ObservingSpy):
        outcome = simulate(jobs_of(jobs), 4, SchedulerPolicy(waiting="observing-spy", running="observing-spy"))
    (spy,) = [each for each in Spy.instances if each.entries]
    ended = {str(n): int(outcome.start[n] + outcome.duration[n]) for n in range(len(jobs))}
    learnt: dict[str, int] = {}
    for did, job_id, time in spy.entries:
        if did == "learn":
            assert time == ended[job_id]
            learnt[job_id] = time
        elif did == "predict":
            assert learnt == {known: end for known, end in ended.items() if end <= time}
    assert len(learnt) == len(jobs)
    assert {entry.did for entry in spy.entries} == {"predict", "learn", "Submitted", "Started", "Ended"}
