"""How many users are often underestimated by chance: bursts of known outcomes, and users that differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.measure.benchmark.chance import bursts_of, users_above_by_chance


def test_a_burst_ends_when_its_first_job_has_ended() -> None:
    user = np.array([1, 2, 1, 1, 1, 2])
    submitted = np.array([0, 1, 5, 9, 10, 99])
    ended = np.array([50, 100, 10, 60, 70, 101])
    assert bursts_of(user, submitted, ended).tolist() == [0, 1, 0, 0, 2, 1]


def test_independent_jobs_give_the_binomial_share_and_bursts_more() -> None:
    random, user = np.random.default_rng(2), np.repeat(np.arange(200), 65)
    alone = users_above_by_chance(random.random(13_000) < 0.05, user, np.arange(13_000), 50)
    # The probability of 7 or more of 65 jobs at 5%.
    assert alone == pytest.approx(0.043, abs=0.01)
    burst = np.arange(13_000) // 13
    clustered = users_above_by_chance((random.random(1000) < 0.05)[burst], user, burst, 50)
    # At least one of five bursts.
    assert clustered == pytest.approx(1 - 0.95**5, abs=0.03)


def test_users_who_are_always_underestimated_are_no_chance() -> None:
    user = np.tile(np.arange(20), 100)
    found = users_above_by_chance(user == 0, user, np.arange(2000), 50)
    assert found is not None
    assert found < 0.03
    assert users_above_by_chance(user == 0, user, np.arange(2000), 101) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), min_size=1, max_size=60))
def test_it_is_a_share_and_the_same_each_time(jobs: list[tuple[int, int, bool]]) -> None:
    user, length, marked = (np.array(column) for column in zip(*jobs, strict=True))
    begin = np.arange(len(jobs))
    burst = bursts_of(user, begin, begin + length + 1)
    assert set(np.diff(np.unique(burst))) <= {1}
    assert all(len(set(user[burst == number].tolist())) == 1 for number in burst.tolist())
    found = users_above_by_chance(marked, user, burst, 1)
    assert found is not None
    assert 0 <= found <= 1
    assert found == users_above_by_chance(marked, user, burst, 1)
