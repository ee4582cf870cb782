"""The sweep as an administrator types it: the same figures as a replay, and nothing lost by an interruption."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.predict.predictors.registry import make
from tests.dask_cluster import cluster
from tests.samples import RECORDED_LOG, trace
from tests.service.running import PATIENT
from tests.store.stored import add_jobs

GRID = "v1,v4,percentile:p=75|95,keys=user|user+project,window=7d|30d,least=3"
SIZE = 11
"""Predictors in that grid, with the baseline."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A folder of logs, and one log."""
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1500", "--seed", "5"]) == 0
    return [str(folder), str(RECORDED_LOG)]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def without_seconds(path: Path) -> list[tuple[str, ...]]:
    """The rows in one order, but for the wall-clock time that each took."""
    return sorted(tuple(value for name, value in row.items() if name != "seconds") for row in rows(path))


def replayed(source: str, specs: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    """What replay says of each predictor, under the names of the sweep's columns."""
    arguments = [argument for spec in specs for argument in ("--predictor", spec)]
    capsys.readouterr()
    assert run(["replay", source, *arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for spec, figures in document["predictors"].items():
        del figures["jobs_per_second"]
        figures |= {f"after_warm_up_{name}": value for name, value in document["after_warm_up"][spec].items()}
    return document["predictors"]


def agree(path: Path, sources: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Hold every row equal, to the last bit, to what replay says; returns how many those are."""
    found = rows(path)
    for source in sources:
        mine = {row["predictor"]: row for row in found if row["source"] == source}
        for spec, figures in replayed(source, list(mine), capsys).items():
            for name, value in figures.items():
                text = mine[spec][name]
                assert (float(text) if text else None) == value, (source, spec, name)
    return len(found)


def test_each_row_equals_the_figures_of_replay(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    assert run(["sweep", *sources, "-o", str(path), "--predictors", GRID, "--processes", "2"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines() == [
        f"{path}: {2 * SIZE} of {2 * SIZE} rows to do, by 2 processes",
        f"{path}: {2 * SIZE} rows, {2 * SIZE} of them new",
    ]
    assert {row["option_keys"] for row in rows(path) if row["name"] == "percentile"} == {"user", "user+project"}
    assert agree(path, sources, capsys) == 2 * SIZE
    assert files(tmp_path) == ["results.csv"], "the jobs' copies are gone"


def test_a_recorded_trace_gives_what_replay_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, kth = tmp_path / "results.csv", str(trace("KTH-SP2-1996"))
    assert run(["sweep", kth, "-o", str(path), "--predictors", "v1,v3,percentile:keys=user|project"]) == 0
    assert agree(path, [kth], capsys) == 5


def test_without_a_grid_the_published_predictors_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    assert run(["sweep", str(RECORDED_LOG), "-o", str(path), "--processes", "1"]) == 0
    names = [row["name"] for row in rows(path)]
    assert names == ["request", "last2", "last2+900", "usage", "usage-long", *["percentile"] * 36]
    assert len({(row["option_p"], row["option_keys"], row["option_window"]) for row in rows(path)[5:]}) == 36


def test_a_repeated_sweep_computes_only_new_rows(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, keep = tmp_path / "results.csv", str(tmp_path / "kept")
    command = ["sweep", sources[0], "-o", str(path), "--keep", keep, "--processes", "1", "--predictor", "v1"]
    assert run(command) == 0
    before = path.read_bytes()
    capsys.readouterr()
    assert run(command) == 0
    assert "0 of 2 rows to do" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert run([*command, "--predictor", "percentile:p=50|75", sources[1]]) == 0
    assert "6 of 8 rows to do" in capsys.readouterr().out
    assert run([*command, "--min-soft-walltime", "120"]) == 0
    assert "2 of 2 rows to do" in capsys.readouterr().out
    assert [row["predictor"] for row in rows(path)] == ["request", "v1"]


def test_texts_of_a_source_are_no_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("=log").write_bytes(RECORDED_LOG.read_bytes())
    assert run(["sweep", "=log", "-o", "results.csv", "--predictor", "v1", "--processes", "1"]) == 0
    assert {row["source"] for row in rows(Path("results.csv"))} == {"'=log"}


def test_a_changed_log_is_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, path, keep = tmp_path / "20261120", tmp_path / "results.csv", str(tmp_path / "kept")
    lines = RECORDED_LOG.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    command = ["sweep", str(log), str(RECORDED_LOG), "-o", str(path), "--keep", keep, "--predictor", "v1"]
    assert run([*command, "--processes", "1"]) == 0
    log.write_bytes(b"".join(lines))
    capsys.readouterr()
    assert run([*command, "--processes", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{path}: 2 of 4 rows to do, by one process"
    first, second = (
        [
            {k: v for k, v in row.items() if k not in ("source", "seconds")}
            for row in rows(path)
            if row["source"] == source
        ]
        for source in (str(log), str(RECORDED_LOG))
    )
    assert first == second


def test_the_teaching_setting_applies(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keep = tmp_path / "results.csv", str(tmp_path / "kept")
    command = ["sweep", sources[0], "-o", str(path), "--keep", keep, "--processes", "1", "--predictor", "v1"]
    assert run(command) == 0
    everything = without_seconds(path)
    monkeypatch.setenv("SOFTWALLTIME_TEACHING", '["failed"]')
    assert run(command) == 0
    assert "2 of 2 rows to do" in capsys.readouterr().out
    assert without_seconds(path) != everything
    assert agree(path, sources[:1], capsys) == 2


def test_the_store_is_a_source_that_only_this_process_reads(
    database: str, engine: Engine, sources: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    with engine.begin() as connection:
        assert add_jobs(connection, list(read_jobs(log_files(Path(sources[0])), Tally()))) == 1500
    assert run(["sweep", "store", sources[0], "-o", str(path), "--predictors", GRID, "--dsn", database]) == 0
    by_source: dict[str, list[dict[str, str]]] = {"store": [], sources[0]: []}
    for row in rows(path):
        by_source[row["source"]].append({name: row[name] for name in ("predictor", "jobs", "accuracy_mean")})
    in_order = [sorted(found, key=lambda row: row["predictor"]) for found in by_source.values()]
    assert in_order[0] == in_order[1]


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command as a process of its own, in a group of its own so that a signal reaches its workers as well."""
    return subprocess.Popen(
        [sys.executable, "-m", "softwalltime", "sweep", *arguments], start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_rows(process: subprocess.Popen[str], path: Path, count: int) -> None:
    """Until more rows than these are kept in the file; the process must be at work still."""
    deadline = time.monotonic() + PATIENT
    while not path.exists() or path.read_bytes().count(b"\n") <= count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


MANY = "percentile:p=" + "|".join(map(str, range(1, 100))) + ",keys=user|project|queue,least=2"


@pytest.fixture(scope="module")
def whole(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a sweep of MANY without an interruption."""
    path = tmp_path_factory.mktemp("whole") / "whole.csv"
    assert run(["sweep", *sources, "--predictors", MANY, "--processes", "2", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_continues(
    sources: list[str], whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], end: signal.Signals
) -> None:
    path, keep = (tmp_path / name for name in ("results.csv", "kept"))
    command = [*sources, "--predictors", MANY, "--processes", "2"]
    continued = [*command, "-o", str(path), "--keep", str(keep)]
    with start(*continued) as process:
        wait_for_rows(process, keep, 20)
        os.killpg(process.pid, end)
        out, err = process.communicate()
    done = keep.read_bytes().count(b"\n")
    assert 20 <= done < 2 * 298
    if end != signal.SIGKILL:
        assert process.returncode == 1
        assert len(rows(path)) == done
        assert f"{path}: {done} rows, {done} of them new\n" in out
        assert err.strip() == "softwalltime: interrupted"
        assert files(tmp_path) == ["kept", "results.csv"]
    assert run(["sweep", *continued]) == 0
    assert f"{2 * 298 - done} of {2 * 298} rows to do" in capsys.readouterr().out
    assert without_seconds(path) == without_seconds(whole)


def test_an_error_in_a_predictor_does_not_end_the_sweep(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.csv"

    def raising(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    command = ["sweep", sources[0], "-o", str(path), "--predictors", "usage:last=" + "|".join(map(str, range(1, 13)))]
    with monkeypatch.context() as patched:
        patched.setattr(type(make("usage")), "predict", raising)
        assert run([*command, "--predictor", "v1", "--processes", "1"]) == 1
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert lines[0] == f"usage:last=1 on {sources[0]}: ZeroDivisionError: division by zero"
    assert lines[10:] == ["... and 2 more predictors that failed"]
    assert [row["predictor"] for row in rows(path)] == ["request", "v1"]


def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, path = tmp_path / "20261121.gz", tmp_path / "results.csv"
    # What comes before the break is read a MiB at a time.
    log = RECORDED_LOG.read_bytes()
    packed = gzip.compress(log * (3 * 2**20 // len(log)), 0)
    broken.write_bytes(packed[: 2 * 2**20])
    command = ["sweep", str(broken), str(RECORDED_LOG), "-o", str(path), "--predictor", "v1", "--processes", "1"]
    assert run(command) == 1
    assert "damaged gzip file" in capsys.readouterr().err
    assert len(rows(path)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "Missing option '-o'"),
        (["/nowhere", "-o", "results.txt"], "results.txt: the file name must end in .csv"),
        (
            ["/nowhere", "-o", "/nowhere/x.csv"],
            "/nowhere/x.csv: cannot be written: the folder does not exist or is not writable",
        ),
        (["/nowhere", "-o", "x.csv"], "/nowhere: No such file or directory"),
        (["/nowhere", "-o", "x.csv", "--predictor", "percentile:p=75|x"], "p=x: should be a valid number"),
        (["/nowhere", "-o", "x.csv", "--predictors", "v1,v9"], "no predictor is called 'v9'"),
        (["/nowhere", "-o", "x.csv", "--processes", "0"], "0 is not in the range"),
        (
            ["/nowhere", "-o", "x.csv", "--processes", "2", "--scheduler", "tcp://h:1"],
            "--processes is for this machine",
        ),
        (["/nowhere", "-o", "x.csv", "--jobs-folder", "s3://b/f"], "--jobs-folder is for the workers of a cluster"),
    ],
)
def test_wrong_use_is_reported_before_reading(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sweep", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert files(tmp_path) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(["sweep", "/nowhere", "-o", "x.csv", "--scheduler", "tcp://h:1"]) == 2
    assert "pip install 'pbs-softwalltime[dask]'" in capsys.readouterr().err


ADDRESSES = {
    "what://bucket": "cannot be written: Unsupported filesystem: 'what'",
    "file:///nowhere": "cannot be written: [Errno 2] No such file or directory",
    "gs://bucket/folder": "Please install gcsfs",
}
"""Addresses that cannot be used, with what is said of them."""


def test_the_scheduler_option_uses_a_dask_cluster(
    sources: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there, at_address = (tmp_path / name for name in ("here.csv", "there.csv", "at-address.csv"))
    command, shared = ["sweep", *sources, "--predictors", GRID], tmp_path / "shared"
    shared.mkdir()
    with cluster(workers=2) as scheduler:
        command += ["--scheduler", scheduler]
        assert run([*command, "-o", str(there)]) == 0
        assert f"by the cluster at {scheduler}, which has 2 workers" in capsys.readouterr().out
        # The same by an address, as of an object storage.
        assert run([*command, "-o", str(at_address), "--jobs-folder", f"file://{shared}"]) == 0
        assert files(shared) == []
        for address, message in ADDRESSES.items():
            assert run([*command, "-o", str(at_address), "--jobs-folder", address]) == 2
            assert capsys.readouterr().err.startswith(f"softwalltime: --jobs-folder {address}: {message}")
    assert run([*command[:-2], "-o", str(here)]) == 0
    assert without_seconds(there) == without_seconds(at_address) == without_seconds(here)


def test_a_dask_scheduler_without_workers_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster(workers=0) as address:
        command = ["sweep", str(RECORDED_LOG), "-o", str(tmp_path / "x.csv"), "--predictor", "v1"]
        assert run([*command, "--scheduler", address]) == 1
    assert capsys.readouterr().err == (
        f"softwalltime: the Dask scheduler at {address} has no workers: start some with dask worker {address}\n"
    )
