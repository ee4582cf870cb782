"""The settings of the percentile predictor in one pass: the same as each setting by itself."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.percentile import PercentileOptions
from softwalltime.predictors.registry import make
from softwalltime.replay.drive import drive
from softwalltime.replay.percentile_grid import drive_percentiles, soft_walltimes
from softwalltime.replay.workload import Scoring, Workload
from softwalltime.reports.analysis.settings import (
    KEYS,
    PERCENTILES,
    THRESHOLDS,
    WINDOWS,
    best_setting,
    different_keys,
    spec,
)
from softwalltime.reports.analysis.settings import evaluate_settings as grid
from softwalltime.reports.columns import make_columns
from tests.reports.fixtures import DAY, steady_jobs
from tests.samples import job, trace


def assert_equal_to_each_by_itself(workload: Workload, keys: tuple[str, ...], days: int) -> int:
    percentiles = (0, 50, 85, 99, 100)
    together = drive_percentiles(workload, PercentileOptions(keys=keys, window=days * DAY), percentiles)
    predicted = 0
    for (percentile, shares), threshold in product(zip(percentiles, together, strict=True), THRESHOLDS):
        alone = drive(workload, make(spec(keys, percentile, days, threshold))).soft_walltimes
        assert (soft_walltimes(workload, shares, threshold) == alone).all()
        predicted += int((alone >= 0).sum())
    return predicted


some_jobs = st.builds(
    job,
    st.sampled_from("ab"),
    submitted=st.integers(0, 20 * DAY),
    end=st.integers(0, 21 * DAY),
    runtime=st.integers(0, 2000),
    walltime=st.sampled_from([None, 30, 60, 61, 1000]),
    min_walltime=st.sampled_from([None, None, None, 10]),
)


@settings(max_examples=60)
@given(st.lists(some_jobs, min_size=12, max_size=80), st.sampled_from(KEYS))
def test_any_jobs_get_the_same_soft_walltimes(jobs: list[CompletedJob], keys: tuple[str, ...]) -> None:
    assert_equal_to_each_by_itself(Workload(jobs), keys, 7)


def test_jobs_that_are_not_scored_teach_too_and_those_that_never_ran_teach_nothing() -> None:
    jobs = [job(submitted=1000 * n, runtime=0 if n % 5 == 4 else 100 + n, job_id=str(n)) for n in range(40)]
    scoring = Scoring(since=30_000, never_ran=True)
    assert assert_equal_to_each_by_itself(Workload(jobs, scoring=scoring), ("user",), 7) > 100


@pytest.mark.parametrize("keys", KEYS, ids="+".join)
def test_a_recorded_trace_gets_the_same_soft_walltimes(keys: tuple[str, ...]) -> None:
    workload = Workload(list(read_jobs([trace("KTH")], Tally())), 6000)
    assert assert_equal_to_each_by_itself(workload, keys, 7) > 1000


def test_the_grid_holds_every_setting_once_and_tells_of_its_progress() -> None:
    workload = Workload(steady_jobs(400))
    told: list[int] = []
    found = grid(workload, make_columns(workload), progress=told.append)
    specs = [setting.halves.spec for setting in found]
    assert len(specs) == len(set(specs)) == len(KEYS) * len(WINDOWS) * len(PERCENTILES) * len(THRESHOLDS)
    assert sum(told) == len(KEYS) * len(WINDOWS) * 400
    chosen = best_setting(found, 0.2)
    assert chosen is not None
    alone = drive(workload, make(chosen.halves.spec)).soft_walltimes
    scored = np.flatnonzero(workload.scored)[4:]
    soft = np.where(alone >= 0, alone, workload.walltime)[scored]
    assert chosen.halves.whole.underestimated == pytest.approx((soft < workload.runtime[scored]).mean())
    assert best_setting(found, -0.1) is None


def test_projects_that_do_not_differ_are_not_tried_as_keys() -> None:
    assert different_keys(make_columns(Workload(steady_jobs(10, project="p")))) == (KEYS[0], KEYS[-1])
    assert different_keys(make_columns(Workload(steady_jobs(10)))) == KEYS
