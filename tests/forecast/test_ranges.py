"""The ranges of what-if hold what they promise, and users' jobs are as alike as those that have ended."""

import numpy as np
import pytest

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.forecast.comparison import FEWER_RUNS, range_of
from softwalltime.measure.forecast.learning import learn_history
from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.runtimes import USER_CORRELATION, RuntimeDistribution, RuntimeModel, samples
from softwalltime.measure.forecast.start_times import outcomes
from softwalltime.predict.predictors.registry import make
from tests.forecast.states import NOW, running, server, waiting
from tests.samples import job

PREDICTORS = ("factor:0.5", "calibrated:statistic=median")
"""One that predicts a number, and one that predicts a distribution."""


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_of_starts_whose_runtimes_are_drawn_as_predicted_nine_in_ten_are_in_the_range(correlation: float) -> None:
    users = [f"user{number % 3}" for number in range(12)]
    snapshot = server(
        8, running(0, 4, 3600, elapsed=0, user=users[0]), running(1, 4, 7200, elapsed=60, user=users[1]),
        *(waiting(number, (8, 4, 2)[number % 3], 1800, user=users[number]) for number in range(2, 12)),
    )  # fmt: skip
    model = model_of(snapshot).model
    predicted = [RuntimeDistribution(np.linspace(90, 1800, 50), "even")] * 12
    held = []
    for seed in range(150):
        drawn = samples(predicted, users, FEWER_RUNS + 1, seed, correlation)
        *draws, happened = (outcome.start[2:] for outcome in outcomes(model, drawn))
        low, high = range_of(np.array(draws))
        held.append(((low <= happened) & (happened <= high)).mean())
    # Of another kind of quantile the range would hold 81%.
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)


def history(alike: float, *, together: bool) -> list[CompletedJob]:
    """200 queues of five jobs of a user, submitted at once or each after the end of the one before."""
    random = np.random.default_rng(3)
    jobs = []
    for queue in range(200):
        common = random.standard_normal()
        for number in range(5):
            mixed = np.sqrt(alike) * common + np.sqrt(1 - alike) * random.standard_normal()
            runtime = round(1000 * np.exp(mixed / 3))
            submitted = NOW - 20_000_000 + 90_000 * queue + (0 if together else 15_000 * number)
            jobs.append(job(
                f"user{queue % 4}", job_id=f"{5 * queue + number}.srv", submitted=submitted, start=submitted,
                end=submitted + runtime, runtime=runtime, walltime=9000,
            ))  # fmt: skip
    return jobs


@pytest.mark.parametrize("spec", PREDICTORS)
@pytest.mark.parametrize("alike", [0.0, 0.7])
def test_the_correlation_of_users_jobs_is_that_of_past_jobs_that_were_in_the_queue_together(
    spec: str, alike: float
) -> None:
    model = RuntimeModel(make(spec))
    learn_history(model, history(alike, together=True), NOW, correlate=True)
    assert model.user_correlation == pytest.approx(alike, abs=0.15)


def test_without_such_jobs_and_where_it_is_not_asked_for_the_correlation_is_that_of_public_traces() -> None:
    for together, correlate in ((False, True), (True, False)):
        model = RuntimeModel(make("factor:0.5"))
        learn_history(model, history(0.0, together=together), NOW, correlate=correlate)
        assert model.user_correlation == USER_CORRELATION


def test_an_estimate_changes_no_prediction() -> None:
    distributions = []
    for correlate in (False, True):
        model = RuntimeModel(make(PREDICTORS[1]))
        learn_history(model, history(0.5, together=True), NOW, correlate=correlate)
        asked = waiting(1, 1, 9000, user="user1").submission
        distributions.append(model.distribution(asked, 9000, NOW).values.tolist())
    assert distributions[0] == distributions[1]
