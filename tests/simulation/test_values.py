"""Values: what the scheduler plans with, by specification; predictors learn only what has ended."""

from dataclasses import replace

import numpy as np
import pytest

from softwalltime.core.errors import OptionError
from softwalltime.core.events import Event, Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.engine import Engine, check, simulate
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import Jobs, jobs_of
from softwalltime.measure.simulation.system_state import SystemState
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.predict.predictors.registry import make
from tests.samples import job


def system(jobs: Jobs, processors: int = 64, **policy: object) -> SystemState:
    made = Engine(jobs, Processors(processors, jobs.processors), SchedulerPolicy(**policy))  # type: ignore[arg-type]
    made.run()
    return made.system


def test_a_factor_is_rounded_up_and_clamped() -> None:
    workload = jobs_of([job(walltime=walltime, runtime=5, ncpus=1) for walltime in (1001, 70, 50)])
    assert system(workload, waiting="factor:0.5").values.waiting == [501, 60, 50]


def test_jobs_with_exclusive_placement_wait_with_their_walltime_as_in_production() -> None:
    workload = jobs_of([job(walltime=1000, runtime=5, ncpus=1, place=place) for place in ("excl", "pack:excl", "")])
    assert system(workload, waiting="factor:0.5").values.waiting == [1000, 500, 500]
    assert system(workload, waiting="factor:0.5", exclusive="waiting").values.waiting == [500] * 3
    assert system(workload, ordering="factor:0.2").values.ordering.tolist() == [200.0] * 3


def test_the_runtime_is_what_the_job_will_run() -> None:
    workload = jobs_of([job(walltime=1000, runtime=runtime, ncpus=1) for runtime in (300, 5, 2000)])
    assert system(workload, waiting="runtime").values.waiting == [300, 60, 1000]


def test_a_running_value_of_the_same_specification_is_the_waiting_value(jobs: Jobs) -> None:
    same = system(jobs, waiting="v1", running="v1").values
    assert same.running is same.waiting
    other = system(jobs, waiting="v1", running="v2").values
    assert other.running != other.waiting


def test_a_user_without_history_keeps_the_walltime() -> None:
    workload = jobs_of([job(user, submitted=time, walltime=1000, runtime=100, ncpus=1) for time, user in
                        ((0, "a"), (50, "a"), (200, "a"), (300, "b"))])  # fmt: skip
    assert system(workload, waiting="v1").values.waiting == [1000, 1000, 100, 1000]


def test_a_job_teaches_what_it_ran_in_the_simulation() -> None:
    # The first job ran 500 s as recorded, and is killed after 100 s here.
    workload = jobs_of(
        [job(submitted=time, walltime=walltime, runtime=500, ncpus=1) for time, walltime in ((0, 100), (1000, 900))]
    )
    assert system(workload, waiting="v1").values.waiting[1] == 100
    assert system(workload, waiting="v1", kill_at_walltime=False).values.waiting[1] == 500


def test_ordering_values_are_not_rounded() -> None:
    workload = jobs_of([job(walltime=1001, runtime=5, ncpus=1)])
    assert system(workload, ordering="factor:0.5").values.ordering[0] == 500.5


def test_on_an_idle_machine_the_values_are_those_of_the_replay(jobs: Jobs) -> None:
    # Without waits, jobs end when they ended in the event-order replay of the same jobs at their submission.
    huge = sum(jobs.processors)
    found = system(jobs, processors=huge, waiting="v3").values.waiting
    predictor = make("v3")
    ends = sorted((time + min(run, wall), index) for index, (time, run, wall) in enumerate(
        zip(jobs.submitted, jobs.runtime, jobs.walltime, strict=True)))  # fmt: skip
    expected = []
    for index, submitted in enumerate(jobs.submitted):
        while ends and ends[0][0] <= submitted:
            end, ended = ends.pop(0)
            record = jobs.completed[ended]
            run = min(record.runtime, jobs.walltime[ended])
            of = record.submission
            predictor.learn(job(of.user, runtime=run, walltime=jobs.walltime[ended], end=end, job_id=of.job_id))
        answer = predictor.predict(jobs.completed[index].submission, submitted)
        seconds = getattr(answer, "seconds", float("inf"))
        expected.append(min(jobs.walltime[index], max(60, int(np.ceil(min(seconds, 1e9))))))
    assert found == expected


def test_a_predictor_that_does_not_exist_is_named(jobs: Jobs) -> None:
    with pytest.raises(OptionError, match="no predictor is called 'v9'"):
        system(jobs, waiting="v9")


def test_live_values_include_what_was_learnt_since_submission() -> None:
    # The user's first job ends while the third waits; its value, and its place before the fourth, follow.
    workload = jobs_of(
        [
            job("a", submitted=0, walltime=9000, runtime=100, ncpus=1),
            job("b", submitted=0, walltime=4000, runtime=4000, ncpus=1),
            job("a", submitted=10, walltime=9000, runtime=100, ncpus=2),
        ]
    )
    assert system(workload, 2, waiting="v1").values.waiting[2] == 9000
    assert system(workload, 2, waiting="v1", live=600).values.waiting[2] == 100


def test_a_live_running_value_changes_the_planned_end() -> None:
    # The user's other job ends after 100 s; the running one is then planned to end when it has run as long.
    workload = jobs_of(
        [
            job("a", submitted=0, walltime=9000, runtime=100, ncpus=1),
            job("a", submitted=50, walltime=9000, runtime=900, ncpus=1),
            job("b", submitted=60, walltime=9000, runtime=10, ncpus=2),
        ]
    )
    still, live = (simulate(workload, 2, SchedulerPolicy(running="v1", live=live)) for live in (None, 60))
    assert still.extensions[1] == 0
    assert live.extensions[1] > 0


