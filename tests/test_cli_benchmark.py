"""The benchmark as its user types it: figures of a replay, no label known early, and a card for each public log."""

import gzip
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.cli.benchmark import ranges_cell
from softwalltime.core.events import Kind
from softwalltime.core.jobs import Prediction
from softwalltime.measure.benchmark.cards import cards, named_logs
from softwalltime.measure.benchmark.entry import LEVELS, entered
from softwalltime.measure.benchmark.figures import HeldRange
from softwalltime.measure.benchmark.protocol import LEFT_OUT_S, SUBMISSION, ask_all
from softwalltime.measure.replay.accuracy_metrics import WEEK_S, weekly_interval
from softwalltime.measure.replay.recorded_files import RecordedFiles
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.simulation.schedule_metrics import classes
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.predict.predictors.registry import make
from tests.documented import documented, documented_rows
from tests.spy import assert_nothing_was_known_early, file_spy_environment, read_entries
from tests.traces import TRACES


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 60 days of jobs."""
    folder = tmp_path_factory.mktemp("benchmark") / "log"
    assert run(["generate", str(folder), "--jobs", "3000", "--seed", "5"]) == 0
    return folder


def workload_of(log: Path) -> Workload:
    return Workload(RecordedFiles([log]).read(Tally()))


def measured(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["benchmark", *arguments, "--format", "json"]) == status
    document: dict[str, Any] = documented("benchmark", capsys.readouterr().out)
    return document


def test_the_figures_are_those_of_a_replay(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = int(workload_of(log).submitted[0]) + LEFT_OUT_S
    begin = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    specs = "v1,v3,percentile:p=90"
    arguments = ["--predictors", specs, "--score", f"{begin}..2100-01-01", "--min-soft-walltime", "1"]
    capsys.readouterr()
    assert run(["replay", str(log), *arguments, "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)["predictors"]
    rows = measured(capsys, str(log), "--predictors", specs)["figures"]
    for row in rows:
        figures = (
            expected[row["predictor"]]["all"] if "all" in expected[row["predictor"]] else expected[row["predictor"]]
        )
        assert row["jobs"] == figures["jobs"] > 1000
        for ours, theirs in {"accuracy": "accuracy_mean", "underestimated": "underestimated"}.items():
            assert row[ours] == pytest.approx(figures[theirs], rel=1e-9)
        assert row["mean_absolute_error"] == pytest.approx(figures["mean_absolute_error"], rel=1e-9)
        assert row["accuracy95"][0] < row["accuracy"] < row["accuracy95"][1]


def test_no_predictor_knows_a_label_early(log: Path, tmp_path: Path) -> None:
    environment = file_spy_environment(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        command = [sys.executable, "-m", "softwalltime", "benchmark", str(log), "--predictors", "file-spy"]
        subprocess.run(command, check=True, capture_output=True)
    entries = read_entries(tmp_path / "spied")
    assert_nothing_was_known_early(entries, workload_of(log))
    asked = [entry for entry in entries if entry.did == "predict"]
    # At submission and at start.
    assert len(asked) > 1.9 * len({entry.job_id for entry in asked}) > 1900


def test_the_answers_are_those_of_the_predictor_in_one_process(log: Path) -> None:
    workload, spec = workload_of(log), "calibrated:target=0.1"
    with entered(spec) as entry:
        answers = ask_all(workload, entry).answers
    model, expected = make(spec), {}
    for stride in workload.stream(everything=True):
        for kind, number, job, now, teaches in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED:
                expected[number] = model.predict(job.submission, job.submission.submitted)
            model.observe(event_of(kind, now, job))
            if kind == Kind.ENDED and teaches:
                model.learn(job)
    found = answers[SUBMISSION]
    for number, seconds, quantiles in zip(found.jobs.tolist(), found.seconds, found.quantiles, strict=True):
        answer = expected[number]
        assert isinstance(answer, Prediction)
        assert (seconds, quantiles.tolist()) == (answer.seconds, answer.quantiles(LEVELS))
    runs = np.minimum(workload.runtime, workload.walltime)
    assert len(found.jobs) > 1000
    assert len(answers["10 min"].jobs) == sum(runs[answers["start"].jobs] > 600)


def test_the_walltime_counts_where_there_is_no_distribution(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = workload_of(log)
    with entered("percentile") as entry:
        first = ask_all(workload, entry).answers[SUBMISSION]
    unknown = np.isnan(first.seconds)
    assert 0 < unknown.sum() < len(unknown)
    median = np.where(unknown, workload.walltime[first.jobs], first.quantiles[:, LEVELS.index(0.5)])
    error = np.abs(median - np.minimum(workload.runtime, workload.walltime)[first.jobs]).mean()
    (row,) = measured(capsys, str(log), "--predictors", "percentile")["figures"]
    assert row["median_absolute_error"] == pytest.approx(error)


def test_a_predictor_that_fails_has_a_row_with_the_reason(log: Path, tmp_path: Path) -> None:
    environment = {**file_spy_environment(tmp_path), "SPY_FAILS": "learn"}
    command = [sys.executable, "-m", "softwalltime", "benchmark", str(log), "--predictors", "failing-spy,v3"]
    done = subprocess.run([*command, "--format", "csv"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1, done.stderr
    failed, whole = documented_rows("benchmark", done.stdout)
    assert "ArithmeticError: no learn" in failed["failure"]
    assert (whole["failure"], bool(whole["accuracy"])) == ("", True)
    assert "Traceback" not in done.stderr
    assert "failing-spy on log: " in done.stderr


def test_a_public_log_is_known_by_its_contents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = sorted(TRACES.glob("KTH*.swf.gz"))
    if not found:
        pytest.skip("the recorded traces are not there")
    with gzip.open(found[0]) as packed, (tmp_path / "renamed.swf").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    (tmp_path / "other.swf").write_text("; no public log\n1 0 0 10 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    card = cards()[0]
    assert [(log.name, log.card) for log in named_logs([tmp_path])] == [("KTH-SP2", card), ("other.swf", None)]
    document = measured(
        capsys,
        str(tmp_path / "renamed.swf"),
        "--predictors",
        "calibrated,v1",
        "--limit",
        "4000",
        "--page",
        str(tmp_path / "b.html"),
    )
    page = (tmp_path / "b.html").read_text()
    assert (page.count("<polyline"), card.institution in page, "v1" in page) == (1, True, True)
    assert [log["name"] for log in document["logs"]] == ["KTH-SP2"]
    assert len(document["missing"]) == len(cards()) - 1
    assert [(row["log"], row["trained"]) for row in document["figures"]] == [("KTH-SP2", True), ("KTH-SP2", False)]
    classes = {held["kind"]: held for held in document["figures"][0]["ranges"]}
    assert classes.keys() >= {"when", "walltime"}
    assert all(held["held50"] < held["held90"] for held in classes.values())
    for held in document["figures"][0]["ranges"]:
        for share in ("50", "90"):
            low, high = held[f"interval{share}"]
            assert low <= held[f"held{share}"] <= high


def test_what_ranges_hold_beyond_chance_is_marked() -> None:
    first = HeldRange("user", "1st job", 100, 0.31, 0.89, (0.15, 0.48), (0.80, 0.98))
    second = HeldRange("user", "2nd to 20th", 100, 0.28, 0.93, (0.05, 0.51), (0.91, 0.95))
    assert [ranges_cell([held]) for held in (first, second)] == ["31!/89", "28/93!"]
    assert ranges_cell([first, second]) == "28-31!/89-93!"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere"),
        (("{empty}",), "empty"),
        (("{text}",), "text.swf: no job with a walltime to score"),
        (("{broken}",), "broken.swf.gz: Not a gzipped file"),
        (("{empty}", "--predictors", "nobody"), "no predictor is called 'nobody'"),
    ],
)
def test_bad_input_is_named_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.swf").write_text("; nothing\n")
    (tmp_path / "broken.swf.gz").write_text("not packed")
    places = {"empty": tmp_path / "empty", "text": tmp_path / "text.swf", "broken": tmp_path / "broken.swf.gz"}
    assert run(["benchmark", *(argument.format(**places) for argument in arguments)]) != 0
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[-1]
    assert len(lines) == 1


def test_malformed_lines_are_counted_and_shown(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = Path(shutil.copytree(log, tmp_path / "damaged"))
    first = min(damaged.iterdir())
    first.write_text("no record\n" * 12 + first.read_text())
    assert run(["benchmark", str(damaged), "--predictors", "v1,v3", "--limit", "300"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0].startswith(f"{first}:1: "), len(lines)) == (True, 11)
    assert lines[-1] == "... and 2 more malformed lines"


def test_a_week_is_one_sample_of_an_interval() -> None:
    # Ten jobs a week with one value are ten weeks, not a hundred jobs.
    values = np.repeat(np.arange(10.0), 10)
    low, high = weekly_interval(values, np.repeat(np.arange(10) * WEEK_S, 10))
    once = 1.96 * np.std(np.arange(10.0), ddof=1) / np.sqrt(10)
    assert (low, high) == pytest.approx((4.5 - once, 4.5 + once))


POLICIES = """
[today]
backfill = "pbs"
[shortest]
backfill = "pbs"
order = "formula"
formula = "1e6 / walltime"
"""


def test_schedules_are_those_of_simulate(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text(POLICIES)
    common = ["--policies", str(tmp_path / "p.toml"), "--seeds", "31", "--processes", "1"]
    document = measured(capsys, str(log), "--schedules", *common, "--page", str(tmp_path / "b.html"))
    by = [text for kind in ("runtime", "size", "queue") for text in ("--by", kind)]
    assert run(["simulate", str(log), *common, "--shake", "week", *by, "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    today, shortest, chance = document["schedules"]
    assert (today["policy"], shortest["policy"], document["figures"]) == ("today", "shortest", [])
    assert chance["change_wait_mean"]["mean"] != 0
    for row in (today, shortest):
        for name in ("wait_mean", "bsld10_mean", "broken"):
            assert row[name] == pytest.approx(expected["policies"][row["policy"]][name])
    assert shortest["change_wait_mean"]["mean"] == pytest.approx(
        expected["relative_changes"]["shortest"]["wait_mean"]["mean"]
    )
    # The policy makes long jobs pay: no class of at least 50 jobs waits relatively longer than the one that is named.
    jobs = jobs_of(workload_of(log).jobs)
    growth = {
        f"{kind} {name}": [after[figure] / before[figure] - 1 for figure in ("wait_mean", "bsld10_mean")]
        for kind, by_policy in expected["classes"].items()
        for name, before in by_policy["today"].items()
        if len(classes(jobs, kind, expected["processors"])[name]) >= 50
        and abs((after := by_policy["shortest"][name])["wait_mean"] - before["wait_mean"]) >= 60
    }
    for index, (name, change) in enumerate((
        ("worst_class", "change_worst_class"), ("worst_slowdown_class", "change_worst_slowdown"),
    )):  # fmt: skip
        worst = max(of_class[index] for of_class in growth.values())
        assert shortest[change]["mean"] >= worst - 1e-9
        assert worst > 0.1
        if not shortest[name].startswith("user "):
            assert shortest[change]["mean"] == pytest.approx(growth[shortest[name]][index])
    page = (tmp_path / "b.html").read_text()
    assert shortest["worst_class"] in page
    users = set(workload_of(log).jobs.values("user"))
    assert not [user for user in users if user and (user in page or user in json.dumps(document))]


def test_a_log_without_a_job_to_schedule_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.swf").write_text("; nothing\n")
    assert run(["benchmark", str(tmp_path / "text.swf"), "--schedules"]) == 1
    assert capsys.readouterr().err == "text.swf: no job with a walltime to score\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "31"), "add --schedules"),
        (("--schedules", "--predictors", "v3"), "add --runtimes or --starts"),
        (("--schedules", "--policies", "{wrong}"), "[mine]: unknown key ordr; is order meant?"),
    ],
)
def test_options_that_nothing_uses_are_refused(
    arguments: tuple[str, ...], message: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.toml").write_text('[mine]\nordr = "f1"\n')
    given = (argument.format(wrong=tmp_path / "wrong.toml") for argument in arguments)
    assert run(["benchmark", str(log), *given]) == 2
    assert message in capsys.readouterr().err


def test_start_times_are_those_of_replay_starts(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--predictor", "last2", "--sample", "15", "--runs", "3", "--every", "40000"]
    page = tmp_path / "b.html"
    documents = measured(capsys, str(log), "--starts", *common, "--processes", "1", "--page", str(page))["starts"]
    assert page.read_text().count("simulated, at submission") == 1
    assert [document["schedule"] for document in documents] == ["simulated", "recorded"]
    for document, how in zip(documents, ([], ["--recorded"]), strict=True):
        assert run(["replay-starts", str(log), *common, *how, "--format", "json"]) == 0
        assert document == json.loads(capsys.readouterr().out) | {"source": "log"}
        for by_method in document["forecasts"].values():
            # A job without walltime, of which nothing is known, would make it 70 times the wait.
            assert 0 < by_method["combined"]["relative"] < 3
            assert 0 < by_method["combined"]["covered90"] <= 1


def test_a_log_in_which_no_job_waits_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "idle.swf").write_text(
        "".join(f"{n} {900 * n} 0 10 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n" for n in (1, 2))
    )
    arguments = [str(tmp_path / "idle.swf"), "--starts", "--processes", "1", "--format", "csv"]
    assert run(["benchmark", *arguments]) == 0
    captured = capsys.readouterr()
    assert documented_rows("benchmark", captured.out) == []
    assert captured.err.splitlines() == [
        f"{how} starts of idle.swf: no job waits on 1 processor: nothing to forecast"
        for how in ("simulated", "recorded")
    ]


def test_a_predictor_that_fails_has_no_start_times(log: Path, tmp_path: Path) -> None:
    environment = {**file_spy_environment(tmp_path), "SPY_FAILS": "learn"}
    command = [
        sys.executable,
        "-m",
        "softwalltime",
        "benchmark",
        str(log),
        "--starts",
        "--processes",
        "1",
        "--limit",
        "900",
    ]
    command += [
        "--sample",
        "5",
        "--runs",
        "2",
        "--every",
        "90000",
        "--predictors",
        "failing-spy,last2",
        "--format",
        "csv",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1, done.stderr
    assert {row["predictor"] for row in documented_rows("benchmark", done.stdout)} == {"last2"}
    assert done.stderr.splitlines() == [
        f"{how} starts of log: ArithmeticError: no learn" for how in ("simulated", "recorded")
    ]
