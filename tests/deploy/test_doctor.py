"""The command: whatever is missing ends none of its checks."""

import json
import os
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.deployment import configuration, doctor
from softwalltime.deployment.check_pbs import check_hook
from softwalltime.deployment.qmgr import Qmgr, find
from tests.deploy.installations import present
from tests.deploy.qmgr_scripts import HIDDEN, qmgr
from tests.samples import RECORDED_LOG
from tests.service.running import PATIENT, Daemon, until

SOCKET = Path("/run/softwalltime/hook.sock")


@pytest.fixture
def without_pbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find", _no_pbs)


def _no_pbs() -> None:
    raise SoftwalltimeError("there is no qmgr here")


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    status = run(["doctor", "--format", "json", *arguments])
    return status, {each["check"]: each for each in json.loads(capsys.readouterr().out)}


def test_the_hook_is_skipped_on_the_passive_failover_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "find", lambda: find(qmgr(tmp_path, HIDDEN)))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "service_user", lambda _settings: "")
    _, found = findings(capsys)
    assert found["PBS"]["verdict"] == "ok"
    assert found["manager rights"]["verdict"] == "skipped"
    assert "hook" not in found


def test_sched_config_is_read_from_the_moved_pbs_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = (
        """case $2 in *sched*) echo 'create sched default'; echo 'set sched default sched_priv = /nonexistent';; esac"""
    )
    conf = qmgr(tmp_path, said)
    conf.write_text(conf.read_text().replace("/scratch/pbs", str(tmp_path)))
    (tmp_path / "sched_priv").mkdir()
    (tmp_path / "sched_priv" / "sched_config").write_text("strict_ordering: true ALL")
    monkeypatch.setattr(doctor, "find", lambda: find(conf))
    _, found = findings(capsys)
    assert found["strict_ordering"]["text"] == "true, as needed for soft walltimes"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ('preset = "order"', {"by_queue": "problem", "job_sort_formula": "problem", "live values": "problem"}),
        ('preset = "safe"', {"strict_ordering": "ok", "resources": "advice", "live values": "problem"}),
        ('preset = "balanced"', {"strict_ordering": None, "by_queue": "problem", "live values": "problem"}),
        ('preset = "balanced"\n[live]\nguard = "off"', {"strict_ordering": None, "live values": "advice"}),
        ('preset = "balanced"\n[live]\nmode = "on"', {"strict_ordering": "ok", "by_queue": "problem"}),
        ('mode = "on"\nwaiting = "walltime"\nordering = "v2"', {"strict_ordering": None, "by_queue": "problem"}),
        ('mode = "on"\nwaiting = "v1"\n[live]\nmode = "shadow"\nguard = 60', {"live values": "problem"}),
        ('preset = "safe"\n[live]\nmode = "on"', {"strict_ordering": "ok", "clear_topjob_estimates_enable": "advice"}),
        ('mode = "on"\nwaiting = "v1"', {"strict_ordering": "ok", "resources": "advice", "backfill_depth": "ok"}),
        ('mode = "on"\nwaiting = "v1"\nordering = "v2"', {"strict_ordering": "ok", "by_queue": "problem"}),
        ('mode = "on"\nwaiting = "walltime"', {"strict_ordering": "ok"}),
        ('waiting = "v1"', {"strict_ordering": "ok", "resources": "advice"}),
        ('preset = "shadow"', {"strict_ordering": "ok", "backfill_depth": "ok"}),
    ],
)
def test_pbs_is_checked_for_the_preset_in_the_settings(
    policy: str,
    expected: dict[str, str | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    conf = qmgr(tmp_path, "true")
    conf.write_text(conf.read_text().replace("/scratch/pbs", str(tmp_path)))
    (tmp_path / "sched_priv").mkdir()
    options = "strict_ordering: true ALL\nby_queue: True prime\nresources: ncpus\n"
    (tmp_path / "sched_priv" / "sched_config").write_text(options)
    config = tmp_path / "softwalltime.toml"
    config.write_text(f"[policy]\n{policy}\n")
    monkeypatch.setattr(doctor, "find", lambda: Qmgr(tmp_path / "exec" / "bin" / "qmgr", tmp_path))
    _, found = findings(capsys, "--config", str(config))
    assert {check: found.get(check, {}).get("verdict") for check in expected} == expected
    assert ("clear_topjob_estimates_enable" in found) == (
        "order" in policy or "balanced" in policy or '[live]\nmode = "on"' in policy
    )
    assert ("live values" in found) == ("live values" in expected)


def test_what_no_requirement_of_the_preset_says_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = """case $2 in "print server") echo 'create queue q'; echo 'set queue q backfill_depth = 0';; esac"""
    conf = qmgr(tmp_path, said)
    conf.write_text(conf.read_text().replace("/scratch/pbs", str(tmp_path)))
    (tmp_path / "sched_priv").mkdir()
    sched_config = tmp_path / "sched_priv" / "sched_config"
    sched_config.write_text("strict_ordering: true ALL\nbackfill: false ALL\nresources: ncpus, soft_walltime\n")
    config = tmp_path / "softwalltime.toml"
    config.write_text('[policy]\npreset = "safe"\n')
    monkeypatch.setattr(doctor, "find", lambda: Qmgr(tmp_path / "exec" / "bin" / "qmgr", tmp_path))

    def reported() -> list[tuple[str, str, str]]:
        run(["doctor", "--format", "json", "--config", str(config)])
        found = json.loads(capsys.readouterr().out)
        names = ("backfill_depth", "strict_ordering")
        return [(each["check"], each["verdict"], each["text"]) for each in found if each["check"] in names]

    found = reported()
    assert ("backfill_depth", "advice", "0 in q: nothing is planned there") in found
    assert ("strict_ordering", "advice", f"{sched_config}: backfill is false") in found
    # A requirement that is not met says it itself.
    sched_config.write_text("strict_ordering: false ALL\nresources: ncpus, soft_walltime\n")
    assert [(check, verdict) for check, verdict, _ in reported() if check != "backfill_depth"] == [
        ("strict_ordering", "problem")
    ]


@pytest.mark.postgres
def test_a_running_daemon_without_pbs_has_no_problem(
    without_pbs: None,
    tmp_path: Path,
    database: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However late it answers on a machine that does other things: that is judged elsewhere.
    shipped = {**configuration.shipped(), "deadline_ms": 1000 * PATIENT}
    monkeypatch.setattr(configuration, "shipped", lambda: shipped)
    tmp_path.chmod(0o755)
    daemon = Daemon(tmp_path, database)
    daemon.log.write_bytes(RECORDED_LOG.read_bytes())
    daemon.start()
    try:
        until(lambda: daemon.status()["learnt"] == 42)
        status, found = findings(capsys, "--config", str(daemon.config))
        assert status == 0, found
        assert found["PBS"]["verdict"] == "skipped"
        assert [found[check]["verdict"] for check in ("daemon", "mode", "learning", "store", "clock")] == ["ok"] * 5
        assert run(["doctor", "--config", str(daemon.config)]) == 0
        captured = capsys.readouterr()
        assert captured.err.startswith("0 problems, ")
        assert all(line[:9].strip() in ("ok", "warning", "skipped") for line in captured.out.splitlines())
    finally:
        daemon.end()


def test_without_daemon_and_store_every_check_reports_it(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "host=/nonexistent dbname=x"\nsocket = "{tmp_path}/none.sock"\naccounting = "{tmp_path}"')
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert {check: each["verdict"] for check, each in found.items()} == {
        "settings": "ok", "PBS": "skipped", "socket permissions": "problem", "daemon": "problem", "store": "problem",
        "position": "skipped",
    }  # fmt: skip


def test_wrong_settings_are_one_finding_and_the_other_checks_run(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text("sockett = 1")
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert "unknown key sockett" in found["settings"]["text"]
    assert "daemon" in found


def test_a_wrong_policy_is_reported(without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text('[policy]\nwaiting = "percentil"')
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert found["settings"]["text"].startswith("policy.waiting: no predictor is called 'percentil'")
    assert "root: " in found["settings"]["act"]


def test_a_wrong_table_of_live_values_is_reported(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text("[live]\nnonsense = 1")
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert found["settings"]["verdict"] == "problem"
    assert found["settings"]["text"].startswith("live.nonsense: unknown key")


def test_unreadable_settings_are_skipped(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "hidden_file", lambda: tmp_path)
    _, found = findings(capsys)
    for check in ("settings", "store"):
        assert found[check]["verdict"] == "skipped"
        assert found[check]["text"].endswith("run this as root")


def test_a_wrong_environment_variable_is_one_finding(
    without_pbs: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTWALLTIME_KEEP_DAYS", "many")
    status, found = findings(capsys)
    assert status == 1
    assert "SOFTWALLTIME_KEEP_DAYS: keep_days = 'many'" in found["settings"]["text"]
    assert "daemon" in found


def test_the_transport_postgres_needs_no_daemon() -> None:
    made, values = check_hook(present(values={"transport": "postgres"}), {}, SOCKET)
    assert values is not None
    assert values["transport"] == "postgres"
    assert ("socket", "skipped") in [(finding.check, finding.verdict) for finding in made]
