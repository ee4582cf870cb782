"""The parts of a sweep: grids, snapshots, tasks, results that survive a kill, and workers that die."""

import csv
import fcntl
import operator
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.errors import OptionError, SoftwalltimeError, SourceError, UsageError
from softwalltime.jobs import CompletedJob
from softwalltime.predictors.registry import make
from softwalltime.replay.drive import drive
from softwalltime.replay.metrics import WARM_UP, score
from softwalltime.replay.sweep import workers as workers_module
from softwalltime.replay.sweep.evaluation import Failure, Row, Task, evaluate, option_values
from softwalltime.replay.sweep.grid import expand, expand_all
from softwalltime.replay.sweep.results import Results
from softwalltime.replay.sweep.snapshot import load, take
from softwalltime.replay.sweep.workers import Workers, dask_workers, local_workers
from softwalltime.replay.workload import Workload
from softwalltime.states import TEACHING, State
from tests.dask_cluster import cluster
from tests.service.running import PATIENT
from tests.workloads import completed_jobs, job


@pytest.mark.parametrize(
    ("spec", "grid"),
    [
        ("v1", ["v1"]),
        ("percentile:p=85", ["percentile:p=85"]),
        (
            "percentile:p=75|85,keys=user|user+project",
            [
                "percentile:p=75,keys=user", "percentile:p=75,keys=user+project",
                "percentile:p=85,keys=user", "percentile:p=85,keys=user+project",
            ],
        ),
        ("v3|v4:last=5", ["v3:last=5", "v4:last=5"]),
        ("v3: last=5 | 15 ,", ["v3:last=5", "v3:last=15"]),
        ("percentile:p", ["percentile:p"]),
    ],
)  # fmt: skip
def test_alternatives_are_combined_and_the_last_option_varies_fastest(spec: str, grid: list[str]) -> None:
    assert expand(spec) == grid


