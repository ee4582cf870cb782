"""Distributions of runtimes: from a predictor, from its past errors, from walltimes."""

from dataclasses import replace

import numpy as np
import pytest

from softwalltime.core.events import Event
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.measure.forecast.learning import learn_history, note_live
from softwalltime.measure.forecast.queue_model import UNLIMITED_WALLTIME_S
from softwalltime.measure.forecast.runtimes import MIN_ANSWERS, RuntimeDistribution, RuntimeModel, samples
from softwalltime.predict.predictors.base import Options, Predictor
from softwalltime.predict.predictors.registry import make
from tests.forecast.states import NOW, running, waiting
from tests.samples import job


def history(users: dict[str, list[int]], walltime: int = 10_000) -> list[CompletedJob]:
    """Jobs of each user, one after the other, with these runtimes."""
    found = []
    for user, runtimes in users.items():
        time = 0
        for number, runtime in enumerate(runtimes):
            found.append(
                job(
                    user,
                    submitted=time,
                    end=time + runtime,
                    runtime=runtime,
                    walltime=walltime,
                    job_id=f"{user}{number}",
                )
            )
            time += runtime + 1
    return found


def model(spec: str | None, jobs: list[CompletedJob]) -> RuntimeModel:
    found = RuntimeModel(None if spec is None else make(spec))
    assert learn_history(found, jobs, 10**9) == len(jobs)
    return found


def test_a_predictor_with_a_distribution_is_taken_at_its_word() -> None:
    jobs = history({"alice": [100 * n for n in range(1, 21)]})
    found = model("memorizer:keys=user", jobs).distribution(jobs[0].submission, 10_000, 10**5)
    assert found.values.tolist() == [100 * n for n in range(1, 21)]
    assert "median runtime of the 20 jobs" in found.basis


def test_a_single_number_gets_the_past_errors_of_the_predictor() -> None:
    jobs = history({"alice": [100, 300] * 20, "bob": [1000]})
    learnt = model("last2", jobs)
    found = learnt.distribution(jobs[0].submission, 10_000, 10**5)
    # 200 s is predicted, and the runtime is half of it or half as much again; of the second job 100 s were predicted.
    assert set(found.values.round().tolist()) == {100, 300, 600}
    assert found.basis.endswith("with the errors of the user's last 39 jobs")
    bob, carol = (
        learnt.distribution(replace(jobs[0].submission, user=user), 10_000, 10**5).basis for user in ("bob", "carol")
    )
    assert bob == "mean of the last 1 runtimes of user bob, with the errors of all users' last 39 jobs"
    assert carol == "shares of the walltime used by the last 41 jobs of all users"


def test_without_a_predictor_shares_of_the_walltime_count_and_without_jobs_the_walltime() -> None:
    jobs = history({"alice": [1000] * 10}, walltime=4000)
    submission = replace(jobs[0].submission, user="carol")
    assert model(None, jobs).distribution(submission, 8000, 10**5).median == 2000
    assert model("last2", []).distribution(submission, 8000, 0).values.tolist() == [8000]


def test_of_a_running_job_what_is_over_is_ruled_out_and_nothing_exceeds_the_walltime() -> None:
    jobs = history({"alice": [100 * n for n in range(1, 21)]})
    learnt = model("memorizer:keys=user", jobs)
    submission = jobs[0].submission
    assert learnt.distribution(submission, 10_000, 10**5, elapsed=1500).values.min() == 1600
    assert learnt.distribution(submission, 1200, 10**5).values.max() == 1200
    beyond = learnt.distribution(submission, 10_000, 10**5, elapsed=5000)
    assert beyond.values.min() > 5000
    assert beyond.values.max() <= 10_000
    over = learnt.distribution(submission, 1000, 10**5, elapsed=1005)
    assert over.median == 1006


def test_a_job_without_a_walltime_runs_like_past_jobs_without_one() -> None:
    jobs = history({"alice": [1000] * 20}) + [replace(each, submission=replace(each.submission, walltime=None))
        for each in history({"bob": [900] * 50})]  # fmt: skip
    submission = replace(jobs[0].submission, user="carol", walltime=None)
    for spec in (None, "calibrated:statistic=median"):
        found = model(spec, jobs).distribution(submission, UNLIMITED_WALLTIME_S, 10**6)
        assert (found.median, found.known) == (900, True)
        assert found.basis == "runtimes of the last 50 jobs without a walltime"
    longer = model(None, jobs).distribution(submission, UNLIMITED_WALLTIME_S, 10**6, elapsed=1000)
    assert not longer.known
    assert longer.basis == "no walltime, and it has run longer than jobs like it"
    assert not model(None, jobs[:20]).distribution(submission, UNLIMITED_WALLTIME_S, 10**6).known


