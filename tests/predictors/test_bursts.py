"""Recent jobs of each user: a burst counts as few, and users who stay away are forgotten."""

import pytest

from softwalltime.predict.predictors.learned.bursts import MAX_USER_JOBS, MAX_USERS, MEMORY_JOBS, RecentShare


def test_few_jobs_count_in_full_and_a_burst_as_few() -> None:
    recent = RecentShare()
    assert [recent.discount("alice", 1) for _ in range(int(MAX_USER_JOBS))] == [1.0] * int(MAX_USER_JOBS)
    counted = sum(recent.discount("alice", 1) for _ in range(2000))
    assert counted < 6 * MAX_USER_JOBS
    assert recent.discount("bob", 1) == 1.0
    for number in range(int(5 * MEMORY_JOBS)):
        recent.discount(f"user{number % 100}", 2 + number // 100)
    assert recent.discount("alice", 60) == 1.0


@pytest.mark.parametrize("users", [1, 3, 10])
def test_where_few_users_submit_all_jobs_each_of_these_counts(users: int) -> None:
    recent = RecentShare()
    found = [recent.discount(f"user{number % users}", number // 100) for number in range(20_000)]
    assert min(found[12_000:]) > 0.9
    assert recent.discount("rare", 200) == 1.0


def test_a_job_that_stands_for_three_counts_as_three() -> None:
    one, three = RecentShare(), RecentShare()
    for _ in range(900):
        found = one.discount("alice", 1)
    for _ in range(300):
        factor = three.discount("alice", 1, 3)
    assert factor == pytest.approx(found, rel=0.01)


def test_users_without_recent_jobs_are_forgotten() -> None:
    recent = RecentShare()
    for number in range(10 * MAX_USERS):
        recent.discount(f"user{number}", 1, 3)
    assert len(recent._jobs) <= MAX_USERS
