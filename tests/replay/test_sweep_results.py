"""A sweep's results: a file that survives a kill, is added to, and holds each row once."""

import csv
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.errors import SourceError
from softwalltime.predictors.learned.network import SHIPPED, dump, load
from softwalltime.predictors.registry import make
from softwalltime.replay.sweep.evaluation import SweepRow, SweepTask, evaluate, option_values
from softwalltime.replay.sweep.results import Results
from softwalltime.replay.sweep.snapshot import take
from softwalltime.states import TEACHING
from tests.replay.conftest import with_spec
from tests.samples import job


def sweep(path: Path, *tasks: SweepTask, again: bool = False) -> list[str]:
    """Do the tasks whose rows are not in the file yet, and say which those were."""
    options = dict.fromkeys(name for task in tasks for name in option_values(make(task.spec).options))
    with Results(path, again=again) as results:
        todo, _ = results.prepare(tasks, options)
        for task in todo:
            row = evaluate(task)
            assert isinstance(row, SweepRow)
            results.add(row)
    return [task.spec for task in todo]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_row_is_in_the_file_as_soon_as_it_is_added(task: SweepTask, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Results(path) as results:
        results.prepare([task], ["p", "keys"])
        assert rows(path) == []
        results.add(evaluate(task))
        (row,) = rows(path)
    assert row["predictor"] == task.spec
    assert (row["option_p"], row["option_keys"]) == ("95.0", "user")


def test_what_is_there_is_not_done_again(task: SweepTask, tmp_path: Path) -> None:
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


def test_other_options_of_the_command_are_other_rows(task: SweepTask, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task)
    assert sweep(path, replace(task, minimum=300)) == [task.spec]
    assert sweep(path, replace(task, source="other log")) == [task.spec]
    assert [(row["source"], row["min_soft_walltime"]) for row in rows(path)] == [
        ("log", "60"), ("log", "300"), ("other log", "60"),
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["digest", "version"])
def test_rows_of_a_source_that_has_changed_are_replaced(task: SweepTask, tmp_path: Path, change: str) -> None:
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


def test_rows_of_other_weights_in_the_same_file_are_replaced(
    task: SweepTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, file, shipped = tmp_path / "results.csv", Path("weights.json"), load(SHIPPED)
    file.write_text(dump(shipped))
    learned, plain = (with_spec(task, spec) for spec in (f"calibrated:weights={file}", "v1"))
    sweep(path, learned, plain)
    assert sweep(path, learned, plain) == []
    file.write_text(dump(replace(shipped, layers=(shipped.layers[0] + np.float32(0.5), *shipped.layers[1:]))))
    assert sweep(path, learned, plain) == [learned.spec]
    assert [row["predictor"] for row in rows(path)] == [plain.spec, learned.spec]


# Each write is synced, and the duration depends on the disk.
@settings(max_examples=50)
@given(cut=st.integers(1, 10_000))
def test_wherever_a_write_was_cut_off_only_its_row_is_done_again(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    jobs = [job(submitted=100 * n) for n in range(5)]
    source = 'a "log",\nof two lines'
    task = SweepTask(source, take(jobs, TEACHING, folder / "jobs"), "v1", 60)
    path = folder / "results.csv"
    sweep(path, task, with_spec(task, "v2"))
    whole = path.read_bytes()
    second = whole.index(b"v2") - len(f'"{source}",') - 2
    length = len(whole) - second
    path.write_bytes(whole[: len(whole) - 1 - cut % (length - 1)])
    assert sweep(path, task, with_spec(task, "v2")) == ["v2"]
    assert [(row["source"], row["predictor"]) for row in rows(path)] == [(source, "v1"), (source, "v2")]


def test_texts_are_neither_formulas_nor_commands_and_their_rows_are_not_done_again(
    task: SweepTask, tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    task = replace(task, source="=1+1\x1b[31m\u202e.log")
    assert sweep(path, task) == [task.spec]
    assert rows(path)[0]["source"] == r"'=1+1\x1b[31m\u202e.log"
    assert sweep(path, task, with_spec(task, "v1")) == ["v1"]
    assert len(rows(path)) == 2


def test_texts_of_an_earlier_version_are_neutralised_too(task: SweepTask, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    task = replace(task, source="=1+1")
    sweep(path, task)
    path.write_text(path.read_text().replace("'=1+1", "=1+1"))
    assert sweep(path, task) == []
    assert rows(path)[0]["source"] == "'=1+1"


def test_again_starts_anew(task: SweepTask, tmp_path: Path) -> None:
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


def test_a_row_that_somebody_broke_is_named(task: SweepTask, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    sweep(path, task, with_spec(task, "v1"))
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, first + ",x", second, ""]))
    with pytest.raises(SourceError, match=r"results.csv: row 1 has \d+ fields, not \d+: mend it, or give --discard"):
        Results(path)
    path.write_text("\n".join([header.replace(",seconds", ",minutes"), first, ""]))
    with pytest.raises(SourceError, match="its columns are those of another version"):
        Results(path)


def test_two_sweeps_do_not_write_the_same_file(task: SweepTask, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Results(path) as results:
        with pytest.raises(SourceError, match=r"results.csv: another sweep is writing it"):
            Results(path)
        # Also after the file has been replaced by one with the columns that are needed.
        results.prepare([task], ["p"])
        with pytest.raises(SourceError, match=r"results.csv: another sweep is writing it"):
            Results(path)
    Results(path).__exit__()


def test_a_file_system_without_locks_will_do(task: SweepTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_full_disk_is_told_and_costs_no_row(task: SweepTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
