"""``softwalltime experiment`` as a reader of the papers types it."""

import json
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.measure.experiments import plan
from softwalltime.measure.experiments.plan import PlannedRun
from tests.traces import TRACES


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1200", "--seed", "5"]) == 0
    return str(folder)


def test_a_paper_is_repeated_on_each_trace(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["experiment", "rubio2021", logs, logs, "--limit", "400", "--format", "json", "--processes", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {claim["paper"] for claim in document["claims"]} == {"rubio2021"}
    first, second = document["experiments"]
    assert first == second
    assert first["source"] == logs
    assert first["jobs"] <= 400
    assert {"fig1", "fig2_3", "fig5", "fig6", "table4", "table5", "table5_limit", "bound"} <= set(first["tables"])
    row = first["tables"]["table4"]["rows"][1]
    assert row["change"]["low"] is None, "one workload gives no interval"


def test_seeds_give_intervals(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = [
        "experiment",
        "rubio2021",
        logs,
        "--seeds",
        "31-33",
        "--processors",
        "64",
        "--limit",
        "400",
        "--processes",
        "1",
    ]
    assert run([*arguments, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    change = found["tables"]["table4"]["rows"][1]["change"]
    assert change["low"] < change["mean"] < change["high"]
    assert found["settings"]["seeds"] == "31 32 33"


def test_the_text_has_the_tables_of_the_paper(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["experiment", "tang2013", logs, "--limit", "800", "--processes", "1"]) == 0
    text = capsys.readouterr().out
    assert logs in text
    assert text.startswith("| paper ")
    assert text.index("User, project and walltime at p70") < text.index("### Figure 15(d)")


def test_all_papers_are_repeated_on_the_logs_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TRACES / "KTH-SP2-1996-unfiltered.swf.gz"
    if not trace.exists():
        pytest.skip(f"{trace} is missing: make traces")
    planned = (PlannedRun("rubio2021", "KTH-SP2", processors=128, limit=300), PlannedRun("li2004", "UniLu-Gaia"))
    monkeypatch.setattr(plan, "PLAN", planned)
    (tmp_path / "any name.swf.gz").symlink_to(trace)
    capsys.readouterr()
    assert run(["experiment", "all", str(tmp_path), "--limit", "200", "--processes", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("<!-- Written by: softwalltime experiment all TRACES -->\n# Results")
    assert "JSSPP 2021: KTH-SP2 on 128 processors\n" in captured.out
    assert captured.out.count("\n## ") == 1
    assert "UniLu-Gaia is missing: get it from https://" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tang1999"], "'tang1999' is not one of"),
        (["tang2013", "/nowhere.swf"], "/nowhere.swf: No such file"),
        (["tang2013"], "Missing argument 'TRACE...'"),
        (["fan2017", "LOGS", "--predictor", "v9"], "no predictor is called 'v9'"),
        (["tang2013", "LOGS", "--predictor", "v1"], "tang2013 does not compare further predictors: omit --predictor"),
        (["all", "LOGS", "--seeds", "1-3"], "all has its own settings: omit --processors, --months and --seeds"),
        (["all", "LOGS"], "no log of the experiments is there; "),
        (["tang2013", "LOGS", "--months", "400", "--limit", "10"], "there is no month 400"),
        (["tang2013", "LOGS", "--months", "0"], "there is no month 0"),
    ],
)
def test_wrong_use_gets_one_line(
    arguments: list[str], message: str, logs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["experiment", *(logs if argument == "LOGS" else argument for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_trace_in_standard_workload_format_is_named_by_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"{number} {number * 300} -1 {200 + number % 7 * 100} 4 -1 -1 4 3600 -1 1 {number % 5} 1 1 1 -1 -1 -1"
        for number in range(1, 301)
    ]
    path = tmp_path / "small.swf"
    path.write_text("; UnixStartTime: 1000000000\n" + "\n".join(lines) + "\n")
    assert run(["experiment", "li2004", str(path), "--processors", "8", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    assert found["jobs"] == 300
