"""``softwalltime tune`` as an administrator types it."""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.cli import run, tune_predictor
from softwalltime.core.progress import no_progress
from softwalltime.core.states import TEACHING
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.training import weights
from softwalltime.measure.tuning.choice import split_at
from softwalltime.measure.tuning.site_weights import TrainingLogs, trained
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.site import site_policy
from softwalltime.predict.predictors.learned.network import load

NO_TORCH = "the extra train is not installed (PyTorch)"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "800", "--seed", "5"]) == 0
    return str(folder)


def test_it_chooses_simulates_recommends_and_writes(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    settings, keep = tmp_path / "softwalltime.toml", tmp_path / "kept"
    settings.write_text("# ours\nkeep_days = 30\n\n[policy]\nmode = 'off' # for now\n")
    arguments = [
        "tune", logs, "--predictors", "v1,v3,calibrated:target=0.05|0.1", "--processes", "1", "--seeds", "31-33",
        "--keep", str(keep),
    ]  # fmt: skip
    assert run([*arguments, "--write", str(settings)]) == 0
    text = capsys.readouterr().out
    assert "chosen by " in text
    assert "| safe " in text
    assert "Cannot tell whether soft walltimes would help: only 7" in text, "800 jobs are too few"
    document = tomllib.loads(settings.read_text())
    assert document["keep_days"] == 30
    assert "# ours" in settings.read_text()
    assert site_policy(document["policy"]).waiting == document["policy"]["waiting"]
    assert document["policy"]["mode"] == "shadow", "a site switches a recommendation on itself"
    size = keep.stat().st_size
    assert run([*arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert keep.stat().st_size == size, "the same command computes nothing again"
    assert set(found["trials"]) == {
        "request", "factor:0.5", "v1", "v3", "calibrated:target=0.05", "calibrated:target=0.1"
    }  # fmt: skip
    assert found["chosen"]["accurate"] in found["trials"]
    assert found["policies"]["today"]["wait_mean"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere.swf"], "/nowhere.swf: No such file"),
        (["--predictors", "v9", "LOGS"], "no predictor is called 'v9'"),
        (["LOGS", "--write", "/nowhere/s.toml"], "/nowhere/s.toml: cannot be written"),
        (["LOGS", "--until", "1999-01-01"], "is selected"),
        (["LOGS", "--split", "0.0001"], "too few jobs"),
        (["LOGS", "--train-with", "other.swf"], "--train-with needs --train"),
        (["LOGS", "--weights", "weights.json"], "--weights needs --train"),
    ],
)
def test_wrong_use_gets_one_line(
    logs: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["tune", *(logs if each == "LOGS" else each for each in arguments)]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def torch_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch seems to be installed: for what is checked before it is imported."""
    monkeypatch.setattr(weights, "find_spec", lambda _: True)


def test_without_pytorch_training_says_what_to_install(
    logs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    capsys.readouterr()
    assert run(["tune", logs, "--train"]) == 1
    error = capsys.readouterr().err
    assert "torch is missing: run pip install 'pbs-softwalltime[train]'" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("torch_found")
def test_training_refuses_what_would_learn_the_later_part_or_cannot_be_named(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(logs, copy)
    capsys.readouterr()
    for arguments, message in (
        (["--train-with", logs], f"--train-with {logs}: SOURCE has this log"),
        (["--train-with", str(copy)], f"--train-with {copy}: SOURCE has its jobs"),
        (["--weights", "/nowhere/w.json"], "/nowhere/w.json: cannot be written"),
        (["--keep", "/nowhere/kept"], "/nowhere/kept: cannot be written"),
        (["--weights", str(tmp_path / "a,b.json")], "cannot name a path with a comma"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tune_predictor, "MIN_TRAINING_JOBS", 100)
            assert run(["tune", logs, "--train", *arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("torch_found")
def test_a_log_too_small_to_train_is_tuned_without_weights(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", logs, "--predictors", "v1", "--simulated-jobs", "0", "--processes", "1"]
    capsys.readouterr()
    assert run(arguments) == 0
    without = capsys.readouterr().out
    assert run([*arguments, "--train"]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = [line for line in lines if line.startswith("No weights were trained: ")]
    assert len(said) == 1
    assert "jobs of the log could be used, 5,000 are needed" in said[0]
    # The last columns have the processor time, which differs.
    before, after = ([line.split("|")[1:8] for line in each if "|" in line] for each in (without.splitlines(), lines))
    assert before == after


def test_weights_of_the_earlier_part_are_tried_kept_and_named(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    monkeypatch.setattr(tune_predictor, "MIN_TRAINING_JOBS", 100)
    other, settings, keep = tmp_path / "other", tmp_path / "softwalltime.toml", tmp_path / "kept"
    assert run(["generate", str(other), "--jobs", "300", "--seed", "9"]) == 0
    arguments = [
        "tune", logs, "--train", "--train-with", str(other), "--predictors", "calibrated", "--simulated-jobs", "0",
        "--processes", "1", "--keep", str(keep), "--write", str(settings), "--format", "json",
    ]  # fmt: skip
    capsys.readouterr()
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    file = Path(found["weights"]["file"])
    assert file.parent == tmp_path
    about, split = load(str(file)).about, found["split"]
    assert list(about["logs"]) == ["accounting", "other"]
    assert about["options"]["ended_by"] == split["cut"]
    assert about["logs"]["other"] == load(found["weights"]["choosing"]).about["logs"]["other"]
    assert about["logs"]["accounting"] > load(found["weights"]["choosing"]).about["logs"]["accounting"]
    named = f"calibrated:weights={file}"
    assert set(found["trials"]) == {"request", "factor:0.5", "calibrated", named}
    before, after = found["trials"][named]["parts"]
    assert before["jobs"] == found["trials"]["request"]["parts"][0]["jobs"]
    assert after["accuracy_mean"] != found["trials"]["calibrated"]["parts"][1]["accuracy_mean"]
    made, size = file.stat().st_mtime_ns, keep.stat().st_size
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert (file.stat().st_mtime_ns, keep.stat().st_size) == (made, size), "the same command computes nothing again"
    arguments[arguments.index("calibrated")] = given = f"calibrated:weights={file},target=0.05"
    assert run(arguments) == 0
    again = json.loads(capsys.readouterr().out)["trials"]
    assert again[given]["parts"] == again[f"calibrated:target=0.05,weights={file}"]["parts"]


def test_trained_weights_depend_on_nothing_that_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    monkeypatch.chdir(tmp_path)
    jobs = generate(600, seed=5)
    split = split_at(Workload(jobs), 0.5, 0.7)
    assert split is not None
    found = []
    for number, factor in enumerate((1, 3)):
        known = [replace(job, runtime=factor * job.runtime) if job.end > split.cut else job for job in jobs]
        file = Path(f"{number}.json")
        columns = JobColumns.of([job for job in known if number or job.submission.submitted < split.cut])
        logs = TrainingLogs([("log", columns)], TEACHING)
        with trained(logs, split, lambda _, file=file: file, None, no_progress) as made:
            found.append([load(made.file).digest, load(made.choosing).digest])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_the_walltimes_are_reported_where_every_predictor_is_too_slow(
    logs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "tune",
        logs,
        "--predictors",
        "v1",
        "--simulated-jobs",
        "0",
        "--processes",
        "1",
        "--time-limit",
        "0.000001",
    ]
    capsys.readouterr()
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "not tried: v1: took longer than" in text
    assert "not tried: request" not in text
