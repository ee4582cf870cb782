"""Levels by situation: what is learnt in one holds there, and changes no other."""

import math

import numpy as np
import pytest

from softwalltime.predict.predictors.learned.distribution import KNOTS, SIZE, Quantiles, remaining
from softwalltime.predict.predictors.learned.levels import FIRST_JOBS_LIMITS, RUNS_S, Situations

WALLTIME = 86_400.0


def untouched(situations: Situations) -> list[bool]:
    """Which levels are as at first: of submissions by the user's jobs, then of running jobs by what they ran."""
    submitted = [situations.submitted(jobs) for jobs in (*FIRST_JOBS_LIMITS, 1000)]
    running = [situations.running(elapsed, WALLTIME) for elapsed in (0.0, *RUNS_S, WALLTIME / 2)]
    return [levels.corrected_levels is KNOTS for levels in (*submitted, *running)]


@pytest.mark.parametrize(
    ("jobs", "place"), [(0, 0), (1, 1), (5, 1), (6, 2), (20, 2), (21, 3), (300, 3)], ids=lambda value: str(value)
)
def test_a_submission_is_corrected_by_those_of_users_with_as_many_jobs(jobs: int, place: int) -> None:
    situations = Situations()
    situations.submitted(jobs).learn(np.full(SIZE, 1 / SIZE), -1.0, WALLTIME, 1, 1.0)
    assert [number for number, same in enumerate(untouched(situations)) if not same] == [place]


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
