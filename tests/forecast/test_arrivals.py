"""Jobs that come later, drawn from those of the last weeks."""

from collections import Counter

import numpy as np
import pytest

from softwalltime.forecast.arrivals import DAY, WEEK, ArrivalModel
from softwalltime.forecast.later_jobs import extended
from softwalltime.forecast.queue_model import model_of
from softwalltime.forecast.runtimes import RuntimeDistribution
from softwalltime.forecast.start_times import forecast
from softwalltime.jobs import Submission
from tests.forecast.states import NOW, running, server, waiting
from tests.samples import job


def known(weeks: int, *, ncpus: int = 4, runtime: int = 600) -> ArrivalModel:
    """A site where bob submits three jobs of an hour at the same hour of each week, the last ones a week ago."""
    model = ArrivalModel()
    for week in range(weeks, 0, -1):
        for number in range(3):
            at = NOW - week * WEEK + 3600 + 60 * number
            ended = job("bob", submitted=at, walltime=3600, runtime=runtime, ncpus=ncpus, job_id=f"{week}.{number}")
            model.submitted(ended.submission, at)
            model.ended(ended)
    return model


def test_later_jobs_come_at_the_hour_of_the_week_at_which_they_came() -> None:
    draws = known(4).drawn_from(NOW)
    found = draws.draw(np.random.default_rng(1), 9 * DAY)
    # The same hour comes again after a week.
    assert [each.after for each in found] == [3600, 3660, 3720, WEEK + 3600, WEEK + 3660, WEEK + 3720]
    assert {each.runtime for each in found} == {600}
    assert len({each.submission.job_id.partition(".")[0] for each in found}) <= 2, "a day is drawn as a whole"
    assert draws.draw(np.random.default_rng(1), 3600) == []


def test_each_past_week_is_as_likely() -> None:
    draws, random = known(8).drawn_from(NOW), np.random.default_rng(2)
    weeks = Counter(draws.draw(random, DAY)[0].submission.job_id.partition(".")[0] for _ in range(400))
    assert sorted(weeks) == list("1234567")
    assert min(weeks.values()) > 30


def test_with_less_than_a_week_past_days_are_repeated_and_with_less_than_a_day_nothing_comes() -> None:
    model = ArrivalModel()
    for hour in (30, 20, 10):
        model.submitted(Submission(f"{hour}", "bob", NOW - 3600 * hour, 900, ncpus=1), NOW - 3600 * hour)
    found = model.drawn_from(NOW).draw(np.random.default_rng(0), DAY)
    assert [(each.after, each.submission.job_id) for each in found] == [(4 * 3600, "20"), (14 * 3600, "10")]
    assert model.drawn_from(NOW - 20 * 3600).periods == 0


def test_a_job_that_has_not_ended_uses_as_much_of_its_walltime_as_another() -> None:
    model = known(2, runtime=900)
    model.submitted(Submission("new", "bob", NOW - WEEK + 7200, 8000, ncpus=1), NOW - WEEK + 7200)
    found = model.drawn_from(NOW).draw(np.random.default_rng(0), DAY)
    assert {each.submission.job_id: each.runtime for each in found}["new"] == 2000


def test_nothing_later_than_the_moment_is_known() -> None:
    model = known(3)
    before = model.drawn_from(NOW)
    model.submitted(Submission("later", "bob", NOW + 10, 900, ncpus=1), NOW + 10)
    assert before.draw(np.random.default_rng(3), 30 * DAY) == model.drawn_from(NOW).draw(
        np.random.default_rng(3), 30 * DAY
    )


@pytest.mark.parametrize("settings", [{}, {"limits": (("max_run", "[u:PBS_GENERIC=9]"),)}, {"formula": "-walltime"}])
def test_jobs_that_come_later_delay_starts_by_backfilling_and_by_priority(settings: dict[str, object]) -> None:
    # Job 2 must wait for 8 processors; what comes later fits beside job 1 for an hour, and ends after job 1 does.
    snapshot = server(8, running(1, 4, 9000, elapsed=0), waiting(2, 8, 7200), **settings)
    queue = model_of(snapshot)
    distributions = [RuntimeDistribution(np.array([each]), "known") for each in (5000.0, 60.0)]
    alone = forecast(queue.model, distributions, runs=4)
    later = known(4, runtime=3000).drawn_from(NOW)
    found = forecast(queue.model, distributions, runs=4, later=later)
    assert (alone.sampled[:, 0] - NOW).tolist() == [5000] * 4
    assert found.point[0] == alone.point[0]
    # By formula the shorter jobs go first, one after the other.
    expected = 3600 + 120 + 2 * 3000 + 2880 if settings.get("formula") else 6600
    assert (found.sampled[:, 0] - NOW).tolist() == pytest.approx([expected] * 4, abs=3000)
    assert found.sampled[:, 0].min() > alone.sampled[:, 0].max()


def test_positions_of_the_waiting_jobs_are_kept_beside_delayed_ones() -> None:
    snapshot = server(8, waiting(1, 8, 60), waiting(2, 1, 60, execution_time=NOW + 9000))
    jobs = tuple(snapshot.jobs)
    delayed = type(jobs[1])(jobs[1].submission, "W", 2, execution_time=NOW + 9000)
    model = model_of(server(8, jobs[0], delayed)).model
    (joined,) = extended(model, [known(2).drawn_from(NOW).draw(np.random.default_rng(0), DAY)])
    assert joined.places.tolist() == [0, 4]
    assert list(joined.model.jobs.submitted) == sorted(joined.model.jobs.submitted)
    assert joined.runtimes.tolist() == [0, 600, 600, 600, 0]
