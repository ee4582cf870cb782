"""Jobs in Parquet come back as they were, alone and beside logs; other files are refused in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.core.errors import SourceError
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay import parquet
from softwalltime.measure.replay.job_columns import NAMES, JobColumns
from softwalltime.measure.replay.parquet import read_groups, read_metadata, write_parquet
from softwalltime.measure.replay.recorded_files import PROCESSORS, RecordedFiles
from softwalltime.measure.workloads.synthetic import generate
from tests.samples import RECORDED_LOG, completed_jobs, job, trace

Make = Callable[[Path], object]


def written(jobs: list[CompletedJob], path: Path, **metadata: object) -> Path:
    with path.open("wb") as stream:
        write_parquet(JobColumns.of(jobs).in_groups(parquet.GROUP), stream, metadata)
    return path


def read(*paths: Path) -> list[CompletedJob]:
    return list(JobColumns.joined(chain.from_iterable(map(read_groups, paths))))


@settings(max_examples=40)
@given(st.lists(completed_jobs(), max_size=12), st.lists(completed_jobs(), max_size=5))
def test_any_jobs_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], others: list[CompletedJob]
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    files = [written(jobs, folder / "a.parquet", processors=7), written(others, folder / "b.parquet")]
    assert read(*files) == [*jobs, *others]
    assert [read_metadata(file).get(PROCESSORS) for file in files] == [7, None]


def test_texts_of_all_row_groups_and_files_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP", 70)
    different = [
        job(
            f"user{n % 7}", job_id=f"{n}.sérvé\udcff", job_name=f"name {n}", end=2**40 if n == 299 else n,
            mem=2**62 if n == 150 else None, interactive=(None, True, False)[n % 3],
        )
        for n in range(300)
    ]  # fmt: skip
    alike = [job("user8", job_name="same", job_id=str(n)) for n in range(300)]
    first, second = written(different, tmp_path / "a.parquet"), written(alike, tmp_path / "b.parquet")
    assert pq.read_metadata(first).num_row_groups == 5
    assert read(first, second) == [*different, *alike]
    assert read(second, first) == [*alike, *different]
    assert written(different, tmp_path / "c.parquet").read_bytes() == first.read_bytes()


def test_other_programs_see_names_units_and_missing_values(tmp_path: Path) -> None:
    table = pq.read_table(written([job("alice", mem=None, walltime=60)], tmp_path / "a.parquet"))
    assert table.schema.names == list(NAMES)
    assert table.schema.field("walltime").metadata == {b"unit": b"seconds"}
    assert table.schema.field("end").metadata == {b"unit": b"epoch seconds"}
    (row,) = table.select(["user", "mem", "walltime"]).to_pylist()
    assert row == {"user": "alice", "mem": None, "walltime": 60}


def test_an_exported_trace_gives_the_figures_of_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, recorded = tmp_path / "kth.parquet", str(trace("KTH-SP2"))
    assert run(["export", recorded, "--until", "1996-11-01", "-o", str(file)]) == 0
    assert "bytes for each" in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    tables = []
    for source in (str(file), recorded):
        assert run(["replay", source, "--until", "1996-11-01", "--format", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        tables.append({name: without(figures) for name, figures in document["predictors"].items()})
    assert tables[0] == tables[1]
    assert len(tables[0]) > 3
    tally = Tally()
    RecordedFiles([file]).read(tally)
    assert tally.machine == 100


def test_a_job_that_is_in_a_log_too_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.parquet"
    assert run(["export", str(RECORDED_LOG), "-o", str(file)]) == 0
    by_submission = sorted(read_jobs(RECORDED_LOG), key=lambda recorded: recorded.submission.submitted)
    assert list(read_jobs(file)) == list(read_jobs(file, RECORDED_LOG)) == by_submission
    capsys.readouterr()
    assert run(["replay", str(file), str(RECORDED_LOG)]) == 0
    assert "records of runs that other records describe too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"no"), "not a file of softwalltime export: "),
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: pq.write_table(pa.table({"a": [1]}), path), "not a file of softwalltime export: it names no"),
        (
            lambda path: pq.write_table(written_table({b"softwalltime": b'{"version": 2}'}), path),
            "of version 2",
        ),
        (lambda path: pq.write_table(written_table({b"softwalltime": b'{"version": 1}'}), path), "not a file of"),
        (lambda path: pq.write_table(written_table({b"softwalltime": b"["}), path), "not a file of"),
        (lambda path: written(generate(50), path).write_bytes(path.read_bytes()[:-50]), "not a file of softwalltime"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(make: Make, message: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    make(path)
    with pytest.raises(SourceError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def without(figures: dict[str, object]) -> dict[str, object]:
    """The figures but the time that they took."""
    return {name: value for name, value in figures.items() if name != "jobs_per_second"}


def written_table(metadata: dict[bytes, bytes]) -> pa.Table:
    return pa.table({"job_id": ["1"]}).replace_schema_metadata(metadata)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "jobs.csv"], "jobs.csv: the name must end in .parquet"),
        (["-o", "/nowhere/jobs.parquet"], "the folder does not exist or is not writable"),
        (["-o", "jobs.parquet", "--user", "nobody"], "no"),
        ([], "Missing option '-o'"),
    ],
)
def test_wrong_uses_of_export(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(RECORDED_LOG), *arguments]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["user", "job_id", "submitted", "end", "runtime"])
def test_a_column_without_values_is_refused(name: str, tmp_path: Path) -> None:
    path = written([job(), job(mem=None, interactive=None)], tmp_path / "jobs.parquet")
    table = pq.read_table(path)
    place = table.schema.names.index(name)
    pq.write_table(table.set_column(place, table.schema.field(place), pa.nulls(2, table.schema.types[place])), path)
    with pytest.raises(SourceError, match=f"column {name} lacks values"):
        read(path)


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path, tally = written([job()], tmp_path / "jobs.parquet", processors=7), Tally()
    assert list(RecordedFiles([path, path]).read(tally)) == [job()]
    assert (tally.repeated, tally.machine) == (0, 7)


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    path = written([replace(job(), end=5)], tmp_path / "jobs.parquet")
    table = pq.read_table(path)
    wrong = table.set_column(table.schema.names.index("end"), "end", pa.array(["x"]))
    pq.write_table(wrong.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(SourceError, match="not a file of softwalltime export"):
        read(path)
