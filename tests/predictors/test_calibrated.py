"""The calibrated predictor: its target, its distribution, what it rests on, and the same answers after a restart."""

from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Ended, Kind, Started, Submitted
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.calibrated import Calibrated, CalibratedOptions
from softwalltime.predict.predictors.learned.attention import best_bin
from softwalltime.predict.predictors.learned.distribution import (
    MIDDLE,
    REACHES,
    SIZE,
    UPPER,
    Quantiles,
    bin_of,
    remaining,
    seconds_of,
)
from softwalltime.predict.predictors.learned.features import Estimate, Known
from softwalltime.predict.predictors.learned.network import untrained
from softwalltime.predict.predictors.learned.price import least_error_bin
from softwalltime.predict.predictors.registry import make
from tests.predictors.distributions import kaplan_meier, masses
from tests.samples import job, trace

DAY = 86400
"""Seconds."""


def taught(spec: str, jobs: list[CompletedJob]) -> Predictor:
    model = make(spec)
    for each in sorted(jobs, key=lambda completed: completed.end):
        model.learn(each)
    return model


def predicted(model: Predictor, now: int, elapsed: int = 0, **asked: object) -> Prediction:
    answer = model.predict(job(**asked).submission, now, elapsed)
    assert isinstance(answer, Prediction)
    return answer


def history(count: int = 300) -> list[CompletedJob]:
    chance = Random(5)
    runtimes = [int(100 * (1 + n % 3) * chance.uniform(0.8, 1.2)) for n in range(count)]
    asked = {"walltime": 3600, "ncpus": 4, "queue": "q"}
    return [
        job(f"user{n % 3}", job_id=f"{n}.srv", submitted=n * 600, runtime=runtime, **asked)
        for n, runtime in enumerate(runtimes)
    ]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_bin_holds_the_runtimes_up_to_the_seconds_that_stand_for_it(runtime: int, walltime: int) -> None:
    runtime = min(runtime, walltime)
    place = bin_of(np.log(runtime) - np.log(walltime))
    assert (place == REACHES) == (runtime == walltime)
    # The logarithms may put a runtime at the end of a bin into the next one.
    assert runtime <= seconds_of(place, walltime) + 1 + 1e-9 * walltime


@given(masses, masses)
def test_the_estimate_is_a_distribution_and_censored_jobs_move_it_up(ended: object, censored: object) -> None:
    assert isinstance(ended, np.ndarray)
    assert isinstance(censored, np.ndarray)
    plain, moved = kaplan_meier(ended, np.zeros(SIZE)), kaplan_meier(ended, censored)
    for shares in (plain, moved):
        assert shares.min() >= -1e-12
        assert shares.sum() == pytest.approx(1)
    assert (moved.cumsum() <= plain.cumsum() + 1e-9).all()


def test_the_estimate_is_kaplan_and_meiers() -> None:
    # Ends at 1, 3 and 4, censored at 2: of those at risk at 3, half end there.
    ended, censored = np.zeros(SIZE), np.zeros(SIZE)
    ended[[1, 3, 4]] = 1
    censored[2] = 1
    assert kaplan_meier(ended, censored)[[1, 2, 3, 4]] == pytest.approx([0.25, 0, 0.375, 0.375])


@given(masses, st.floats(0, 5))
def test_the_best_bin_has_the_highest_expected_utility(shares: object, price: float) -> None:
    assert isinstance(shares, np.ndarray)
    shares = (shares + 1e-3) / (shares + 1e-3).sum()
    accuracy = np.minimum(UPPER[:, None], MIDDLE) / np.maximum(UPPER[:, None], MIDDLE)
    tail = 1 - shares.cumsum()
    utility = accuracy @ shares - price * tail
    assert utility[best_bin(shares, price)] == pytest.approx(utility.max(), abs=1e-9)


@given(masses, st.floats(0, 5))
def test_the_least_error_bin_has_the_least_expected_loss(shares: object, price: float) -> None:
    assert isinstance(shares, np.ndarray)
    shares = (shares + 1e-3) / (shares + 1e-3).sum()
    loss = np.abs(UPPER[:, None] - MIDDLE) @ shares + price * (1 - shares.cumsum())
    assert loss[least_error_bin(shares, price)] == pytest.approx(loss.min(), abs=1e-9)


