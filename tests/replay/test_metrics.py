"""The figures, each worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.measure.replay.accuracy_metrics import Scores, score
from softwalltime.measure.replay.workload import Workload
from tests.samples import job


def scores(*cases: tuple[int, int, int], warm_up: float = 0.0) -> Scores:
    """Of (runtime, walltime, soft walltime or -1)."""
    jobs = [job(submitted=n, runtime=runtime, walltime=walltime) for n, (runtime, walltime, _) in enumerate(cases)]
    return score(Workload(jobs), np.array([soft for *_, soft in cases], np.int64), warm_up)


def test_without_a_soft_walltime_the_walltime_is_what_counts() -> None:
    figures = scores((900, 3600, -1))
    assert figures == Scores(1, 0.25, 0.25, 0.0, 0.0, 0.0, 1.0, 2700.0, 0.0)


def test_an_overestimate_held() -> None:
    assert scores((900, 3600, 1200)) == Scores(1, 0.75, 0.75, 0.0, 0.0, 1.0, 0.0, 300.0, 0.0)


def test_an_underestimate_by_half_an_hour_is_not_yet_bad() -> None:
    assert scores((2000, 7200, 200)).badly_underestimated == 0
    assert scores((2001, 7200, 200)).badly_underestimated == 1
    assert scores((2000, 7200, 200)).underestimated == 1


@pytest.mark.parametrize(("runtime", "extensions"), [(99, 0), (100, 0), (101, 1), (200, 1), (201, 2), (1000, 9)])
def test_each_multiple_of_the_soft_walltime_that_is_outlived_is_an_extension(runtime: int, extensions: int) -> None:
    assert scores((runtime, 1000, 100)).extensions_mean == extensions


def test_a_job_killed_late_ran_its_walltime() -> None:
    assert scores((3650, 3600, -1)) == Scores(1, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def test_jobs_that_cannot_be_judged_are_left_out() -> None:
    assert scores((0, 3600, 60), (900, 3600, -1)) == scores((900, 3600, -1))


def test_the_warm_up_leaves_out_the_first_share_of_the_scored_jobs() -> None:
    cases = [(1, 1000, -1)] * 2 + [(0, 1000, -1)] * 50 + [(1000, 1000, -1)] * 198
    assert scores(*cases, warm_up=0.01).accuracy_mean == 1.0
    assert scores(*cases, warm_up=0.01).jobs == 198


def test_no_jobs_have_no_figures() -> None:
    assert scores() == Scores(0, *[None] * 8)


cases = st.integers(1, 10**6).flatmap(
    lambda walltime: st.tuples(st.integers(1, 2 * walltime), st.just(walltime), st.just(-1) | st.integers(1, walltime))
)


@given(st.lists(cases, min_size=1, max_size=30))
def test_shares_add_up_and_stay_between_0_and_1(many: list[tuple[int, int, int]]) -> None:
    figures = scores(*many)
    assert figures.underestimated is not None
    assert figures.over is not None
    assert figures.not_adjusted is not None
    assert figures.badly_underestimated is not None
    assert figures.underestimated + figures.over + figures.not_adjusted == pytest.approx(1)
    assert 0 <= figures.badly_underestimated <= figures.underestimated <= 1
    assert figures.accuracy_mean is not None
    assert 0 < figures.accuracy_mean <= 1