def test_live_values_of_a_predictor_that_learns_nothing_change_nothing(jobs: Jobs) -> None:
    plain, live = (simulate(jobs, 64, SchedulerPolicy(waiting="factor:0.5", live=live)) for live in (None, 3600))
    assert np.array_equal(plain.start, live.start)


class Listener(Predictor):
    """Records its notifications and requests."""

    name = "listener"
    summary = source = "a test"

    def __init__(self) -> None:
        super().__init__(Options())
        self.told: list[tuple[int, str, str]] = []

    def observe(self, event: Event) -> None:
        job_id = event.job.submission.job_id if event.kind == Kind.ENDED else event.submission.job_id
        self.told.append((event.time, event.kind.name, job_id))

    def learn(self, job: CompletedJob) -> None:
        self.told.append((job.end, "learn", job.submission.job_id))

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        self.told.append((now, "predict", submission.job_id))
        return NoPrediction(Reason.OTHER, ("a test",))


@pytest.mark.parametrize("asked", ["waiting", "running"])
def test_a_predictor_that_observes_is_told_after_it_was_asked_and_before_it_learns(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    monkeypatch.setattr("softwalltime.measure.simulation.planned_values.make", lambda spec: listener)
    workload = jobs_of(
        [job(submitted=time, walltime=100, runtime=50, ncpus=1, job_id=name) for time, name in ((0, "a"), (50, "b"))]
    )
    system(workload, 1, **{asked: "listener"})
    first, second = [
        [(time, word, name) for time, word, name in listener.told if name == which] for which in ("a", "b")
    ]
    submitted, started = ("SUBMITTED", "STARTED")
    words = ["predict", submitted, started] if asked == "waiting" else [submitted, "predict", started]
    for told, begin in ((first, 0), (second, 50)):
        name = told[0][2]
        assert told == [
            *((begin, word, name) for word in words), (begin + 50, "ENDED", name), (begin + 50, "learn", name),
        ]  # fmt: skip
    # At one instant, ends come before submissions.
    assert listener.told.index((50, "learn", "a")) < listener.told.index((50, submitted, "b"))


def test_a_job_is_killed_at_the_value_that_it_starts_with_if_the_policy_says_so() -> None:
    workload = jobs_of([job(walltime=1000, runtime=runtime, ncpus=1) for runtime in (300, 700, 2000)])

    def durations(**policy: object) -> list[int]:
        return system(workload, running="factor:0.5", **policy).duration

    assert durations() == [300, 700, 1000]
    assert durations(kill_at_estimate=True) == [300, 500, 500]
    assert durations(kill_at_walltime=False) == [300, 700, 2000]
    with pytest.raises(OptionError, match="live values do not go with kill_at_estimate"):
        check(SchedulerPolicy(kill_at_estimate=True, live=60))


def test_live_values_give_a_job_what_production_gives_it() -> None:
    # A shrink-to-fit job may have no soft walltime; the third job makes another pass while both run.
    workload = jobs_of(
        [
            job("a", submitted=0, walltime=3600, runtime=3000, ncpus=1, min_walltime=shrunk) for shrunk in (None, 600)
        ] + [job("b", submitted=10, walltime=3600, runtime=10, ncpus=2)]
    )  # fmt: skip
    for correction in ("pbs", "conditional"):
        found = system(workload, 2, running="factor:0.5", live=60, correction=correction)
        assert found.values.running[:2] == [1800, 3600]
        assert found.running.extensions[1] == 0


class Fitted(Listener):
    """Records when it is fitted."""

    name = "fitted"
    fit_seconds = 1

    def observe(self, event: Event) -> None:
        pass

    def fit(self, now: int) -> None:
        self.told.append((now, "fit", ""))


@pytest.mark.parametrize("asked", ["waiting", "running", "ordering"])
def test_a_predictor_is_fitted_at_the_events_at_which_a_replay_fits_it(
    asked: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Recorded without waits, so that the simulation on a huge machine has the events of the replay.
    records = [replace(each, start=None, end=each.submission.submitted + each.runtime) for each in jobs.completed]
    records = [each for each in records if each.runtime <= (each.submission.walltime or 0)]
    replayed = Fitted()
    drive(Workload(records), replayed)
    simulated = Fitted()
    monkeypatch.setattr("softwalltime.measure.simulation.planned_values.make", lambda spec: simulated)
    some = jobs_of(records)
    system(some, sum(some.processors), **{asked: "fitted"})
    expected = [time for time, word, _ in replayed.told if word == "fit"]
    assert len(expected) > len(some)
    assert [time for time, word, _ in simulated.told if word == "fit"] == expected


def test_live_values_ask_again_and_observe_a_submission_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    monkeypatch.setattr("softwalltime.measure.simulation.planned_values.make", lambda spec: listener)
    workload = jobs_of(
        [job(submitted=time, walltime=900, runtime=900, ncpus=1, job_id=name) for time, name in ((0, "a"), (1, "b"))]
    )
    system(workload, 1, waiting="listener", live=300)
    words = [word for _, word, name in listener.told if name == "b"]
    assert words.count("SUBMITTED") == 1
    # At its submission, after 300 and 600 s, and at 900 s before it starts.
    assert words.count("predict") == 4