@given(masses, st.floats(0, 0.99))
def test_quantiles_ascend_and_lie_beyond_what_the_job_has_run(shares: object, elapsed: float) -> None:
    assert isinstance(shares, np.ndarray)
    shares = (shares + 1e-6) / (shares + 1e-6).sum()
    left = remaining(shares, np.log(max(elapsed, 1e-9)))
    assert left.sum() == pytest.approx(1)
    values = list(Quantiles(left, elapsed))
    assert values == sorted(values)
    assert elapsed <= values[0]
    assert values[-1] <= 1


def test_a_higher_target_gives_shorter_predictions_and_less_than_the_target_is_underestimated() -> None:
    workload = Workload(generate(4000, seed=3))
    shares = {}
    lengths = {}
    for target in (0.05, 0.15):
        result = drive(workload, make(f"calibrated:target={target}"), 1)
        p = np.where(result.soft_walltimes < 0, workload.walltime, result.soft_walltimes)
        late = workload.scored & (np.arange(len(p)) > 1000)
        shares[target] = float((p < np.minimum(workload.runtime, workload.walltime))[late].mean())
        lengths[target] = float(p[late].mean())
    assert shares[0.05] == pytest.approx(0.05, abs=0.02)
    assert shares[0.15] == pytest.approx(0.15, abs=0.04)
    assert lengths[0.15] < lengths[0.05]


def test_each_objective_has_the_best_figure_of_its_own_at_the_target() -> None:
    workload = Workload(list(read_jobs([trace("KTH")], Tally())), 6000)
    late = workload.scored & (np.arange(6000) > 1500)
    t = np.minimum(workload.runtime, workload.walltime)[late]
    figures = {}
    for objective in ("accuracy", "absolute-error"):
        result = drive(workload, make(f"calibrated:objective={objective}"), 1)
        p = np.where(result.soft_walltimes < 0, workload.walltime, result.soft_walltimes)[late]
        assert float((p < t).mean()) == pytest.approx(0.05, abs=0.01)
        error = np.abs(p - t)
        accuracy = np.minimum(p, t) / np.maximum(p, t)
        figures[objective] = (1 - accuracy.mean(), error.mean())
    for place, objective in enumerate(figures):
        assert min(figures, key=lambda name: figures[name][place]) == objective


def test_the_statistics_are_those_of_the_distribution() -> None:
    jobs = history()
    answers = {
        spec: predicted(taught(spec, jobs), 200_000, user="user1", walltime=3600, ncpus=4, queue="q")
        for spec in ("calibrated:statistic=mean", "calibrated:statistic=median", "calibrated:statistic=quantile,q=0.8")
    }
    mean, median, quantile = answers.values()
    assert mean.seconds == pytest.approx(mean.mean, rel=0.03)
    assert median.seconds == median.quantile(0.5)
    assert quantile.seconds == quantile.quantile(0.8)
    assert 150 < median.seconds < 250
    assert median.seconds < quantile.seconds


def test_a_running_job_runs_longer_than_it_has_run() -> None:
    model = taught("calibrated", history())
    for elapsed in (1, 100, 250, 3599, 3600, 5000):
        answer = predicted(model, 200_000, elapsed, user="user1", walltime=3600, ncpus=4, queue="q")
        assert answer.seconds >= elapsed
        assert answer.quantile(0) > elapsed


def test_it_names_the_jobs_that_it_rests_on() -> None:
    jobs = [*history(), job("user1", job_id="last.srv", submitted=190_000, walltime=3600, ncpus=4, queue="q")]
    basis = predicted(taught("calibrated", jobs), 200_000, user="user1", walltime=3600, ncpus=4, queue="q").basis
    assert "past jobs of the user (last.srv " in basis
    assert "half of such jobs run " in basis
    unknown = predicted(taught("calibrated", jobs), 200_000, user="nobody", walltime=3600)
    assert unknown.basis.startswith("no past jobs of the user; half of")


def test_a_job_killed_at_its_walltime_ran_at_least_so_long() -> None:
    jobs = [each for each in history() if each.submission.user == "user1"]
    killed = [replace(each, runtime=3600, end=each.end + 3600, exit_status=-29) for each in jobs]
    asked = {"user": "user1", "walltime": 7200, "ncpus": 4, "queue": "q"}
    finished = [replace(each, exit_status=0) for each in killed]

    def seconds(ended: list[CompletedJob]) -> float:
        # The trained weights take a kill for a sign of other things too.
        model = Calibrated(CalibratedOptions(statistic="quantile", q=0.3), untrained())
        for each in ended:
            model.learn(each)
        return predicted(model, 400_000, **asked).seconds

    assert seconds(killed) > seconds(finished)


