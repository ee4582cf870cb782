"""``softwalltime snapshot``, ``starts`` and ``replay-starts`` as an administrator types them."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.cli import run
from softwalltime.store.forecast_rows import StoredStart, publish_starts
from tests.forecast.states import NOW, recorded
from tests.samples import job
from tests.store.stored import add_jobs


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A snapshot in a file; no settings of this host."""
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(tmp_path / "softwalltime.toml"))
    (tmp_path / "softwalltime.toml").write_text("")
    path = tmp_path / "queue.json"
    found = recorded()
    path.write_text(replace(found, scheduler=replace(found.scheduler, fair_share=True)).to_json())
    return str(path)


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("starts") / "accounting"
    assert run(["generate", str(folder), "--jobs", "500", "--seed", "3"]) == 0
    return str(folder)


def test_each_waiting_job_has_an_expected_start_ranges_and_a_reason(
    queue: str, zone: Callable[[str], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zone("UTC")
    assert run(["starts", "--snapshot", queue, "--runs", "20"]) == 0
    captured = capsys.readouterr()
    assert (
        "2 running jobs, 9 waiting, 16 processors\nruntimes: walltimes, without ranges: give a history with --log"
        in captured.out
    )
    assert re.search(r"\| 3\.pbs1 +\| bob +\| long +\| +16 \| +2 h \| +16:00 \|", captured.out)
    assert "reservation R71.pbs1 ends at 16:00" in captured.out
    assert "| it is held by its user (Hold_Types = u) and cannot start before it is released" in captured.out
    assert "fair share is on: the order is approximated by the order of arrival" in captured.err
    # A range is worth more than the size of the job.
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["starts", "--snapshot", queue, "--runs", "20"]) == 0
    text = re.sub("\x1b[^m]+m", "", capsys.readouterr().out)
    assert "without walltime, 50% range: the terminal is too narrow" in text


def test_without_history_there_are_no_ranges_and_no_probability(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["starts", "--snapshot", queue, "--runs", "20", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = [row for row in found["jobs"] if row["expected"] is not None]
    assert expected
    assert {(row["range50"], row["range90"]) for row in expected} == {(None, None)}
    assert not [row for row in expected if "probability" in row["waits_for"]]


def test_json_has_all_that_the_table_has_and_what_it_rests_on(
    queue: str, accounting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["starts", "3", "5[]", "--snapshot", queue, "--log", accounting, "--runs", "20", "--format", "json"]
    documents = []
    for _ in range(2):
        assert run([*arguments, "--predictor", "v1"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1]
    found = documents[0]
    assert found["runtimes"].startswith("runtimes: v1, learnt from 0 jobs") is False
    assert {row["job"] for row in found["jobs"]} == {"3.pbs1", "5[2].pbs1", "5[3].pbs1", "5[4].pbs1"}
    for row in found["jobs"]:
        assert NOW <= row["range90"][0] <= row["range50"][0] <= row["range50"][1] <= row["range90"][1]
        assert row["basis"]


def test_runtimes_are_learnt_from_the_store_that_the_settings_name(
    queue: str, engine: Engine, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = [NOW - 5000 * number for number in range(1, 21)]
    jobs = [
        job(user, submitted=end - 1000, end=end, runtime=600, walltime=3600, job_id=f"{number}.{user}")
        for user in ("alice", "bob")
        for number, end in enumerate(ends)
    ]
    with engine.begin() as connection:
        add_jobs(connection, jobs)
    found = []
    for spec in ("v1", "calibrated:statistic=median"):
        arguments = ["starts", "3", "--snapshot", queue, "--runs", "5", "--format", "json", "--predictor", spec]
        assert run([*arguments, "--dsn", database]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert found[-1]["runtimes"] == f"runtimes: {spec}, learnt from 40 jobs of the store"
    assert found[0]["jobs"][0]["runtime"] == 600
    assert found[0]["jobs"][0]["expected"] < NOW + 3 * 3600


def test_probe_jobs_are_compared(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--if", "ncpus=4,walltime=10:00,user=carol", "--if", "ncpus=16,walltime=2:00:00,queue=long,user=carol"]
    assert run(["starts", "--snapshot", queue, "--runs", "5", "--format", "json", *arguments]) == 0
    small, large = json.loads(capsys.readouterr().out)["jobs"]
    assert small["job"] == "if ncpus=4,walltime=10:00,user=carol"
    assert small["expected"] < large["expected"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99"], "99: no such job waits"),
        (["1"], "1: it runs already"),
        (["--if", "ncpus=x"], "not a whole number"),
        (["--predictor", "v9"], "no predictor is called 'v9'"),
        (["--log", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_forecast_is_said_in_one_line(
    arguments: list[str], message: str, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["starts", "--snapshot", queue, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_without_pbs_the_snapshot_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conf = tmp_path / "pbs.conf"
    conf.write_text(f"PBS_EXEC={tmp_path}\n")
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    assert run(["snapshot"]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path}/lib: no libpbs.so (PBS_EXEC of {conf}); run this on a host that has PBS's commands" in error


def test_replay_starts_compares_forecasts_with_baselines(accounting: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = f"replay-starts {accounting} --processors 128 --sample 50 --runs 3 --every 20000".split()
    assert run(arguments) == 0
    text = capsys.readouterr().out
    for name in ("walltimes", "like jobs", "predicted runtimes", "drawn runtimes", "combined"):
        assert f"| {name} " in text
    assert "at submission: " in text
    at_once = re.search(
        r"minute: of (\d+) jobs that started at once, ([\d.]+)%; of (\d+) jobs that waited, [\d.]+%", text
    )
    assert at_once is not None
    assert float(at_once[2]) > 80
    assert run([*arguments, "--recorded", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schedule"] == "recorded"
    assert document["forecasts"]["at submission"]["combined"]["forecasts"] > 0


def test_jobs_are_selected_by_user_group_project_and_queue(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for option in (["--user", "bob"], ["--queue", "long"], ["--user", "bob", "--queue", "short"], ["--group", "none"]):
        assert run(["starts", "--snapshot", queue, "--runs", "0", "--format", "json", *option]) == 0
        found[option[-1]] = [row["job"] for row in json.loads(capsys.readouterr().out)["jobs"]]
    assert found["bob"]
    assert "3.pbs1" in set(found["bob"]) & set(found["long"])
    assert "3.pbs1" not in found["short"]
    assert found["none"] == []


def test_what_the_daemon_forecast_is_read_from_the_store(
    engine: Engine, database: str, capsys: pytest.CaptureFixture[str], queue: str
) -> None:
    arguments = ["starts", "--from-store", "--dsn", database]
    assert run(arguments) == 2
    assert "the store has no forecasts of starts" in capsys.readouterr().err
    start = StoredStart(
        "7.srv", NOW, NOW + 600, NOW, NOW + 300, NOW + 900, NOW + 1200, None, 3600, 4, "ann", "g", "chem", "long",
        "why", (0.0, 0.0, 500.0, 600.0, 700.0, 200.0, 400.0, 700.0, 1000.0),
    )  # fmt: skip
    other = replace(
        start, job_id="8[2].srv", expected=None, low90=None, low50=None, high50=None, high90=None, queue="q"
    )
    with engine.begin() as connection:
        publish_starts(connection, "srv", [start, other], NOW, 600)
    assert run([*arguments, "--project", "chem", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["job"]: row for row in document["jobs"]}
    assert rows["7.srv"]["range90"] == [NOW, NOW + 1200]
    assert (rows["8[2].srv"]["expected"], rows["8[2].srv"]["range50"]) == (None, None)
    assert run(arguments) == 0
    assert "2 waiting jobs, forecast by the daemon at " in capsys.readouterr().out
    assert run([*arguments, "8[]", "--queue", "q"]) == 0
    assert re.search(r"\| 8\[2\]\.srv +\| +ann +\| +q .*\| why", capsys.readouterr().out)
    assert run([*arguments, "9"]) == 2
    assert run([*arguments, "--snapshot", queue]) == 2