def test_a_grid_holds_each_predictor_once() -> None:
    assert expand_all(["v1", "v1|v2", "usage:last=5|5"]) == ["v1", "v2", "usage:last=5"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("percentile:p=75|", "an alternative in '75|' is empty"),
        ("v1|", "an alternative in 'v1|' is empty"),
        ("v1|v9", "no predictor is called 'v9'"),
        ("percentile:p=75|high", "p=high: should be a valid number"),
        ("v1:p=1|2", "last2 has no option 'p'"),
    ],
)
def test_a_grid_with_one_predictor_that_cannot_be_made_is_refused(spec: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        expand_all([spec])
    assert message in str(caught.value)


def test_every_option_has_its_value_in_the_results_defaults_among_them() -> None:
    assert option_values(make("percentile:p=95,keys=user+project,window=7d").options) == {
        "p": 95.0, "keys": "user+project", "window": 7 * 86400, "least": 10, "threshold": None,
    }  # fmt: skip


@given(st.lists(completed_jobs(), max_size=8), st.frozensets(st.sampled_from(list(State))))
def test_a_snapshot_gives_the_same_workload_back(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[CompletedJob], teaching: frozenset[State]
) -> None:
    path = tmp_path_factory.mktemp("snapshot") / "jobs"
    snapshot = take(jobs, teaching, path)
    workload, again = Workload(jobs, teaching=teaching), load(path)
    assert snapshot.jobs == len(jobs)
    assert again.jobs == workload.jobs
    assert again.order == workload.order


def test_a_digest_tells_apart_what_could_give_other_results(tmp_path: Path) -> None:
    def digest(name: str, jobs: list[CompletedJob], teaching: frozenset[State] = TEACHING) -> str:
        return take(jobs, teaching, tmp_path / name).digest

    jobs = [job(job_id="1.srv"), job(job_id="2.srv")]
    first = digest("first", jobs)
    assert digest("equal", [replace(each) for each in jobs]) == first
    others = {
        digest("order", jobs[::-1]),
        digest("runtime", [jobs[0], replace(jobs[1], runtime=101)]),
        digest("queue", [jobs[0], replace(jobs[1], submission=replace(jobs[1].submission, queue="q"))]),
        digest("teaching", jobs, TEACHING - {State.FAILED}),
    }
    assert len(others | {first}) == 5


@pytest.fixture
def task(tmp_path: Path) -> Task:
    jobs = [job(f"user{n % 5}", submitted=100 * n, runtime=10 + n % 90, job_id=f"{n}.srv") for n in range(300)]
    return Task("log", take(jobs, TEACHING, tmp_path / "jobs"), "percentile:p=95,keys=user", 60)


def with_spec(task: Task, spec: str) -> Task:
    return replace(task, spec=spec)


def test_a_task_gives_what_a_replay_gives(task: Task) -> None:
    row = evaluate(task)
    workload = load(task.snapshot.path)
    soft_walltimes = drive(workload, make(task.spec)).soft_walltimes
    assert isinstance(row, Row)
    assert (row.name, row.options["p"]) == ("percentile", 95.0)
    assert row.scores == score(workload, soft_walltimes)
    assert row.after_warm_up == score(workload, soft_walltimes, WARM_UP)
    assert row.scores.not_adjusted not in (0.0, 1.0)


def test_a_predictor_that_raises_is_a_failure_of_its_own(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(type(make("v1")), "predict", raising)
    outcome = evaluate(with_spec(task, "v1"))
    assert isinstance(outcome, Failure)
    assert str(outcome) == "v1 on log: ZeroDivisionError: division by zero"


def test_a_process_that_cannot_do_any_task_says_so(task: Task) -> None:
    with pytest.raises(SoftwalltimeError, match="and 99 where the sweep was started: install the same version"):
        evaluate(replace(task, version="99"))
    elsewhere = replace(task.snapshot, path=Path("/nowhere/jobs"))
    with pytest.raises(SourceError, match=r"^/nowhere/jobs: No such file .* a folder that all workers can read$"):
        evaluate(replace(task, snapshot=elsewhere))


def sweep(path: Path, *tasks: Task, again: bool = False) -> list[str]:
    """Do the tasks whose rows are not in the file yet, and say which those were."""
    options = dict.fromkeys(name for task in tasks for name in option_values(make(task.spec).options))
    with Results(path, again=again) as results:
        todo, _ = results.prepare(tasks, options)
        for task in todo:
            row = evaluate(task)
            assert isinstance(row, Row)
            results.add(row)
    return [task.spec for task in todo]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_row_is_in_the_file_as_soon_as_it_is_added(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Results(path) as results:
        results.prepare([task], ["p", "keys"])
        assert rows(path) == []
        results.add(evaluate(task))
        (row,) = rows(path)
    assert row["predictor"] == task.spec
    assert (row["option_p"], row["option_keys"]) == ("95.0", "user")


def test_what_is_there_is_not_done_again(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    grid = [with_spec(task, spec) for spec in ("v1", "v3", "percentile:p=95")]
    assert sweep(path, *grid[:1]) == ["v1"]
    assert sweep(path, *grid) == ["v3", "percentile:p=95"]
    before = path.read_bytes()
    assert sweep(path, *grid) == []
    assert sweep(path, grid[0]) == []
    assert path.read_bytes() == before
    # v1 came when there were no columns for the options of the others.
    assert [row["option_p"] for row in rows(path)] == ["", "", "95.0"]
    assert [row["option_margin"] for row in rows(path)] == ["0.0", "900.0", ""]


def test_other_options_of_the_command_are_other_rows(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task)
    assert sweep(path, replace(task, minimum=300)) == [task.spec]
    assert sweep(path, replace(task, source="other log")) == [task.spec]
    assert [(row["source"], row["min_soft_walltime"]) for row in rows(path)] == [
        ("log", "60"), ("log", "300"), ("other log", "60"),
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["digest", "version"])
def test_rows_of_a_source_that_has_changed_are_replaced(task: Task, tmp_path: Path, change: str) -> None:
    path = tmp_path / "results.csv"
    other = replace(task, source="other log")
    sweep(path, task, with_spec(task, "v1"), other)
    older = [{**row, change: "older"} for row in rows(path)]
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, older[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(older)
    assert sweep(path, task) == [task.spec]
    kept, new = rows(path)
    assert (kept["source"], kept[change]) == ("other log", "older")
    assert (new["source"], new["predictor"]) == ("log", task.spec)
    assert new[change] != "older"


# What is written goes to the disk at once, and a disk takes the time that it takes.
@settings(max_examples=50)
@given(cut=st.integers(1, 10_000))
def test_wherever_a_write_was_cut_off_only_its_row_is_done_again(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    jobs = [job(submitted=100 * n) for n in range(5)]
    source = 'a "log",\nof two lines'
    task = Task(source, take(jobs, TEACHING, folder / "jobs"), "v1", 60)
    path = folder / "results.csv"
    sweep(path, task, with_spec(task, "v2"))
    whole = path.read_bytes()
    second = whole.index(b"v2") - len(f'"{source}",') - 2
    length = len(whole) - second
    path.write_bytes(whole[: len(whole) - 1 - cut % (length - 1)])
    assert sweep(path, task, with_spec(task, "v2")) == ["v2"]
    assert [(row["source"], row["predictor"]) for row in rows(path)] == [(source, "v1"), (source, "v2")]


def test_again_starts_anew(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task, with_spec(task, "v1"))
    assert sweep(path, task, again=True) == [task.spec]
    assert len(rows(path)) == 1


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("content", ["job_id,v1\n1.srv,60\n", "no line end", "\n", "\x80\xff,\0"])
def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path, content: str, again: bool) -> None:
    path = tmp_path / "results.csv"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SourceError, match=r"results.csv: holds something other than the results of a sweep"):
        Results(path, again=again)
    assert path.read_text(encoding="latin-1") == content


def test_a_row_that_somebody_broke_is_named(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task, with_spec(task, "v1"))
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, first + ",x", second, ""]))
    with pytest.raises(SourceError, match=r"results.csv: row 1 has \d+ fields, not \d+: mend it, or give --again"):
        Results(path)
    path.write_text("\n".join([header.replace(",seconds", ",minutes"), first, ""]))
    with pytest.raises(SourceError, match="its columns are those of another version"):
        Results(path)


def test_two_sweeps_do_not_write_the_same_file(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Results(path) as results:
        with pytest.raises(SourceError, match=r"results.csv: another sweep is writing it"):
            Results(path)
        # Also after the file has been replaced by one with the columns that are needed.
        results.prepare([task], ["p"])
        with pytest.raises(SourceError, match=r"results.csv: another sweep is writing it"):
            Results(path)
    Results(path).__exit__()


def test_a_file_system_without_locks_will_do(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert sweep(tmp_path / "results.csv", task) == [task.spec]


def test_where_nothing_came_of_it_no_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Results(path):
        assert path.exists()
    assert not path.exists()
    with pytest.raises(SourceError, match=r"/nowhere/results.csv: cannot be written: No such file or directory"):
        Results(Path("/nowhere/results.csv"))


def test_a_full_disk_is_told_and_costs_no_row(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task)
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) // 2])

    other = with_spec(task, "v1")
    with Results(path) as results:
        results.prepare([task, other], ["p"])
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(SourceError, match=r"results.csv: cannot be written: No space left on device"):
            results.add(evaluate(other))
    monkeypatch.undo()
    assert not path.read_bytes().endswith(b"\n")
    assert sweep(path, task, other) == ["v1"]


def test_parquet_holds_the_same_as_the_csv_with_numbers_as_numbers(task: Task, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB, which writes Parquet, is not installed")
    path, parquet = tmp_path / "it's [1]*.csv", tmp_path / "it's [1].parquet"
    # A source that looks like a number, as accounting logs do, and one that needs quotes.
    tasks = [
        replace(task, source=source, spec=spec)
        for source in ("20261120", 'a, "b"')
        for spec in ("v1", "percentile:keys=user", "percentile:p=33.3,keys=user")
    ]
    sweep(path, *tasks)
    with Results(path) as results:
        results.write_parquet(parquet)
        with pytest.raises(SourceError, match="cannot be written"):
            results.write_parquet(tmp_path / "nowhere" / "x.parquet")
    with duckdb.connect() as connection:
        found = connection.read_parquet(str(tmp_path / "it's [[]1].parquet"))
        columns, types, values = (
            found.columns,
            dict(zip(found.columns, map(str, found.types), strict=True)),
            found.fetchall(),
        )
    assert types["source"] == types["option_keys"] == types["digest"] == "VARCHAR"
    assert types["jobs"] == types["option_window"] == "BIGINT"
    assert types["accuracy_mean"] == types["option_p"] == types["seconds"] == "DOUBLE"
    for row, line in zip(rows(path), values, strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in zip(columns, line, strict=True)}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["it's [1]*.csv", "it's [1].parquet", "jobs"]


GRID = ["request", "v1", "v2", "v3", "v4", *expand("percentile:p=50|95,keys=user|project")]


def outcomes(workers: Workers, task: Task) -> dict[str, Row]:
    found = workers.do(evaluate, [with_spec(task, spec) for spec in GRID])
    return {row.task.spec: replace(row, seconds=0) for row in found if isinstance(row, Row)}


@pytest.fixture
def alone(task: Task) -> dict[str, Row]:
    return outcomes(local_workers(1), task)


def test_many_processes_give_what_one_gives(task: Task, alone: dict[str, Row]) -> None:
    assert list(alone) == GRID
    assert outcomes(local_workers(2), task) == alone
    assert list(local_workers(2).do(evaluate, [])) == []


def test_an_error_on_a_worker_ends_the_run_as_it_is(task: Task) -> None:
    tasks = [replace(task, version="99"), task, task]
    with pytest.raises(SoftwalltimeError, match="99 where the sweep was started"):
        list(local_workers(2).do(evaluate, tasks))


def test_a_process_that_is_killed_ends_the_run_with_advice() -> None:
    with pytest.raises(SoftwalltimeError, match="a process was killed, as for want of memory: try fewer --jobs; what"):
        list(local_workers(2).do(os._exit, [1, 1]))


HEARING = """
import functools, signal
from softwalltime.replay.sweep.workers import local_workers
blocked = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK)
print(*(signal.SIGINT not in each for each in local_workers(2).do(blocked, [()] * 4)))
print(signal.SIGINT not in blocked(()))
"""
"""Which processes hear an interrupt."""


def test_processes_do_not_hear_an_interrupt_and_the_one_that_starts_them_does() -> None:
    # In a process of its own, which starts all that joblib needs; in this one other tests may have done so.
    done = subprocess.run([sys.executable, "-c", HEARING], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False False False", "True"]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may answer as late as it likes."""
    monkeypatch.setattr(workers_module, "_PATIENCE", PATIENT)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with cluster(workers=2) as address:
        yield address


def test_a_dask_cluster_gives_what_one_process_gives(scheduler: str, task: Task, alone: dict[str, Row]) -> None:
    with dask_workers(scheduler) as workers:
        assert workers.words == f"the cluster at {scheduler}, which has 2 workers and 2 threads now"
        assert outcomes(workers, task) == alone
        # A second time, and an error of a worker's own.
        assert outcomes(workers, task) == alone
        with pytest.raises(SoftwalltimeError, match="99 where the sweep was started"):
            list(workers.do(evaluate, [replace(task, version="99"), task]))


def test_a_cluster_of_one_core_is_used_too(task: Task) -> None:
    with cluster(workers=1) as scheduler, dask_workers(scheduler) as workers:
        (found,) = workers.do(operator.call, [os.getpid])
    assert found != os.getpid()


def test_a_task_that_kills_its_workers_is_given_up(scheduler: str) -> None:
    with dask_workers(scheduler) as workers, pytest.raises(SoftwalltimeError, match="after several workers had died"):
        list(workers.do(os._exit, [1]))


def test_a_cluster_with_another_version_is_refused(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "__version__", "99")
    with (
        pytest.raises(SoftwalltimeError, match=r"the cluster's worker tcp://.* has softwalltime .*: install 99 for it"),
        dask_workers(scheduler),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("nonsense", UsageError, "'nonsense' is no scheduler's address, such as tcp://host:8786: missing port"),
        ("carrier://pigeon:1", UsageError, "unknown address scheme 'carrier'"),
        ("tcp://127.0.0.1:1", SoftwalltimeError, "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_an_address_where_no_scheduler_is_gets_a_clear_message(
    address: str, error: type[SoftwalltimeError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr(workers_module, "_PATIENCE", 0.5)
    with pytest.raises(error, match=message), dask_workers(address):
        pass
