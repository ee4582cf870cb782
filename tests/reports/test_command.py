"""``softwalltime report`` as an administrator types it."""

import json
import re
from pathlib import Path

import pytest

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.predict.policy.plan_file import read_plan
from tests.reports.fixtures import Elements
from tests.samples import RECORDED_LOG


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1500", "--seed", "3"]) == 0
    return folder


def test_report_writes_the_page_and_prints_the_recommendation(
    accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.html"
    output.write_text("the one before")
    capsys.readouterr()
    assert run(["report", str(accounting), "-o", str(output), "--seeds", "31,32"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    head, sentence = captured.out.splitlines()
    assert re.fullmatch(rf"{re.escape(str(output))}: 1,500 jobs, [\d,]+ scored", head)
    page = Elements(output.read_text())
    assert page.text.count(sentence) == 2
    assert f"read from {accounting}." in page.text
    assert list(tmp_path.iterdir()) == [output]


def test_report_and_compare_write_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["generate", "logs", "--jobs", "1200", "--seed", "3"]) == 0
    shared = ["logs", "--processors", "128", "--seeds", "31-33", "--processes", "1", "--max-broken", "50", "--write"]
    assert run(["report", "--predictors", "v1", *shared, "plan.toml"]) == 0
    said = capsys.readouterr().out
    assert "plan.toml: written; softwalltime policy set plan.toml lists what it changes" in said
    assert run(["policy", "compare", *shared, "compared.toml"]) == 0
    plan, compared = read_plan(Path("plan.toml")), read_plan(Path("compared.toml"))
    assert plan.recommendation in said
    assert plan.recommendation.startswith("Switch on ")
    assert compared.model_copy(update={"written": plan.written}) == plan
    assert plan.promised.change.high < 0
    assert {found.kind for found in plan.promised.classes} == {"runtime", "size", "queue"}


def test_without_a_recommendation_there_is_no_plan(
    accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, plan = tmp_path / "report.html", tmp_path / "plan.toml"
    arguments = ["--no-simulation", "--predictors", "v1", "-o", str(output), "--write"]
    capsys.readouterr()
    assert run(["report", str(accounting), *arguments, str(plan), "--format", "json"]) == 0
    assert capsys.readouterr().err == f"{plan}: not written: no policy is recommended\n"
    assert not plan.exists()
    assert run(["report", str(accounting), *arguments, str(tmp_path / "none" / "plan.toml")]) == 2
    assert "the folder does not exist" in capsys.readouterr().err


def test_predictors_and_limits_follow_the_options(
    accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.html"
    arguments = ["--predictors", "v1,percentile:p=95,keys=user", "--predictor", "v3", "--max-broken", "2.5"]
    arguments += ["--max-longest", "20", "--no-simulation", "--format", "json"]
    capsys.readouterr()
    assert run(["report", str(accounting), "-o", str(output), *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["predictors"]) == ["request", "v1", "percentile:p=95,keys=user", "v3"]
    assert document["limits"] == {"tail": 0.05, "longest": 0.2, "broken": 0.025}


def test_with_pseudonyms_the_page_has_no_names_and_no_source_folder(accounting: Path, tmp_path: Path) -> None:
    plain, hidden, again = (tmp_path / f"{name}.html" for name in ("plain", "hidden", "again"))
    few = ["--simulated-jobs", "300", "--seeds", "31-32"]
    assert run(["report", str(accounting), "-o", str(plain), *few]) == 0
    for output in (hidden, again):
        assert run(["report", str(accounting), "-o", str(output), *few, "--pseudonyms", str(tmp_path / "key")]) == 0
    submissions = [job.submission for job in read_jobs(find_logs([accounting]).files, Tally())]
    names = {one.user for one in submissions}
    queues = {f"<bdi>{one.queue}</bdi>" for one in submissions[-300:]}
    text = hidden.read_text()
    assert len([name for name in names if name in plain.read_text()]) >= 10
    assert [name for name in names if name in text] == []
    assert str(accounting) not in text
    assert [queue for queue in queues if queue not in text] == []
    assert again.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "/nowhere/report.html"], "/nowhere/report.html: cannot be written"),
        (["--predictors", "v9"], "no predictor is called 'v9'"),
        (["--max-broken", "60"], "60.0 is not in the range"),
        (["--seeds", "31"], "--seeds needs at least two"),
        (["--pseudonyms", "/nowhere/key"], "/nowhere/key: the key for pseudonyms cannot be read or created"),
    ],
)
def test_a_wrong_argument_gets_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["report", str(RECORDED_LOG), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_short_log_gives_no_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "report.html"
    assert run(["report", str(RECORDED_LOG), "-o", str(output)]) == 0
    assert "Cannot tell whether soft walltimes would help: only 39 scored jobs" in capsys.readouterr().out
    assert "42 jobs of 4 users" in Elements(output.read_text()).text
