"""The present jobs in order say what a search of all of them would."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.predict.predictors.learned.user_jobs import PresentJobs

STEP = st.tuples(
    st.sampled_from(("submit", "submit", "start", "leave")),
    st.integers(0, 12).map(lambda number: f"{number}.srv"),
    st.integers(0, 6).map(float),
)


@given(steps=st.lists(STEP, max_size=80), now=st.integers(0, 7).map(float), most=st.integers(1, 5))
def test_it_says_what_a_search_of_all_jobs_says(steps: list[tuple[str, str, float]], now: float, most: int) -> None:
    present, submitted, running = PresentJobs(), {}, {}
    for step, job_id, value in steps:
        if step == "submit":
            present.submit(job_id, value, value % 3)
            submitted[job_id] = (value, value % 3)
        elif step == "start":
            present.start(job_id, value, (0.0, value, value / 2))
            running[job_id] = (0.0, value, value / 2)
        else:
            present.leave(job_id)
            submitted.pop(job_id, None)
            running.pop(job_id, None)
    for own in ("0.srv", "unknown"):
        expected = sorted(submission for job_id, submission in submitted.items() if job_id != own)[-most:]
        assert present.submissions(most, without=own).tolist() == [list(row) for row in expected]
        rows = sorted(row for job_id, row in running.items() if job_id != own and row[1] < now)
        assert present.running(most, now, without=own) == (rows[-most:], len(rows))
    assert all(present.started(job_id) == row[1] for job_id, row in running.items())
    assert present.started("unknown") is None


@pytest.mark.parametrize("order", ["oldest first", "newest first", "any"])
def test_many_come_and_go(order: str) -> None:
    chance = Random(1)
    present, numbers = PresentJobs(), list(range(3000))
    for number in numbers:
        present.submit(f"{number}.srv", float(number), 1.0)
    if order != "oldest first":
        numbers.reverse() if order == "newest first" else chance.shuffle(numbers)
    for gone, number in enumerate(numbers, 1):
        present.leave(f"{number}.srv")
        present.submit(f"{number + 3000}.srv", float(number + 3000), 1.0)
        if gone % 500 == 0:
            expected = sorted([*numbers[gone:], *(number + 3000 for number in numbers[:gone])])
            assert present.submissions(9999, without="").T[0].tolist() == expected
    assert present.submissions(2, without="5999.srv").T[0].tolist() == [5997, 5998]
