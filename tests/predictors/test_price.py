"""The price of an underestimate: it holds the target, without overshooting when jobs become known late."""

import math
import pickle

import numpy as np
import pytest

from softwalltime.predict.predictors.learned.attention import best_bin
from softwalltime.predict.predictors.learned.distribution import REACHES, SIZE
from softwalltime.predict.predictors.learned.price import CELLS, LOWEST, WIDTH, Price, critical_cell


def cell_of(log_critical: float) -> int:
    return critical_cell(lambda log_price: log_price < log_critical)


@pytest.mark.parametrize("log_critical", [-100.0, LOWEST, -0.031, 0.52, 7.98, 100.0])
def test_the_cell_of_a_critical_price_holds_it(log_critical: float) -> None:
    expected = min(max(math.floor((log_critical - LOWEST) / WIDTH), 0), CELLS - 1)
    assert abs(cell_of(log_critical) - expected) <= (log_critical == LOWEST)


def test_above_the_critical_price_a_prediction_is_long_enough_and_below_it_is_not() -> None:
    random = np.random.default_rng(2)
    compared = 0
    for _ in range(200):
        shares, needed = random.dirichlet(np.full(SIZE, 0.05)), int(random.integers(0, REACHES))

        def bin_at(cell: int, shares: np.ndarray = shares) -> int:
            return best_bin(shares, math.exp(LOWEST + WIDTH * cell))

        cell = critical_cell(
            lambda log_price, shares=shares, needed=needed: best_bin(shares, math.exp(log_price)) < needed
        )
        if 0 < cell < CELLS - 1:
            compared += 1
            assert bin_at(cell) < needed <= bin_at(cell + 1)
    assert compared > 50


@pytest.mark.parametrize("target", [0.02, 0.1])
def test_it_holds_the_target_each_day_although_thousands_of_jobs_become_known_at_its_end(target: float) -> None:
    """The critical prices rise by a factor e in 30 days, and have another spread than before the first job."""
    random, price = np.random.default_rng(3), Price(target, 0.3)
    shares = []
    for day in range(50):
        logs = random.normal(min(day, 30) / 30 - 0.5, 1.2, 3000)
        missed = logs > price.log
        shares.append(missed.mean())
        for log_critical, late in zip(logs[::3], missed[::3], strict=True):
            price.add(day, cell_of(log_critical), bool(late), 3)
    assert max(shares[2:]) < 2 * target
    assert min(shares[2:]) > target / 3
    assert np.mean(shares) == pytest.approx(target, rel=0.2)


def test_jobs_that_stand_for_others_count_as_often_and_it_pickles() -> None:
    one, three = Price(0.05, 0.3), Price(0.05, 0.3)
    for number in range(1500):
        cell = cell_of(math.sin(number) * 2)
        three.add(number, cell, number % 20 == 0, 3)
        for _ in range(3):
            one.add(number, cell, number % 20 == 0)
    assert three.log == pytest.approx(one.log, abs=0.02)
    copy = pickle.loads(pickle.dumps(three))
    for each in (copy, three):
        each.add(1500, 300, True)
    assert copy.log == three.log


def test_without_jobs_the_first_price_holds_and_one_job_hardly_changes_it() -> None:
    price = Price(0.05, 0.3)
    assert price.log == 0.3
    price.add(10, cell_of(0.0), False)
    assert price.log == pytest.approx(0.3, abs=0.05)
    assert (price.log_at(9), price.log_at(10)) == (0.3, price.log)


def test_thousands_of_jobs_that_are_underestimated_at_no_price_lower_it_little() -> None:
    """After them the jobs are as before; all of these would be underestimated if the shorter memory counted in full."""
    random, price = np.random.default_rng(5), Price(0.05, 0.3)
    for day in range(30):
        for log_critical in random.normal(-0.5, 1.2, 400):
            price.add(day, cell_of(log_critical), bool(log_critical > price.log))
    before = price.log
    for _ in range(4000):
        price.add(30, 0, False)
    assert before - 1.2 < price.log < before
    assert np.mean(random.normal(-0.5, 1.2, 2000) > price.log) < 0.25


def test_the_later_price_makes_up_for_jobs_that_another_price_decided() -> None:
    """Of 4 in 10 jobs, which start at once, 8% are underestimated at the price of the submission."""
    shares = {}
    for gain in (0.0, 3.0):
        random, price = np.random.default_rng(7), Price(0.05, 0.3, gain)
        missed = []
        for number in range(40_000):
            if random.random() < 0.4:
                late = bool(random.random() < 0.08)
                price.count(late)
            else:
                log_critical = random.normal(-0.5, 1.2)
                late = bool(log_critical > price.log)
                price.add(number, cell_of(log_critical), late)
            missed.append(late)
        shares[gain] = float(np.mean(missed[10_000:]))
    assert shares[0.0] > 0.059
    assert shares[3.0] == pytest.approx(0.05, abs=0.006)
