"""The correction of quantiles: ranges hold their share of the jobs, and other quantiles have the least loss."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.predict.predictors.learned.distribution import (
    KNOTS,
    MIDDLE,
    REACHES,
    SIZE,
    STEPS,
    Floats,
    Quantiles,
    bin_of,
    logs_at,
)
from softwalltime.predict.predictors.learned.levels import Levels, LevelShift
from tests.predictors.distributions import masses

WALLTIME = 1e9
"""Long, such that all bins are longer than a second."""


def log_share_of(found: int) -> float:
    """The middle of a bin, or the walltime."""
    return (found - REACHES + 0.5 * (found < REACHES)) / STEPS


@given(st.lists(st.tuples(masses, st.integers(0, REACHES)), min_size=1, max_size=5), st.floats(1, 1e9))
def test_levels_ascend_from_0_to_1(jobs: object, walltime: float) -> None:
    assert isinstance(jobs, list)
    levels = Levels(LevelShift())
    for shares, found in jobs:
        levels.learn((shares + 1e-6) / (shares + 1e-6).sum(), (found - REACHES) / STEPS, walltime, 3, 1.0)
        assert levels.corrected_levels[0] == 0
        assert levels.corrected_levels[-1] == 1
        assert (np.diff(levels.corrected_levels) >= 0).all()
        assert len(levels.corrected_levels) == len(KNOTS)


def test_ranges_hold_their_share_where_jobs_reach_their_walltime() -> None:
    """A distribution that is too wide, and jobs that reach their walltime in one of three cases."""
    chance = np.random.default_rng(1)
    shares = np.full(SIZE, 1 / SIZE)
    levels, held = Levels(LevelShift()), []
    for number in range(12_000):
        found = REACHES if chance.random() < 0.3 else int(chance.integers(SIZE // 3, SIZE // 2))
        if number >= 6000:
            values = Quantiles(shares, 0.0, levels.corrected_levels)
            low, least = (values[int(q * len(values))] for q in (0.25, 0.05))
            high, most = (values[int(q * len(values)) - 1] for q in (0.75, 0.95))
            held.append((low <= MIDDLE[found] <= high, least <= MIDDLE[found] <= most))
        levels.learn(shares, log_share_of(found), WALLTIME, 15, 1.0)
    assert np.mean(held, axis=0) == pytest.approx([0.5, 0.9], abs=0.06)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_quantiles_have_nearly_the_least_loss_that_levels_can_give(width: float) -> None:
    """Half of the jobs reach their walltime often, the others never; the distributions are too narrow or too wide.

    The second kind alone decides about the quantile 0.95, because that of the first is the walltime.
    """
    chance = np.random.default_rng(2)
    bins = np.arange(SIZE)
    kinds = [np.exp(-(((bins - middle) / (20 * width)) ** 2) / 2) for middle in (150, 120)]
    kinds = [kind / kind.sum() for kind in kinds]
    kinds[0] *= 0.7
    kinds[0][REACHES] += 0.3
    levels, seen, asked = Levels(LevelShift()), [], []
    for number in range(9000):
        kind = number % 2
        reaches = kind == 0 and chance.random() < 0.3
        found = REACHES if reaches else min(round(chance.normal((150, 120)[kind], 20)), REACHES - 1)
        log_share = log_share_of(found)
        if number >= 5000:
            asked.append(np.interp((0.1, 0.5, 0.95), KNOTS, levels.corrected_levels))
            seen.append((kind, log_share))
        levels.learn(kinds[kind], log_share, WALLTIME, 3, 1.0)
    below = [kind.cumsum() for kind in kinds]
    kind, logs = (np.array(each) for each in zip(*seen, strict=True))
    for place, share in enumerate((0.1, 0.5, 0.95)):

        def loss(of_job: Floats, share: float = share) -> float:
            quantile = np.where(kind == 0, logs_at(below[0], of_job), logs_at(below[1], of_job))
            over = np.exp(logs) - np.exp(quantile)
            return float(np.maximum(share * over, (share - 1) * over).mean())

        fixed = [loss(np.full(len(logs), level)) for level in np.linspace(0.005, 0.995, 199)]
        assert loss(np.array(asked)[:, place]) < 1.03 * min(fixed)


def test_a_job_of_a_burst_counts_in_ranges_and_not_in_losses() -> None:
    levels = Levels(LevelShift())
    for _ in range(1000):
        levels.learn(np.full(SIZE, 1 / SIZE), log_share_of(SIZE // 20), WALLTIME, 3, 0.0)
    by_loss, range_ends = [0.1, 0.5, 0.95], [0.05, 0.25, 0.75]
    assert np.interp(by_loss, KNOTS, levels.corrected_levels).tolist() == by_loss
    assert (np.interp(range_ends, KNOTS, levels.corrected_levels) < range_ends).all()


@pytest.mark.parametrize(("weighted", "moved"), [(False, 1.0), (True, 0.1)])
def test_a_job_of_a_burst_moves_a_weighted_correction_less(weighted: bool, moved: float) -> None:
    shares, ends = np.full(SIZE, 1 / SIZE), [0.05, 0.25, 0.75]
    alone, of_burst = (Levels(LevelShift(weighted=weighted)) for _ in range(2))
    alone.learn(shares, -1.0, WALLTIME, 1, 1.0)
    of_burst.learn(shares, -1.0, WALLTIME, 1, 0.1)
    by_alone, by_burst = (np.interp(ends, KNOTS, each.corrected_levels) - ends for each in (alone, of_burst))
    assert by_burst == pytest.approx(moved * by_alone)
    assert by_alone.all()


def test_one_job_of_years_does_not_stop_the_learning_of_the_others() -> None:
    """The usual width follows it by one step of at most a few times the width."""
    chance, shares = np.random.default_rng(3), np.full(SIZE, 1 / SIZE)
    plain, disturbed = Levels(LevelShift()), Levels(LevelShift())
    for number in range(3000):
        log_share = log_share_of(bin_of(float(chance.normal(-3, 0.5))))
        plain.learn(shares, log_share, WALLTIME, 3, 1.0)
        disturbed.learn(shares, log_share, WALLTIME * (1e6 if number == 1000 else 1), 3, 1.0)
    assert disturbed.corrected_levels == pytest.approx(plain.corrected_levels, abs=0.01)


def test_the_range_of_half_of_the_jobs_holds_half_of_the_runtimes_in_whole_seconds() -> None:
    """A range of few seconds holds many runtimes at its ends."""
    chance, levels, held = np.random.default_rng(1), Levels(LevelShift()), []
    shares = np.zeros(SIZE)
    shares[bin_of(-math.log(1000)) : bin_of(-math.log(50))] = 1.0
    shares /= shares.sum()
    for number in range(6000):
        runtime = round(math.exp(chance.uniform(0, math.log(20))))
        if number >= 3000:
            values = Quantiles(shares, 0.0, levels.corrected_levels)
            held.append(values[100] * 1000.0 - 0.5 <= runtime <= values[300] * 1000.0 + 0.5)
        levels.learn(shares, math.log(runtime / 1000.0), 1000.0, 3, 1.0)
    assert np.mean(held) == pytest.approx(0.5, abs=0.05)
