"""The sequence of a user's submissions, and the jobs at an earlier time: as a slow reference has them."""

from random import Random
from typing import Any

import numpy as np
import pytest

from softwalltime.predict.predictors.learned import sequence
from softwalltime.predict.predictors.learned.distribution import Floats
from softwalltime.predict.predictors.learned.sequence import Then
from softwalltime.predict.predictors.learned.user_jobs import (
    END,
    KEY,
    MIN_USER_JOBS,
    START,
    SUBMITTED,
    UserJobs,
    row_of,
)
from tests.samples import job

JOBS = 400
"""More than those that are kept in any case."""


def jobs_with_ties(chance: Random) -> UserJobs:
    """Jobs of one user, many at once and many of one second, in order of end."""
    found, end = UserJobs(), 0
    for number in range(JOBS):
        end += chance.choice((0, 0, 1, 5, 40))
        runtime = chance.choice((1, 20, 400, 3000))
        waited = chance.choice((0, 0, 3, 200, 1000))
        submission = job(
            job_id=f"{number}.srv", submitted=end - runtime - waited, walltime=chance.choice((3600, 7200))
        ).submission
        found.add(row_of(submission, end, end - runtime, 3.0, killed=False, share=number % 7), f"{number}.srv")
    return found


def ordered(columns: Floats, present: Floats, now: float) -> list[list[float]]:
    """Return times and keys of the submissions before ``now``; jobs that have ended come first of one second."""
    found = [*columns[[SUBMITTED, KEY]].T.tolist(), *present.tolist()]
    found = sorted((row for row in found if row[0] < now), key=lambda row: row[0])
    return [[row[0] for row in found], [row[1] for row in found]]


def known_then(jobs: UserJobs, now: int, end: int, without: str | None) -> Then:
    """Return what was known at a time."""
    columns, by_now = jobs.columns, int((jobs.columns[END] <= now).sum())
    first, last = max(by_now - MIN_USER_JOBS, 0), int((columns[END] <= end).sum())
    seen = [number for number in range(first, last) if jobs.ids[number] != without]
    others = [number for number in seen if columns[END, number] > now and columns[SUBMITTED, number] < now]
    running = sorted((n for n in others if columns[START, n] < now), key=lambda n: columns[START, n])
    waiting = len(others) - len(running)
    times, keys = map(np.array, ordered(columns[:, seen], sequence.NO_JOBS, now))
    return Then(columns[:, first:by_now], columns[:, running[-sequence.MAX_USER_RUNNING_JOBS :]], times, keys, waiting)


def test_submissions_are_ordered_alike() -> None:
    chance = Random(3)
    columns = jobs_with_ties(chance).columns
    for number in range(40):
        now = float(columns[END, chance.randrange(JOBS)])
        # Some of one second, with each other and with those that have ended.
        rows = [
            (chance.choice((now - 1, now, now + 5, float(columns[SUBMITTED, -1]), 10.0)), float(chance.randrange(3)))
            for _ in range(number % 6)
        ]
        present = np.array(sorted(rows)).reshape(-1, 2)
        expected = ordered(columns[:, -256:], present, now)
        found = sequence.submissions(columns[:, -256:], present, now)
        assert [part.tolist() for part in found] == expected
        assert (np.diff(found[0]) >= 0).all()
        assert (found[0] < now).all()


def test_an_earlier_time_is_seen_alike_without_the_job_itself() -> None:
    jobs = jobs_with_ties(Random(5))
    most_running = most_waiting = 0
    for number in range(20, JOBS, 7):
        end = int(jobs.columns[END, number])
        for place, without in ((SUBMITTED, None), (START, f"{number}.srv")):
            now = int(jobs.columns[place, number])
            expected = known_then(jobs, now, end, without)
            found = sequence.look_back(jobs, now, end, without)
            for name, one, other in zip(expected._fields, expected, found, strict=True):
                assert np.array_equal(one, other), name
            most_running, most_waiting = max(most_running, found.running.shape[1]), max(most_waiting, found.waiting)
    # The cases are not empty ones, and more jobs run than count.
    assert most_running == sequence.MAX_USER_RUNNING_JOBS
    assert most_waiting > 5


def test_a_job_that_was_submitted_by_a_clock_ahead_is_seen_alike() -> None:
    jobs = jobs_with_ties(Random(7))
    # By then more of the user's jobs have ended than are kept in any case.
    now, end = int(jobs.columns[END, -1]), int(jobs.columns[END, 20])
    expected = known_then(jobs, now, end, None)
    found = sequence.look_back(jobs, now, end, None)
    for name, one, other in zip(expected._fields, expected, found, strict=True):
        assert np.array_equal(one, other), name


@pytest.mark.parametrize("disorder", ["reversed", "random"])
def test_jobs_that_ended_in_another_order_are_ordered_alike(disorder: str) -> None:
    chance = Random(11)
    submitted = [100 + number // 2 for number in range(JOBS)]
    submitted.reverse() if disorder == "reversed" else chance.shuffle(submitted)
    jobs = UserJobs()
    for number, then in enumerate(submitted):
        submission = job(job_id=f"{number}.srv", submitted=then, walltime=chance.choice((3600, 7200))).submission
        jobs.add(row_of(submission, 5000 + number, 4000 + number), f"{number}.srv")
    columns, present = jobs.columns, np.array([(150.0, 1.0), (150.0, 2.0), (900.0, 3.0)])
    expected = ordered(columns, present, 800.0)
    found = sequence.submissions(columns, present, 800.0)
    assert [part.tolist() for part in found] == expected


def test_jobs_that_ended_in_the_reverse_order_take_few_steps_each() -> None:
    class Counted(np.ndarray[Any, Any]):
        writes = 0

        def __setitem__(self, place: Any, value: Any) -> None:
            Counted.writes += 1
            super().__setitem__(place, value)

    jobs = UserJobs()
    for number in range(JOBS):
        submission = job(job_id=f"{number}.srv", submitted=JOBS - number).submission
        jobs.add(row_of(submission, 5000 + number, 4000 + number), f"{number}.srv")
    times = np.empty(JOBS).view(Counted)
    sequence.order.function(jobs.columns, 0, JOBS, -1, 4000.0, np.empty((0, 2)), times, np.empty(JOBS))
    assert times.tolist() == list(range(1, JOBS + 1))
    assert Counted.writes < 40 * JOBS
