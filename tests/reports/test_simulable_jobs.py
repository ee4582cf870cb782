"""What is simulated of a file is what is simulated of the same jobs in memory, however many parts it is read in."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Recorded, Workload
from softwalltime.measure.simulation.simulated_jobs import jobs_of, starts_of
from softwalltime.reports import machine_step, simulable_jobs
from softwalltime.reports.simulable_jobs import Totals, newest_jobs, use
from softwalltime.reports.walltime_use import analyze_walltimes
from tests.replay.test_parquet_workload import exported, in_parts, small_parts
from tests.samples import job

JOBS = st.lists(
    st.builds(
        lambda submitted, held, waited, runtime, **fields: job(
            submitted=submitted, etime=None if held is None else submitted + held,
            start=None if waited is None else submitted + waited, end=submitted + (waited or 0) + runtime,
            runtime=runtime, **fields,
        ),
        submitted=st.integers(0, 300),
        held=st.sampled_from([None, None, 20, 90]),
        waited=st.sampled_from([None, -150, -150, 0, 0, 7, 100]),
        runtime=st.sampled_from([0, 1, 5, 50, 200]),
        walltime=st.sampled_from([None, 0, 60, 3600]),
        ncpus=st.sampled_from([None, 1, 1, 4, 9]),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


def both(jobs: list[CompletedJob], folder: Path) -> tuple[Recorded, Recorded]:
    """The jobs in memory and in a file, in parts of three and of two jobs, whatever comes first."""
    by_submission = list(JobColumns.of(jobs).by_submission())
    return Workload(by_submission), in_parts(exported(jobs, folder / "jobs.parquet"))


@settings(max_examples=20)
@given(JOBS, st.sampled_from([simulable_jobs.FIRST, 30, 200]), st.sampled_from([1, 4]), st.sampled_from([1, 3, 100]))
def test_use_and_newest_jobs_are_those_of_all_jobs_at_once(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], since: int, size: int, most: int
) -> None:
    with small_parts(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulable_jobs, "WEEK_S", 10)
        every = jobs_of(both(jobs, tmp_path_factory.mktemp("jobs"))[0].chosen(np.arange(len(jobs))))
        chosen = every.chosen([index for index, time in enumerate(every.submitted) if time >= since])
        start = starts_of(chosen.completed)
        end = start + np.array(chosen.runtime, np.int64)
        fitting, refused = chosen.that_fit(size)
        for workload in both(jobs, tmp_path_factory.mktemp("jobs")):
            totals = Totals.of(workload)
            assert totals.jobs == len(every)
            assert list((+totals.left_out).items()) == list(every.left_out.items())
            begin = min(totals.first_start, 0)
            parts = list(use(workload, begin, since))
            assert [times[-1] for times, _ in parts[:-1]] == [times[0] for times, _ in parts[1:]]
            for times, in_use in parts:
                assert all(one <= other for one, other in pairwise(times.tolist()))
                for time, used, after in zip(times, in_use, [*times[1:], times[-1]], strict=True):
                    # Several changes at one instant are steps on the way to the last of them.
                    if time < after:
                        assert used == sum(np.array(chosen.processors)[(start <= time) & (time < end)])
            assert max(int(in_use.max()) for _, in_use in parts) == (chosen.peak() if len(chosen) else 0)
            newest = newest_jobs(workload, most, size, since)
            assert (newest.of, newest.refused) == (len(fitting), refused)
            seconds = np.array(chosen.processors, np.float64) * np.array(chosen.runtime, np.float64)
            counted = chosen.scored & (np.array(chosen.processors) <= size)
            assert newest.scored_share == (seconds[counted].sum() / seconds.sum() if len(chosen) else 1.0)
            records = list(workload.chosen(newest.numbers))
            assert records == list(fitting.completed)[-most:]


@settings(max_examples=20)
@given(JOBS)
def test_the_use_of_walltimes_is_that_of_all_jobs_at_once(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob]
) -> None:
    with small_parts():
        whole, parts = (analyze_walltimes(each) for each in both(jobs, tmp_path_factory.mktemp("jobs")))
    assert repr(whole) == repr(parts)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Accounting logs, and the export of them in several row groups."""
    folder = tmp_path_factory.mktemp("sources")
    logs, file = folder / "logs", folder / "jobs.parquet"
    assert run(["generate", str(logs), "--jobs", "1200", "--users", "12"]) == 0
    with small_parts(400):
        assert run(["export", str(logs), "-o", str(file)]) == 0
    return str(logs), str(file)


def test_the_report_on_an_export_is_that_on_its_logs(
    sources: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # So short "weeks" end in each part.
    for module in (simulable_jobs, machine_step):
        monkeypatch.setattr(module, "WEEK_S", 86400)
    pages = []
    for source in sources:
        page = tmp_path / "report.html"
        options = ["--predictors", "v1", "--seeds", "31-32", "--simulated-jobs", "150", "--processes", "1"]
        assert run(["report", source, "-o", str(page), *options]) == 0
        pages.append(page.read_text().replace(source, "SOURCE"))
    assert pages[0] == pages[1]


def test_tune_on_an_export_chooses_as_on_its_logs(sources: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for source in sources:
        for more in ((), ("--user", "user001", "--walltime-from", "*=1:00:00")):
            options = ["--predictors", "v1,v3", "--simulated-jobs", "0", "--processes", "1", "--format", "json", *more]
            assert run(["tune", source, *options]) == 0
            document = json.loads(capsys.readouterr().out)
            for trial in document["trials"].values():
                del trial["seconds"]
            del document["source"]
            found.append(document)
    assert found[:2] == found[2:]
    assert found[0]["chosen"]["middle"] == "v1"
