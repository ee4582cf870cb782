"""A misspelt name gets the name that is most like it."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from tests.samples import RECORDED_LOG


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["--predictors", "percentil"], "no predictor is called 'percentil'; is percentile meant?"),
        (["--predictor", "percentile:keyz=user"], "percentile has no option 'keyz'; is keys meant?"),
        (["--predictor", "percentile:keys=usr+project"], "is user meant? keys are one or more of user, group,"),
        (["--predictorz", "v1"], "--predictor"),
    ],
)
def test_a_misspelt_name_gets_a_question(
    arguments: list[str], question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(RECORDED_LOG), *arguments]) == 2
    error = capsys.readouterr().err
    assert question in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["advise", "alice"], ["replay", "store"], ["report", "store", "-o", "-"], ["starts", "--from-store"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_reads_makes_no_store(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--data-dir", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/none: no store is there." in error
    assert "--log SOURCE" in error or arguments[0] != "advise"
    assert "softwalltime ingest LOGS" in error
    assert not list(tmp_path.iterdir())