def test_running_jobs_count_as_long_as_they_run() -> None:
    model = taught("calibrated:statistic=median", history())
    asked = {"user": "user1", "walltime": 3600, "ncpus": 4, "queue": "q"}
    before = predicted(model, 200_000, **asked)
    running = [job(job_id=f"r{n}.srv", submitted=197_000, runtime=2900, end=200_100, **asked) for n in range(20)]
    for each in running:
        model.observe(Submitted(197_000, each.submission))
        model.observe(Started(197_200, each.submission))
    meanwhile = predicted(model, 200_000, **asked)
    assert meanwhile.seconds > before.seconds
    assert " and 20 running" in meanwhile.basis
    for each in running:
        model.observe(Ended(200_000, each))
    assert predicted(model, 200_000, **asked) == before


def test_after_a_restart_the_answers_are_the_same() -> None:
    """A daemon that answered, learnt and observed as jobs came, and one that learns the history and what runs."""
    workload = Workload(generate(3000, seed=11))
    lived = make("calibrated")
    middle = int(workload.submitted[2500])
    open_jobs = {}
    for stride in workload.stream(everything=True):
        for kind, number, each, now, _ in zip(*stride, strict=True):
            if now >= middle:
                continue
            event = event_of(kind, now, each)
            if isinstance(event, Submitted):
                lived.predict(each.submission, event.time)
            lived.observe(event)
            if isinstance(event, Submitted | Started):
                open_jobs.setdefault(number, []).append(event)
            else:
                open_jobs.pop(number, None)
            if isinstance(event, Ended) and workload.teaches[number]:
                lived.learn(each)
    restarted = make("calibrated")
    for number in workload.ends():
        if workload.ended[number] < middle and workload.teaches[number]:
            restarted.learn(workload.jobs[int(number)])
    for events in open_jobs.values():
        for event in events:
            restarted.observe(event)
    asked = [workload.jobs[number].submission for number in range(2500, 2800)]
    assert open_jobs
    assert [restarted.predict(each, middle) for each in asked] == [lived.predict(each, middle) for each in asked]


def test_a_job_that_adjusts_the_price_knows_of_others_that_ran_with_it_and_ended_later() -> None:
    """Jobs that ended within half a day after it: later ones may become known after the adjustment."""

    class Recorder(Calibrated):
        found: ClassVar[list[Known]] = []

        def _estimate(self, known: Known) -> Estimate:
            self.found.append(known)
            return super()._estimate(known)

    predictor = Recorder(CalibratedOptions())
    for hours in (1, 2, 8, 12, 14, 20):
        end = DAY + hours * 3600
        predictor.learn(
            job(submitted=DAY - hours, end=end, runtime=end - DAY - 100, walltime=DAY, job_id=f"{hours}.srv")
        )
    predictor.learn(job("bob", submitted=end, end=DAY + 3600 + DAY, job_id="last.srv"))
    # Of the first job to end, submitted after all others: 3 of them ended less than half a day after it.
    assert [(len(known.submitted), known.waiting) for known in Recorder.found] == [(3, 3), (3, 3)]


def test_without_walltime_there_is_no_prediction() -> None:
    answer = taught("calibrated", history()).predict(job(walltime=None).submission, 200_000)
    assert isinstance(answer, NoPrediction)
    assert answer.basis == "the job has no walltime"


def test_a_burst_of_one_user_hardly_moves_the_quantiles_of_others() -> None:
    """2,000 jobs that die at once after 1,000 that did not: the median of the other users stays."""
    chance = Random(1)
    model = make("calibrated:statistic=median")
    for number in range(1000):
        runtime = chance.randint(100, 2000)
        model.learn(
            job(f"user{number % 20}", submitted=number * 3600, end=number * 3600 + 3000, runtime=runtime, walltime=3600)
        )
    asked = {"user": "user1", "walltime": 3600, "submitted": 5_000_000}
    before = predicted(model, 5_000_000, **asked).seconds
    for number in range(2000):
        model.learn(job(submitted=3_600_000, end=3_700_000 + number, runtime=1, walltime=3600, job_id=f"burst{number}"))
    for number in range(2000):
        model.learn(
            job("late", submitted=3_800_000, end=3_900_000 + number, runtime=3599, walltime=3600, job_id=f"{number}")
        )
    assert predicted(model, 5_000_000, **asked).seconds == pytest.approx(before, rel=0.2)


