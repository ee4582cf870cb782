"""Users ask for few, round, sufficient walltimes, and for the same again."""

import numpy as np
import pytest

from softwalltime.measure.workloads import estimates, lublin

HOUR = 3600


@pytest.fixture
def random() -> np.random.RandomState:
    return np.random.RandomState(11)


@pytest.fixture
def expected(random) -> np.ndarray:
    return lublin.draw_runtimes(random, lublin.draw_sizes(random, 20_000))


def test_twenty_values_cover_89_percent_and_the_first_a_fifth():
    shares = estimates.popularities()
    assert len(set(estimates.POPULAR)) == len(shares) == 20
    assert shares.sum() == pytest.approx(0.89)
    assert shares[0] == pytest.approx(0.217, abs=0.001)
    assert np.all(np.diff(shares) < 0)


def test_no_value_exceeds_the_maximum_and_the_maximum_is_the_most_popular():
    assert estimates.POPULAR[0] == max(estimates.POPULAR) == estimates.MAXIMUM == 48 * HOUR


def test_requests_suffice_and_most_are_popular(random, expected):
    requests = estimates.draw_requests(random, expected, np.full(len(expected), 1.5))
    assert np.all(requests >= expected)
    assert requests.max() <= estimates.MAXIMUM
    assert np.mean(np.isin(requests, estimates.POPULAR)) >= 0.87
    assert np.all(requests % 300 == 0)


def test_a_larger_margin_gives_larger_requests(random, expected):
    means = [
        estimates.draw_requests(random, expected, np.full(len(expected), margin)).mean() for margin in (1.0, 2.0, 5.0)
    ]
    assert means == sorted(means)


def test_among_equally_close_values_the_more_popular_is_chosen_more_often(random):
    wish = np.full(20_000, int(np.sqrt(16 * 18) * HOUR))
    requests = estimates.draw_requests(random, wish // 2, np.full(20_000, 2.0))
    assert np.sum(requests == 24 * HOUR) > np.sum(requests == 16 * HOUR) > 0
    assert np.sum(requests == 12 * HOUR) > np.sum(requests == 10 * HOUR) > 0


@pytest.mark.parametrize(
    ("expected", "request_"), [(1, 300), (300, 300), (301, 600), (4 * HOUR + 1, 5 * HOUR), (48 * HOUR, 48 * HOUR)]
)
def test_the_least_request_is_the_next_popular_value(expected, request_):
    assert estimates.shortest_requests(np.array([expected])).tolist() == [request_]


def test_a_user_keeps_a_request_until_it_is_too_short_or_far_too_long():
    expected = np.array([1000, 3000, 5000, 700, 500])
    fresh = np.array([3600, 9999, 7200, 9999, 600])
    kept = estimates.repeat_requests(np.zeros(5, dtype=np.int64), expected, fresh)
    # 5000 s no longer fit into an hour; 7200 s are more than twelve times 500 s.
    assert kept.tolist() == [3600, 3600, 7200, 7200, 600]


def test_requests_of_users_are_independent():
    kept = estimates.repeat_requests(np.array([1, 2, 1]), np.array([100, 100, 100]), np.array([300, 600, 900]))
    assert kept.tolist() == [300, 600, 300]
