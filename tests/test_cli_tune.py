"""``softwalltime tune`` as an administrator types it."""

import json
from pathlib import Path

import pytest

from softwalltime.cli import run


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "800", "--seed", "5"]) == 0
    return str(folder)


def test_it_chooses_simulates_recommends_and_writes(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    plan, keep = tmp_path / "plan.toml", tmp_path / "kept"
    arguments = [
        "tune", logs, "--predictors", "v1,v3,calibrated:target=0.05|0.1", "--processes", "1", "--seeds", "31-32",
        "--keep", str(keep),
    ]  # fmt: skip
    assert run([*arguments, "--write", str(plan)]) == 0
    text = capsys.readouterr().out
    assert "chosen by " in text
    assert "| safe " in text
    assert "Cannot tell whether soft walltimes would help: only 7" in text, "800 jobs are too few"
    assert f"{plan}: not written: no policy is recommended" in text
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
    ],
)
def test_wrong_use_gets_one_line(
    logs: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["tune", *(logs if each == "LOGS" else each for each in arguments)]) == 2
    assert message in capsys.readouterr().err


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
