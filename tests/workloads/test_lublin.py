"""The draws follow the published model: its shares, its means, its day."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.measure.workloads import lublin

DRAWS = 100_000


@pytest.fixture
def random() -> np.random.RandomState:
    return np.random.RandomState(7)


def powers_of_two(sizes: np.ndarray) -> np.ndarray:
    return (sizes & (sizes - 1)) == 0


def test_serial_and_power_of_two_jobs_have_the_published_shares(random):
    sizes = lublin.draw_sizes(random, DRAWS)
    assert np.mean(sizes == 1) == pytest.approx(0.2927, abs=0.005)
    # The others, 3.87%, are rounded to any size, and only some of them to a power of two by chance.
    assert 0.2927 + 0.6686 <= np.mean(powers_of_two(sizes)) + 0.003 < 0.985


def test_parallel_sizes_are_two_stage_log_uniform(random):
    sizes = lublin.draw_sizes(random, DRAWS)
    exponents = np.log2(sizes[sizes > 1])
    # The mean that the authors give in m_lublin99.c: (Uprob Ulow + Umed + (1 - Uprob) Uhi) / 2.
    assert exponents.mean() == pytest.approx((0.875 * 1.2 + 5 + 0.125 * 7) / 2, abs=0.03)
    # Rounding moves half a step between the stages: half of the 32s belong to the upper stage.
    assert np.mean(exponents > 5.5) == pytest.approx(0.125 * 0.75, abs=0.01)


@given(processors=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
def test_no_job_is_larger_than_the_machine(processors, seed):
    sizes = lublin.draw_sizes(np.random.RandomState(seed), 50, processors)
    assert sizes.min() >= 1
    assert sizes.max() <= processors


@pytest.mark.parametrize(("size", "short"), [(1, 0.6956), (32, 0.6026), (128, 0.3146), (1000, 0.0)])
def test_log_runtimes_are_hyper_gamma_with_fewer_short_jobs_among_large_ones(random, size, short):
    logarithms = np.log(lublin.draw_runtimes(random, np.full(DRAWS, size)))
    mean = short * 6.57 * 0.823 + (1 - short) * 639.1 * 0.0156
    assert logarithms.mean() == pytest.approx(mean, abs=0.06)


def test_runtimes_are_between_a_second_and_two_days(random):
    runtimes = lublin.draw_runtimes(random, np.full(DRAWS, 1))
    assert runtimes.min() >= 1
    assert runtimes.max() <= math.exp(12)
    assert runtimes.dtype == np.int64


def test_log_gaps_are_gamma_and_no_gap_exceeds_five_days(random):
    gaps = lublin.draw_gaps(random, DRAWS)
    assert np.log(gaps).mean() == pytest.approx(6.0415 * 1.0519 * 0.8531, abs=0.05)
    assert gaps.max() <= math.exp(13)


def test_the_day_peaks_at_one_in_the_afternoon_and_is_quietest_before_five():
    cycle = lublin.daily_cycle()
    assert cycle.mean() == pytest.approx(1.0)
    assert cycle.argmax() / 2 == 13.0
    assert cycle.argmin() / 2 == 4.5
    assert cycle.max() / cycle.min() > 5


def test_the_gamma_distribution_is_right_where_it_is_known():
    exponential, erlang = lublin._gamma_cdf(3.0, 1.0, 2.0), lublin._gamma_cdf(3.0, 2.0, 1.0)
    assert exponential == pytest.approx(1 - math.exp(-1.5), rel=1e-12)
    assert erlang == pytest.approx(1 - 4 * math.exp(-3), rel=1e-12)


def test_arrivals_follow_the_weights_of_half_hours():
    """The closed form agrees with the walk through the day's half-hours that the paper describes."""
    cycle = lublin.daily_cycle()
    gaps = lublin.draw_gaps(np.random.RandomState(3), 300)
    expected, slot, fraction, day = [], 20, 0.0, 0
    for gap in gaps:
        points = gap / lublin.SLOT + fraction * cycle[slot]
        while points > cycle[slot]:
            points -= cycle[slot]
            slot += 1
            if slot == 48:
                slot, day = 0, day + 1
        fraction = points / cycle[slot]
        expected.append((day * 48 + slot + fraction) * lublin.SLOT - 10 * 3600)
    assert lublin.apply_daily_cycle(np.cumsum(gaps), 10 * 3600) == pytest.approx(expected, abs=1e-3)


@given(start=st.floats(0, 86_399), days=st.integers(0, 1000))
def test_whole_days_stay_whole_days(start, days):
    assert lublin.apply_daily_cycle(np.array([days * 86_400.0]), start)[0] == pytest.approx(days * 86_400, abs=1e-3)


def test_arrivals_stay_in_order():
    elapsed = np.cumsum(lublin.draw_gaps(np.random.RandomState(5), 5000))
    assert np.all(np.diff(lublin.apply_daily_cycle(elapsed)) >= 0)
