"""The settings of the percentile predictor in one pass: the same as each setting by itself."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.percentile import PercentileOptions
from softwalltime.predictors.registry import make
from softwalltime.replay.fast_replay import drive
from softwalltime.replay.percentile_grid import drive_percentiles, soft_walltimes
from softwalltime.replay.workload import Scoring, Workload
from tests.samples import job, trace

DAY = 86400
THRESHOLDS = (None, 0.5)
KEYS = (("user",), ("project",), ("user", "project"), ("user", "project", "walltime"))


def spec(keys: tuple[str, ...], percentile: int, days: int, threshold: float | None) -> str:
    last = "" if threshold is None else f",threshold={threshold:g}"
    return f"percentile:p={percentile},keys={'+'.join(keys)},window={days}d{last}"


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
