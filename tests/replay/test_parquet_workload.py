"""Jobs that are read part by part give the events, soft walltimes and figures of the same jobs in memory."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.cli import run
from softwalltime.core.errors import SourceError
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING
from softwalltime.measure.replay import parquet
from softwalltime.measure.replay import workload as workload_module
from softwalltime.measure.replay.accuracy_metrics import score
from softwalltime.measure.replay.fast_replay import drive, drive_specs
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.parquet import ParquetWorkload
from softwalltime.measure.replay.recorded_files import SORTED
from softwalltime.measure.replay.workload import EventStream, Recorded, Scoring, Workload
from tests.replay.test_fast_replay import RECORDED
from tests.samples import job
from tests.spy import ObservingSpy

SPECS = ("request", "v1", "v3", "percentile:least=1")


def exported(jobs: list[CompletedJob], path: Path) -> Path:
    with path.open("wb") as stream:
        parquet.write_parquet(JobColumns.of(jobs).by_submission().in_groups(parquet.GROUP), stream, {SORTED: True})
    return path


def in_parts(path: Path, limit: int | None = None, scoring: Scoring | None = None) -> ParquetWorkload:
    return ParquetWorkload(path, limit, TEACHING, scoring or Scoring(), lambda jobs: jobs, ())


@contextmanager
def small_parts(group: int = 2) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload_module, "PART", 3)
        patch.setattr(parquet, "GROUP", group)
        yield


def events(workload: Recorded, *, starts: bool, everything: bool) -> list[tuple[int, int, int, bool, str]]:
    stream = EventStream(starts=starts, everything=everything)
    return [
        (time, kind, number, teaches, found.submission.job_id)
        for part in chain(workload.parts(), [None])
        for stride in stream.strides(part)
        for kind, number, found, time, teaches in zip(*stride, strict=True)
    ]


def expected(jobs: list[CompletedJob], *, starts: bool, everything: bool) -> list[tuple[int, int, int, bool, str]]:
    """Sort the events of all jobs at once."""
    by_submission = sorted(enumerate(jobs), key=lambda item: item[1].submission.submitted)
    found = []
    for number, (order, recorded) in enumerate(by_submission):
        submitted, teaches = recorded.submission.submitted, recorded.state in TEACHING
        end = max(recorded.end, submitted + 1)
        moments = [(submitted, Kind.SUBMITTED, number)]
        if recorded.start is not None and (starts or everything):
            moments.append((min(max(recorded.start, submitted), end - 1), Kind.STARTED, number))
        if teaches or (everything and (recorded.start is not None or recorded.runtime > 0)):
            moments.append((end, Kind.ENDED, order))
        elif everything:
            moments.append((end, Kind.DELETED, order))
        found += [(*moment, number, teaches, recorded.submission.job_id) for moment in moments]
    return [(time, kind, *rest) for time, kind, _, *rest in sorted(found)]


@settings(max_examples=30)
@given(st.lists(RECORDED, min_size=1, max_size=14), st.booleans(), st.booleans(), st.sampled_from([None, 1, 5]))
def test_events_of_parts_are_those_of_all_jobs_sorted_at_once(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], starts: bool, everything: bool,
    limit: int | None,
) -> None:  # fmt: skip
    jobs = [replace(known, submission=replace(known.submission, job_id=str(n))) for n, known in enumerate(jobs)]
    by_submission = list(JobColumns.of(jobs).by_submission())
    wanted = partial(expected, starts=starts, everything=everything)
    found = partial(events, starts=starts, everything=everything)
    with small_parts():
        path = exported(jobs, tmp_path_factory.mktemp("parts") / "jobs.parquet")
        assert found(Workload(jobs)) == wanted(jobs)
        assert found(in_parts(path, limit)) == wanted(by_submission[:limit])


@settings(max_examples=12)
@given(st.lists(RECORDED, min_size=1, max_size=14), st.sampled_from(["walltime", "keep", "v2"]), st.booleans())
def test_figures_of_parts_are_those_of_the_jobs_in_memory(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], running: str, never_ran: bool
) -> None:
    scoring = Scoring(20, 290, never_ran)
    path = tmp_path_factory.mktemp("parts") / "jobs.parquet"
    whole = Workload(JobColumns.of(jobs).by_submission(), scoring=scoring)
    wanted = drive_specs(whole, SPECS, running)
    with small_parts():
        parts = in_parts(exported(jobs, path), scoring=scoring)
        found = drive_specs(parts, SPECS, running)
        assert (len(parts), parts.skipped()) == (len(whole), whole.skipped())
        for spec in SPECS:
            for name in ("soft_walltimes", "at_start"):
                values = getattr(found[spec], name)
                assert values.tolist() == getattr(wanted[spec], name).tolist()
                for warm_up in (0.0, 0.4):
                    assert score(parts, values, warm_up) == score(whole, values, warm_up)


def test_a_predictor_that_observes_is_told_the_same() -> None:
    jobs = [job(job_id=str(n), submitted=n // 3 * 50, end=n // 3 * 50 + n % 7 * 25, runtime=10) for n in range(60)]
    whole, parts = ObservingSpy(), ObservingSpy()
    drive(Workload(jobs), whole, running=whole)
    with small_parts():
        drive(Workload(jobs), parts, running=parts)
    assert parts.entries == whole.entries
    assert parts.observed == whole.observed


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(["replay", *arguments, "--format", "json"])
    out, err = capsys.readouterr()
    return status, out, err


def replayed_figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what the command prints, without the source and the speeds."""
    status, out, err = replayed(capsys, *arguments)
    assert (status, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    del document["source"]
    for scores in document["predictors"].values():
        del scores["jobs_per_second"]
    return document


def test_replay_of_an_export_is_replay_of_its_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, file = tmp_path / "logs", tmp_path / "jobs.parquet"
    assert run(["generate", str(logs), "--jobs", "1500", "--users", "9"]) == 0
    with small_parts(400):
        assert run(["export", str(logs), "-o", str(file)]) == 0
    capsys.readouterr()
    for options in ((), ("--user", "user001", "--running", "keep"), ("--limit", "900", "--walltime-from", "*=1:00:00")):
        of_logs, of_file = (replayed_figures(capsys, str(source), *options) for source in (logs, file))
        assert of_logs == of_file
        assert of_logs["scored"] > 90


def test_a_file_that_only_claims_to_be_sorted_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.parquet"
    with small_parts(), path.open("wb") as stream:
        parquet.write_parquet(JobColumns.of([job(submitted=n) for n in (5, 6, 1)]).in_groups(2), stream, {SORTED: True})
    assert replayed(capsys, str(path)) == (
        2, "", f"softwalltime: {path}: not sorted by submission: export the jobs again\n"
    )  # fmt: skip


def test_a_selection_without_jobs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exported([job()], tmp_path / "jobs.parquet")
    status, _, err = replayed(capsys, str(path), "--user", "nobody")
    assert status == 2
    assert err == f"softwalltime: no completed job in {path} is selected (user nobody): correct the options\n"


def test_results_that_do_not_fit_into_the_temporary_folder_are_refused(tmp_path: Path) -> None:
    parts = in_parts(exported([job()] * 1000, tmp_path / "jobs.parquet"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (7000, limits[1]))
    try:
        with pytest.raises(SourceError, match=r"no space for 8,000 bytes of results: .*TMPDIR"):
            parts.array()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert parts.array().dtype == np.int64


def test_the_file_of_an_array_is_removed_with_the_array(tmp_path: Path) -> None:
    parts = in_parts(exported([job()] * 1000, tmp_path / "jobs.parquet"))

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    # Each predictor that tune tries needs an array.
    for spec in SPECS:
        drive_specs(parts, [spec], running="keep")
        assert open_files() == before
    values = parts.array()
    assert open_files() > before
    assert next(parts.parts()).numbers[0] == 0
    del values
    assert open_files() == before
