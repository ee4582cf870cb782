"""``softwalltime collect`` and ``--site``, as an administrator types them."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.cli.collecting import anonymous_snapshot
from softwalltime.cli.site_options import ASSUMED, SiteOptions
from softwalltime.measure.forecast.snapshot import (
    SCHED_CONFIG_UNREAD,
    AdvanceReservation,
    QueueSettings,
    load_snapshot,
)
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup
from softwalltime.reports.pseudonyms import Pseudonyms, read_key
from tests.forecast.states import NOW, server

LIMITS = (("max_run", "[u:alice=5],[u:PBS_GENERIC=9]"), ("max_run_res.lic", "[u:PBS_GENERIC=4]"))
SEEDS = ("--seeds", "31-32")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "accounting"
    assert run(["generate", str(folder), "--jobs", "1300", "--seed", "5", "--users", "12"]) == 0
    return folder


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A server that reserves nothing and has a queue by which jobs without a walltime get one."""
    queue = QueueSettings("batch", execution=True, enabled=True, started=True, default_walltime=3600, limits=LIMITS)
    path = tmp_path / "queue.json"
    shares = FairShareSettings(groups=(ShareGroup("physics", "root", 3), ShareGroup("alice", "physics", 1)))
    path.write_text(replace(server(128, strict_ordering=False, shares=shares), queues=(queue,)).to_json())
    return path


@pytest.mark.parametrize("command", ["report", "policy compare", "tune"])
def test_the_verdict_is_about_the_scheduler_of_the_site(
    command: str, logs: Path, snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "report": ["--predictors", "v3", "-o", str(tmp_path / "report.html")],
        "policy compare": [],
        "tune": ["--predictors", "v3", "--simulated-jobs", "1300"],
    }[command]
    arguments = [*command.split(), str(logs), "--site", str(snapshot), *SEEDS, *more, "--format", "json"]
    assert run(arguments) == 0
    text = capsys.readouterr().out
    assert "order of arrival, not strict" in text
    assert "these limits are not modelled: max_run_res.lic" in text
    if command == "report":
        assert json.loads(text)["processors"] == 128
        page = (tmp_path / "report.html").read_text()
        assert "Not simulated as it is: these limits are not modelled: max_run_res.lic" in page


def test_where_no_option_says_what_the_site_runs_the_verdict_says_what_is_assumed(snapshot: Path) -> None:
    assert SiteOptions.given().baseline(60).remarks == (ASSUMED,)
    assert SiteOptions.given(name="today").baseline(60).remarks == ()
    assert ASSUMED not in SiteOptions.given(snapshot=snapshot).baseline(60).remarks


def test_options_replace_parts_of_the_snapshot(
    logs: Path, snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = str(tmp_path / "report.html")
    arguments = ["report", str(logs), "--predictors", "v3", *SEEDS, "-o", page, "--format", "json"]
    assert run([*arguments, "--site", str(snapshot), "--processors", "256", "--baseline", "WFP"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["processors"] == 256
    assert "The site runs: WFP" in json.dumps(found)


def test_collect_lists_first_and_writes_what_a_report_needs(
    logs: Path, snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["collect", str(logs), "--snapshot", str(snapshot)]) == 0
    listed = capsys.readouterr()
    days = sorted(path.name for path in logs.iterdir())
    assert [line.split()[-1] for line in listed.out.splitlines()] == [
        "site/snapshot.json", *(f"site/accounting/{day}" for day in days),
    ]  # fmt: skip
    assert "nothing was written" in listed.err
    file = tmp_path / "site.tar.gz"
    newer = [str(logs / day) for day in days[2:]]
    assert run(["collect", *newer, "--snapshot", str(snapshot), "-o", str(file)]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        assert len(archive.getnames()) == len(days) - 1
        archive.extractall(tmp_path, filter="data")
    for day in days[2:]:
        assert (tmp_path / "site" / "accounting" / day).read_bytes() == (logs / day).read_bytes()
    assert load_snapshot(tmp_path / "site" / "snapshot.json").jobs == ()


def test_pseudonyms_leave_no_name_and_change_no_figure(
    logs: Path, snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, key = tmp_path / "site.tar.gz", tmp_path / "key"
    names = {
        value
        for log in logs.iterdir()
        for word in log.read_text().replace(";", " ").split()
        for name, _, value in [word.partition("=")]
        if name in ("user", "group", "project", "account", "jobname") and value and value != "_pbs_project_default"
    }
    assert len(names) > 12
    arguments = ["collect", str(logs), "--snapshot", str(snapshot), "--pseudonyms", str(key), "-o", str(file)]
    assert run(arguments) == 0
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    text = "".join(path.read_text() for path in (tmp_path / "site").rglob("*") if path.is_file())
    words = set(text.replace(";", " ").replace("=", " ").replace("@", " ").split())
    assert not names & words
    assert "alice" not in text
    assert "physics" not in text
    alice = Pseudonyms(read_key(key))("user", "alice")
    assert f"[u:{alice}=5],[u:PBS_GENERIC=9]" in text
    site = load_snapshot(tmp_path / "site" / "snapshot.json")
    assert site.scheduler.shares is not None
    first, second = site.scheduler.shares.groups
    assert (first.parent, second.name, second.parent) == ("root", alice, first.name)
    capsys.readouterr()
    figures = []
    for folder in (logs, tmp_path / "site" / "accounting"):
        assert run(["replay", str(folder), "--predictors", "v1,v3,percentile", "--format", "csv"]) == 0
        figures.append(capsys.readouterr().out.replace(str(folder), "LOGS"))
    assert _without_speed(figures[0]) == _without_speed(figures[1])


def test_pseudonyms_leave_what_is_not_simulated() -> None:
    reservation = AdvanceReservation("R7.secret", NOW, NOW + 3600, 8, "RESV_CONFIRMED")
    site = server(128, unmodelled=("peer_queue = workq workq@secret",))
    found = replace(site, reservations=(reservation,), remarks=(SCHED_CONFIG_UNREAD, "7.secret: dropped"))
    anonymous = anonymous_snapshot(found, Pseudonyms(b"0" * 16))
    assert anonymous.scheduler.unmodelled == ("peer_queue = workq workq",)
    assert (anonymous.reservations, anonymous.remarks) == ((replace(reservation, name="R1"),), (SCHED_CONFIG_UNREAD,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "{logs}", "--snapshot", "{logs}"], "Is a directory"),
        (["report", "{logs}", "--site", "/none.json"], "No such file"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], message: str, logs: Path, snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [each.format(logs=logs, snapshot=snapshot) for each in arguments]
    assert run(given) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err or "is a directory" in captured.err


def _without_speed(text: str) -> list[list[str]]:
    rows = [line.split(",") for line in text.splitlines()]
    kept = [index for index, name in enumerate(rows[0]) if "second" not in name and "_us" not in name]
    return [[row[index] for index in kept] for row in rows]