def test_it_is_as_accurate_on_kth_sp2_as_documented() -> None:
    workload = Workload(list(read_jobs([trace("KTH")], Tally())), 9000)
    model = make("calibrated")
    bounds, submitted, started = np.zeros((9000, 4)), np.zeros(9000), np.zeros(9000)
    for stride in workload.stream(everything=True):
        for kind, number, each, now, _ in zip(*stride, strict=True):
            if kind in (Kind.SUBMITTED, Kind.STARTED):
                answer = model.predict(each.submission, now)
                seconds = soft_walltime(answer, each.submission, 1) or each.submission.walltime or 0
                (submitted if kind == Kind.SUBMITTED else started)[number] = seconds
                if kind == Kind.SUBMITTED and isinstance(answer, Prediction):
                    bounds[number] = answer.quantiles([0.05, 0.25, 0.75, 0.95])
            model.observe(event_of(kind, now, each))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(each)
    chosen = workload.scored & (workload.submitted >= workload.submitted[0] + 30 * DAY)
    t, bounds = np.minimum(workload.runtime, workload.walltime)[chosen], bounds[chosen].T
    accuracies = []
    for p in (submitted[chosen], started[chosen]):
        assert float((p < t).mean()) == pytest.approx(0.05, abs=0.008)
        accuracies.append(float((np.minimum(p, t) / np.maximum(p, t)).mean()))
    assert accuracies[0] > 0.5
    # At the start more jobs of the user have ended, and a price of its own keeps the target.
    assert accuracies[1] > accuracies[0] + 0.01
    least, low, high, most = bounds
    assert float(((low - 0.5 <= t) & (t <= high + 0.5)).mean()) == pytest.approx(0.5, abs=0.05)
    assert float(((least - 0.5 <= t) & (t <= most + 0.5)).mean()) == pytest.approx(0.9, abs=0.04)


def test_a_job_whose_project_was_forgotten_meanwhile_adjusts_the_price_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("softwalltime.predict.predictors.calibrated.MAX_PROJECT_KEYS", 4)
    predictor = make("calibrated")
    for number in range(10):
        predictor.learn(job(end=100 + number, runtime=5, walltime=3600 + number, job_id=f"{number}.srv"))
    for day in range(2, 12):
        predictor.learn(job(end=86400 * day, runtime=5, walltime=60, job_id=f"later{day}.srv"))
    assert isinstance(predictor.predict(job(walltime=60).submission, 86400 * 12), Prediction)


def test_a_job_that_starts_at_or_after_its_end_adjusts_no_price_of_later_answers() -> None:
    predictor = make("calibrated")
    for number in range(9):
        end = 86400 * (number + 1)
        predictor.learn(
            replace(job(submitted=end - 500, end=end, runtime=5, job_id=f"{number}.srv"), start=end + number % 2)
        )
    assert isinstance(predictor.predict(job(walltime=60).submission, 86400 * 12), Prediction)


def test_running_jobs_count_in_order_of_their_start_whatever_became_known_first() -> None:
    answers = []
    for order in (1, -1):
        predictor = make("calibrated:statistic=mean")
        predictor.learn(job(end=10, runtime=5, walltime=36_000))
        for number in range(100)[::order]:
            predictor.observe(Started(1000 + number, job(walltime=36_000, job_id=f"{number}.srv").submission))
        answers.append(predictor.predict(job(walltime=36_000, job_id="x.srv").submission, 20_000))
    assert answers[0].seconds == answers[1].seconds


def test_the_price_does_not_fall_without_limit_for_a_user_with_thousands_of_jobs_a_day() -> None:
    """Each job adjusts the price a day after its end, when thousands of others have ended since its submission."""
    random, predictor = Random(1), make("calibrated:target=0.1")
    running: list[tuple[int, int, CompletedJob]] = []
    under = []
    for number in range(9000):
        now = number * 30
        while running and running[0][0] <= now:
            predictor.learn(heappop(running)[2])
        runtime = int(random.lognormvariate(6, 0.3))
        ended = job(submitted=now, end=now + runtime, runtime=runtime, walltime=7200, job_id=f"{number}.srv")
        heappush(running, (ended.end, number, ended))
        if number >= 6000:
            under.append(predictor.predict(ended.submission, now).seconds < runtime)
    # 0.21; 0.6 if a job that adjusts the price is estimated from what is left of the history a day later.
    assert sum(under) / len(under) < 0.3
