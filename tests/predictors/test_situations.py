"""Levels by situation: what is learnt in one holds there, and changes no other."""

import math

import numpy as np
import pytest

from softwalltime.predict.predictors.learned.distribution import KNOTS, SIZE, STEPS, Quantiles, remaining
from softwalltime.predict.predictors.learned.levels import FIRST_JOBS_LIMITS, RUNS_S, WALLTIMES_S, Situations

WALLTIME, OTHER_WALLTIME = 86_400.0, 600.0


def untouched(situations: Situations) -> list[bool]:
    """Which levels are as at first: of submissions by the user's jobs, then of running jobs by what they ran."""
    submitted = [situations.submitted(jobs, OTHER_WALLTIME) for jobs in (*FIRST_JOBS_LIMITS, 1000)]
    running = [situations.running(elapsed, WALLTIME) for elapsed in (0.0, *RUNS_S, WALLTIME / 2)]
    return [levels.corrected_levels is KNOTS for levels in (*submitted, *running)]


@pytest.mark.parametrize(
    ("jobs", "place"), [(0, 0), (1, 1), (5, 1), (6, 2), (20, 2), (21, 3), (300, 3)], ids=lambda value: str(value)
)
def test_a_submission_is_corrected_by_those_of_users_with_as_many_jobs(jobs: int, place: int) -> None:
    situations = Situations()
    situations.submitted(jobs, WALLTIME).learn(np.full(SIZE, 1 / SIZE), -1.0, WALLTIME, 1, 1.0)
    assert [number for number, same in enumerate(untouched(situations)) if not same] == [place]


@pytest.mark.parametrize(("walltime", "place"), [(3600, 0), (3601, 1), (14_400, 1), (86_400, 2), (86_401, 3)])
def test_a_submission_is_corrected_by_those_of_other_users_with_like_walltimes(walltime: float, place: int) -> None:
    situations = Situations()
    situations.submitted(0, walltime).learn(np.full(SIZE, 1 / SIZE), -1.0, walltime, 1, 1.0)
    others = [situations.submitted(1000, limit).corrected_levels for limit in (*WALLTIMES_S, 1e6)]
    assert [number for number, levels in enumerate(others) if levels is not KNOTS] == [place]


def test_ranges_hold_their_share_for_each_kind_of_user_and_each_walltime() -> None:
    """Distributions are too narrow for a user's first jobs and too wide for long walltimes."""
    chance, situations = np.random.default_rng(1), Situations()
    shares = np.exp(-(((np.arange(SIZE) - SIZE / 2) / 20) ** 2) / 2)
    shares /= shares.sum()
    kinds = [(jobs, walltime) for jobs in (0, 1000) for walltime in (OTHER_WALLTIME, 2 * WALLTIME)]
    held: dict[tuple[int, float], list[tuple[bool, bool]]] = {kind: [] for kind in kinds}
    for number in range(10_000):
        jobs, walltime = kind = kinds[number % 4]
        width = (1.2 if jobs == 0 else 1.0) / (1.5 if walltime > WALLTIME else 1.0)
        log_share = -SIZE / 2 / STEPS + chance.normal(0, 20 / STEPS) * width
        levels = situations.submitted(jobs, walltime)
        if number >= 5000:
            values = Quantiles(shares, 0.0, levels.corrected_levels)
            held[kind].append(
                (values[100] <= math.exp(log_share) <= values[300], values[20] <= math.exp(log_share) <= values[380])
            )
        levels.learn(shares, log_share, walltime * 1e6, 6, 1.0)
    for kind in kinds:
        assert np.mean(held[kind], axis=0) == pytest.approx([0.5, 0.9], abs=0.05)


def test_a_job_that_ended_teaches_each_situation_that_it_ran_through() -> None:
    situations = Situations()
    situations.learn_running(np.full(SIZE, 1 / SIZE), math.log(700 / WALLTIME), WALLTIME, 1, 1.0)
    assert [not same for same in untouched(situations)] == [*[False] * 5, True, True, *[False] * 3]
    situations.learn_running(np.full(SIZE, 1 / SIZE), math.log(0.6), WALLTIME, 1, 1.0)
    assert [not same for same in untouched(situations)] == [*[False] * 5, *[True] * 5]


@pytest.mark.parametrize("elapsed", [600.0, WALLTIME / 2])
def test_ranges_of_running_jobs_hold_their_share_where_distributions_are_too_wide(elapsed: float) -> None:
    """All jobs look alike at their start; what the distribution does not know, those that run so long end soon."""
    chance, situations, held = np.random.default_rng(1), Situations(), []
    shares = np.full(SIZE, 1 / SIZE)
    for number in range(6000):
        runtime = elapsed * (1 + chance.exponential(0.5))
        if number >= 3000:
            levels = situations.running(elapsed, WALLTIME).corrected_levels
            values = Quantiles(remaining(shares, math.log(elapsed / WALLTIME)), elapsed / WALLTIME, levels)
            held.append(values[100] <= runtime / WALLTIME <= values[300])
        situations.learn_running(shares, math.log(min(runtime / WALLTIME, 1.0)), WALLTIME, 3, 1.0)
    assert np.mean(held) == pytest.approx(0.5, abs=0.06)
