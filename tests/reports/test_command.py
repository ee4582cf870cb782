"""``softwalltime report`` as an administrator types it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.cli import run
from softwalltime.jobs import DecisionRecord
from softwalltime.policy.plan_file import read_plan
from softwalltime.store.predictions import add_decisions, read_decisions
from tests.reports.fixtures import Elements, numbers, steady_jobs
from tests.samples import RECORDED_LOG, trace
from tests.store.stored import add_jobs


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "3000", "--seed", "3"]) == 0
    return folder


def test_report_writes_the_page_and_prints_the_recommendation(
    accounting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.html"
    output.write_text("the one before")
    capsys.readouterr()
    assert run(["report", str(accounting), "-o", str(output), "--title", "Site A", "--seeds", "31,32"]) == 0
    captured = capsys.readouterr()
    document = numbers(output.read_text())
    assert captured.err == ""
    assert captured.out.splitlines() == [
        f"{output}: 3,000 jobs, {document['scored']:,} scored",
        document["recommendation"]["sentence"],
    ]
    assert document["title"] == "Site A"
    assert document["sources"] == [str(accounting)]
    assert list(tmp_path.iterdir()) == [output]


def test_report_and_compare_write_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["generate", "logs", "--jobs", "1200", "--seed", "1"]) == 0
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


def test_predictors_and_target_follow_the_options(accounting: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    arguments = ["--predictors", "v1,percentile:p=95,keys=user", "--predictor", "v3", "--max-broken", "2.5"]
    arguments += ["--no-simulation", "--change-date", "2026-02-01"]
    assert run(["report", str(accounting), "-o", str(output), *arguments]) == 0
    document = numbers(output.read_text())
    assert list(document["scores"]) == ["request", "v1", "percentile:p=95,keys=user", "v3"]
    assert document["options"]["target"] == 0.025
    assert document["options"]["split"] == 1769904000


def test_with_pseudonyms_the_page_has_no_names_and_no_source_folder(accounting: Path, tmp_path: Path) -> None:
    plain, hidden, again = (tmp_path / f"{name}.html" for name in ("plain", "hidden", "again"))
    assert run(["report", str(accounting), "-o", str(plain), "--no-simulation"]) == 0
    for output in (hidden, again):
        arguments = ["--pseudonyms", str(tmp_path / "key"), "--no-simulation"]
        assert run(["report", str(accounting), "-o", str(output), *arguments]) == 0
    document = numbers(plain.read_text())["for_whom"]
    names = {group["name"] for kind in ("users", "projects") for group in document[kind]}
    text = hidden.read_text()
    assert len(names) > 10
    assert [name for name in names if name in text] == []
    assert str(accounting) not in text
    assert [queue["name"] for queue in document["queues"]] == [
        queue["name"] for queue in numbers(text)["for_whom"]["queues"]
    ]
    assert again.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "/nowhere/report.html"], "/nowhere/report.html: cannot be written"),
        (["--predictors", "v9"], "no predictor is called 'v9'"),
        (["--max-broken", "60"], "60.0 is not in the range"),
        (["--seeds", "31"], "--seeds needs at least two"),
        (["--change-date", "soon"], "'soon' does not match the format '%Y-%m-%d'"),
        (["--pseudonymous-queues"], "--pseudonymous-queues needs --pseudonyms KEYFILE"),
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


@pytest.mark.postgres
@pytest.mark.parametrize("set_from", [60, 45], ids=["shadow only", "shadow, then set"])
def test_the_store_supplies_predictors_and_actions(
    database: str, engine: Engine, tmp_path: Path, set_from: int
) -> None:
    jobs = steady_jobs(60)
    decisions = [
        DecisionRecord(
            submission.submitted,
            event,
            submission,
            *(
                ("on", "v3", None, soft, "set", "")
                if number >= set_from
                else ("shadow", "v3", None, soft, "shadow", "")
            ),
        )
        for number, job in enumerate(jobs[30:], 30)
        for event, submission, soft in (
            ("postqueuejob", job.submission, 1800),
            ("runjob", job.submission, 5),
            ("queuejob", replace(job.submission, job_id=""), 7),
            ("modifyjob", job.submission, None),
        )
    ]
    with engine.begin() as connection:
        add_jobs(connection, jobs)
        add_decisions(connection, decisions)
        assert {decision.event for decision in read_decisions(connection)} == {"postqueuejob", "queuejob"}
    output = tmp_path / "report.html"
    assert run(["report", "store", "--dsn", database, "-o", str(output), "--no-simulation"]) == 0
    html = output.read_text()
    happened = numbers(html)["happened"]
    assert (happened["adjusted"], happened["shadow"]) == (60 - set_from, set_from - 30)
    said = "30 jobs" if set_from == 60 else "15 jobs"
    assert re.search(
        rf"For {said}, submitted \S+ to \S+, a soft walltime was predicted in shadow mode and not set", html
    )
    names = {week["predictor"] for week in happened["weeks"]}
    if set_from == 60:
        assert names == {"v3 (shadow)"}
        assert happened["periods"] is None
        assert "There are no waits with soft walltimes to compare yet." in html
        assert "Waits before and after" not in html
    else:
        # Nothing was set for the first 45 jobs, of which the last 15 were predicted.
        assert names == {"v3 (shadow)", "v3"}
        assert [period["jobs"] for period in happened["periods"]] == [45, 15]


def test_a_recorded_trace_shows_the_published_order(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    assert run(["report", str(trace("KTH")), "-o", str(output), "--no-simulation"]) == 0
    html = output.read_text()
    assert "Here: v1 39.6%, v2 22.6%, v3 2.0%, the same order." in html
    assert len(html) < 3_000_000
