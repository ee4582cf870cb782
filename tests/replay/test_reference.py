"""Recorded traces give the figures that were worked out independently of this code."""

from datetime import UTC
from pathlib import Path

import pytest

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import as_pbs, write_logs
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.accuracy_metrics import score
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.registry import make
from tests.samples import trace

# accuracy mean, median, underestimated, badly, not adjusted, mean absolute error
KTH = {
    "request": (0.473, 0.413, 0.0, 0.0, 1.0, 4818),
    "v1": (0.483, 0.439, 0.396, 0.188, 0.227, 5253),
    "v2": (0.438, 0.362, 0.226, 0.168, 0.515, 5302),
    "v3": (0.479, 0.419, 0.020, 0.010, 0.846, 4532),
    "v4": (0.479, 0.419, 0.019, 0.009, 0.847, 4526),
    "percentile": (0.522, 0.507, 0.080, 0.010, 0.570, 4378),
}


@pytest.fixture(scope="module")
def kth() -> list[CompletedJob]:
    tally = Tally()
    jobs = list(read_jobs([trace("KTH-SP2-1996")], tally))
    assert tally.malformed == 0
    return jobs


@pytest.mark.parametrize("spec", KTH)
def test_kth_sp2_gives_the_reference_figures(kth: list[CompletedJob], spec: str) -> None:
    workload = Workload(kth)
    figures = score(workload, drive(workload, make(spec)).soft_walltimes)
    assert figures.jobs == 28_481
    measured = (
        figures.accuracy_mean, figures.accuracy_median, figures.underestimated, figures.badly_underestimated,
        figures.not_adjusted,
    )  # fmt: skip
    # The reference has three digits; half of the last one, and a hair for figures that end in 5.
    assert measured == pytest.approx(KTH[spec][:5], abs=0.00055)
    assert figures.mean_absolute_error == pytest.approx(KTH[spec][5], abs=0.5)


def test_a_trace_written_as_accounting_logs_replays_alike(kth: list[CompletedJob], tmp_path: Path) -> None:
    write_logs((as_pbs(job, "kth") for job in kth[:8000]), tmp_path / "accounting", UTC)
    tally = Tally()
    from_logs = Workload(list(read_jobs(log_files(tmp_path / "accounting"), tally)))
    ran = Workload([job for job in kth[:8000] if job.start is not None])
    assert (tally.malformed, tally.unfinished) == (0, [])
    assert [job.submission.job_id.removesuffix(".kth") for job in from_logs.jobs] != []
    for spec in ("v1", "v3", "percentile"):
        by_id = {
            job.submission.job_id.partition(".")[0]: seconds
            for job, seconds in zip(from_logs.jobs, drive(from_logs, make(spec)).soft_walltimes.tolist(), strict=True)
        }
        assert by_id == {
            job.submission.job_id: seconds
            for job, seconds in zip(ran.jobs, drive(ran, make(spec)).soft_walltimes.tolist(), strict=True)
        }
