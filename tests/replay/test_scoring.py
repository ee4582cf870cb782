"""Figures of the jobs of one period, and the published ones of one window."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.accuracy_metrics import score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import OTHER_DAYS, Scoring, Workload
from softwalltime.predict.predictors.registry import make
from tests.samples import job, trace

DAY = 86400


def error(workload: Workload, spec: str) -> float:
    found = score(workload, drive(workload, make(spec), 1).soft_walltimes).mean_absolute_error
    assert found is not None
    return found


def test_only_the_jobs_of_the_period_are_scored_and_all_teach() -> None:
    jobs = [job(job_id=str(day), submitted=day * DAY, runtime=100 + day) for day in range(10)]
    workload = Workload([*jobs, job(job_id="x", submitted=5 * DAY, runtime=0)], scoring=Scoring(4 * DAY, 6 * DAY))
    assert workload.submitted[workload.scored].tolist() == [4 * DAY, 5 * DAY]
    assert workload.skipped() == {OTHER_DAYS: 8, "never ran (no runtime)": 1}
    assert drive(workload, make("v1"), 1).soft_walltimes[4] == 103
    with_never_ran = Workload(workload.jobs, scoring=Scoring(4 * DAY, 6 * DAY, never_ran=True))
    assert int(with_never_ran.scored.sum()) == 3
    scores = score(with_never_ran, drive(with_never_ran, make("request")).soft_walltimes)
    assert (scores.jobs, scores.extensions_mean) == (3, 0.0)


@pytest.fixture(scope="module")
def curie() -> list[CompletedJob]:
    return list(read_jobs([trace("CEA-Curie")], Tally()))


PUBLISHED = Scoring(
    int(datetime(2012, 7, 25, tzinfo=UTC).timestamp()), int(datetime(2012, 8, 24, tzinfo=UTC).timestamp()), True
)


def test_the_published_window_of_cea_curie(curie: list[CompletedJob]) -> None:
    """Published: request 33,798 s, last2 5,905 s, signature median of 10 days 4,686 s; 45,366 jobs.

    ``softwalltime replay CEA-Curie-2011-2.1-cln.swf.gz --score 2012-07-25..2012-08-23 --never-ran``,
    here without the one job that has no walltime, and with runtimes capped at the walltime.  In the published last2 the
    jobs that never ran teach too, and a job that ends in the same second is not known yet: with both it gives 5,905 s.
    The published signature has the partition, which is not read, in place of the project.
    """
    workload = Workload(curie, scoring=PUBLISHED)
    assert int(workload.scored.sum()) == 45_365
    assert error(workload, "request") == pytest.approx(33_797, abs=1)
    assert error(workload, "last2") == pytest.approx(5_974, abs=1)
    # Of a window of ten days, what ended long before the period does not matter.
    june = int(datetime(2012, 6, 1, tzinfo=UTC).timestamp())
    recent = Workload([job for job in curie if job.end >= june], scoring=PUBLISHED)
    assert error(recent, "memorizer:window=10d,fallback=median") == pytest.approx(4_614, abs=1)
    ran = Workload(recent.jobs, scoring=replace(PUBLISHED, never_ran=False))
    assert int(ran.scored.sum()) == 42_225
    assert error(ran, "memorizer:window=10d,fallback=median") == pytest.approx(4_698, abs=1)
