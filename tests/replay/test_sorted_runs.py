"""Jobs sorted in runs are the jobs sorted at once, each run of a job once, from any sources."""

from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import write_logs
from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay import parquet
from softwalltime.measure.replay import recorded_files as sorted_runs
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.recorded_files import machine_of_sorted
from softwalltime.measure.workloads.synthetic import generate
from tests.samples import job

# Few values, so that jobs are submitted at once and that several records describe a run.
JOBS = st.lists(
    st.builds(
        lambda job_id, server, **fields: replace(job(job_id=job_id, end=100, **fields), server=server),
        job_id=st.sampled_from(["1.srv", "2.srv", "3.srv"]),
        server=st.sampled_from(["srv", "srv", ""]),
        submitted=st.integers(1, 4),
        start=st.sampled_from([None, 5]),
        runtime=st.integers(0, 2),
    ),
    max_size=30,
)


@settings(max_examples=80)
@given(JOBS, st.sampled_from([1, 4, 5, 100]), st.sampled_from([1, 2, 3]), st.sampled_from([0, 3]))
def test_runs_merge_into_the_jobs_sorted_at_once(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], run_jobs: int, group: int, least: int
) -> None:
    once, repeated = JobColumns.of([known for known in jobs if known.submission.submitted >= least]).each_run_once()
    tally = Tally()

    def chosen(some: JobColumns) -> JobColumns:
        return JobColumns.of([known for known in some if known.submission.submitted >= least])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "RUN", run_jobs)
        patch.setattr(sorted_runs, "GROUP", group)
        runs = sorted_runs.sorted_runs(jobs, tmp_path_factory.mktemp("runs"), chosen)
        found = list(JobColumns.of(sorted_runs.merged(runs, tally)))
    assert found == sorted(once, key=lambda known: known.submission.submitted)
    assert tally.repeated == repeated


def test_export_of_files_and_logs_that_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, logs = generate(700, seed=5), tmp_path / "logs"
    write_logs(jobs[300:], logs, UTC)
    for name, some in (("old", jobs[400:]), ("sorted", jobs[:500])):
        with (tmp_path / f"{name}.parquet").open("wb") as stream:
            parquet.write_parquet(JobColumns.of(some).in_groups(90), stream, {})
    monkeypatch.setattr(sorted_runs, "RUN", 200)
    monkeypatch.setattr(parquet, "GROUP", 100)
    sources = [str(tmp_path / "old.parquet"), str(tmp_path / "sorted.parquet"), str(logs)]
    file = tmp_path / "all.parquet"
    assert run(["export", *sources, "-o", str(file)]) == 0
    assert machine_of_sorted(file) == 0
    assert list(read_jobs(file)) == jobs


def test_a_temporary_folder_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "RUN", 1)
    with pytest.raises(sorted_runs.SourceError, match=f"{tmp_path}/missing: the jobs cannot be sorted there.*TMPDIR"):
        sorted_runs.sorted_runs([job()], tmp_path / "missing", lambda jobs: jobs)