class Counting(Predictor):
    """Counts how often it is asked."""

    name, summary, source = "counting", "none", "tests"

    def __init__(self, sample: tuple[float, ...]) -> None:
        super().__init__(Options())
        self.asked: list[str] = []
        self._sample = sample

    def learn(self, job: CompletedJob) -> None:
        pass

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction:
        self.asked.append(submission.job_id)
        return Prediction(50, "always the same", (), self._sample)


def test_predictors_are_asked_about_past_jobs_only_for_errors_that_are_kept() -> None:
    jobs = history({"alice": [100] * 1100, "bob": [100] * 10, "carol": [10_000] * 3})
    done: list[int] = []
    single, distribution = Counting(()), Counting((40, 50))
    for each in (single, distribution):
        learnt = RuntimeModel(each)
        assert learn_history(learnt, jobs, 10**9, progress=done.append) == len(jobs)
        note_live(learnt, [running(3, 1, 60, elapsed=10), waiting(4, 1, 60)])
    assert sum(done) == 2 * len(jobs)
    assert len(distribution.asked) == MIN_ANSWERS
    # The last 1,000 jobs that ended (two of carol among them), and the last 50 of each user.
    kept = {f"alice{number}" for number in range(102, 1100)} | {f"bob{number}" for number in range(10)}
    assert set(single.asked) == kept | {f"carol{number}" for number in range(3)}


class EitherWay(Counting):
    """Knows a distribution of alice's runtimes only."""

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction:
        if submission.user == "alice":
            return super().predict(submission, now, elapsed)
        return Prediction(200, "the middle")


def test_a_predictor_that_answers_either_way_keeps_its_errors() -> None:
    jobs = history({"alice": [100] * 300, "bob": [100, 300] * 30})
    learnt = RuntimeModel(EitherWay((40, 50)))
    assert learn_history(learnt, jobs, 10**9) == len(jobs)
    found = learnt.distribution(jobs[-1].submission, 10_000, 10**5)
    assert set(found.values.round()) == {100, 300}
    assert found.basis == "the middle, with the errors of the user's last 50 jobs"


class Observer(Predictor):
    """Keeps the events that it is told."""

    name, summary, source = "observer", "none", "tests"

    def __init__(self) -> None:
        super().__init__(Options())
        self.seen: list[tuple[str, int]] = []

    def learn(self, job: CompletedJob) -> None:
        self.seen.append(("learn", job.end))

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> NoPrediction:
        return NoPrediction(Reason.NO_COMPLETED_JOBS, (submission.user,))

    def observe(self, event: Event) -> None:
        self.seen.append((type(event).__name__, event.time))


def test_a_predictor_observes_what_happened_before_now_and_the_jobs_that_live() -> None:
    observer = Observer()
    model = RuntimeModel(observer)
    jobs = [
        job("alice", submitted=0, end=100, runtime=90),
        job("bob", submitted=50, end=900, runtime=800, job_id="2.srv"),
    ]
    assert learn_history(model, jobs, now=500) == 1
    note_live(model, [running(3, 1, 60, elapsed=10), waiting(4, 1, 60)])
    assert observer.seen == [
        ("Submitted", 0), ("Started", 10), ("Submitted", 50), ("Ended", 100), ("learn", 100), ("Started", 100),
        ("Submitted", NOW - 8997), ("Started", NOW - 10), ("Submitted", NOW - 8996),
    ]  # fmt: skip


def test_samples_have_the_distribution_and_jobs_of_one_user_go_together() -> None:
    even = RuntimeDistribution(np.arange(0.0, 1001.0), "even")
    found = samples([even] * 4, ["alice", "alice", "bob", "bob"], 4000, seed=7)
    assert np.quantile(found, [0.1, 0.5, 0.9], axis=0) == pytest.approx(
        np.repeat([[100], [500], [900]], 4, axis=1), abs=40
    )
    related = np.corrcoef(found.T)
    assert related[0, 1] > 0.35
    assert related[2, 3] > 0.35
    assert abs(related[0, 2]) < 0.1
