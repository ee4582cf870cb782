"""The options that select jobs: the same jobs in each command, by a plain count of the records."""

import csv
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from softwalltime.accounting.folders import find_logs
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob
from tests.reports.fixtures import Elements

FAST = ["--no-simulation"]


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("generated") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1200", "--seed", "7"]) == 0
    return str(folder)


@pytest.fixture(scope="module")
def records(accounting: str) -> list[CompletedJob]:
    return list(read_jobs(find_logs([Path(accounting)]).files, Tally()))


def day(job: CompletedJob) -> str:
    return datetime.fromtimestamp(job.submission.submitted, UTC).date().isoformat()


def time(job: CompletedJob) -> str:
    return datetime.fromtimestamp(job.submission.submitted, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def replayed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert run(["replay", *arguments, "--predictors", "v1", "--format", "json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_options_combine_and_days_are_included(
    accounting: str, records: list[CompletedJob], capsys: pytest.CaptureFixture[str]
) -> None:
    days = sorted({day(job) for job in records})
    first, last = days[len(days) // 4], days[len(days) // 2]
    users = sorted({job.submission.user for job in records})[:4]
    queue = max({job.submission.queue for job in records}, key=lambda name: (len(name), name))
    project = records[0].submission.project
    cases: list[tuple[list[str], Callable[[CompletedJob], bool]]] = [
        (["--since", first, "--until", last], lambda job: first <= day(job) <= last),
        (["--until", f"{last}T08:00"], lambda job: time(job) < f"{last}T08:00"),
        (["--queue", queue], lambda job: job.submission.queue == queue),
        (
            [option for user in users for option in ("--user", user)] + ["--since", first],
            lambda job: job.submission.user in users and day(job) >= first,
        ),
        (["--project", project, "--queue", queue], lambda job: (job.submission.project, job.submission.queue) == (
            project, queue
        )),
    ]  # fmt: skip
    for options, chosen in cases:
        expected = sum(map(chosen, records))
        assert 0 < expected < len(records)
        document = replayed([accounting, *options], capsys)
        assert document["jobs"] == expected, options
    assert replayed([accounting], capsys)["selection"] is None


def test_each_command_uses_the_same_jobs(
    accounting: str, records: list[CompletedJob], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = sorted({day(job) for job in records})
    first, last = days[3], days[-3]
    queue = records[0].submission.queue
    options = [accounting, "--since", first, "--until", last, "--queue", queue]
    kept = [job for job in records if first <= day(job) <= last and job.submission.queue == queue]
    document = replayed(options, capsys)
    selection = str(document["selection"])
    assert selection.startswith(f"submitted since {first}, submitted before ")
    assert selection.endswith(f"queue {queue}")
    output = tmp_path / "report.html"
    assert run(["report", *options, "-o", str(output), *FAST]) == 0
    page = output.read_text()
    assert f"{len(kept)} jobs of " in page
    assert f"Only the jobs selected: {selection}." in Elements(output.read_text()).text
    capsys.readouterr()
    assert run(["report", *options, "-o", "-", *FAST]) == 0
    printed = capsys.readouterr()
    assert printed.out == page
    assert printed.err.startswith(f"report: {len(kept)} jobs, ")
    assert run(["simulate", *options, "--processors", "100000", "--format", "json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert simulated["jobs"] + sum(simulated["left_out"].values()) == len(kept) == document["jobs"]
    assert simulated["selection"] == selection
    table = tmp_path / "sweep.csv"
    assert run(["sweep", *options, "-o", str(table), "--predictor", "v1", "--processes", "1"]) == 0
    with table.open(newline="") as stream:
        assert {int(row["jobs"]) for row in csv.DictReader(stream)} == {document["scored"]}


def test_a_page_for_standard_output_needs_no_writable_folder(
    accounting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As in a container that runs as an ordinary user; root may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run(["report", accounting, "--limit", "300", "-o", "report.html", *FAST]) == 2
    assert run(["report", accounting, "--limit", "300", "-o", "-", *FAST]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_with_pseudonyms_the_selection_names_nobody(
    accounting: str, records: list[CompletedJob], tmp_path: Path
) -> None:
    user = records[0].submission.user
    output = tmp_path / "report.html"
    arguments = ["--user", user, "--pseudonyms", str(tmp_path / "key"), "-o", str(output), *FAST]
    assert run(["report", accounting, *arguments]) == 0
    html = output.read_text()
    assert user not in html
    assert "Only the jobs selected: user user-" in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "yesterday"], "'yesterday' is not a day or a time, such as 2026-11-02"),
        (
            ["--until", "1990-01-01"],
            "no completed job in LOGS is selected (submitted before 1990-01-02): correct the options",
        ),
        (["--user", "nobody\x1b"], "is selected (user nobody?)"),
        (["--since", "0000-00-00"], "'0000-00-00' is not a day or a time"),
    ],
)
def test_a_wrong_selection_is_one_clear_line(
    accounting: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["replay", accounting, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error.replace(accounting, "LOGS")
