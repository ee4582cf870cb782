"""The manager right of live values: doctor tries it, and uninstall names it."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment import doctor
from softwalltime.deployment.live_setup import remaining_rights
from softwalltime.deployment.qmgr import QmgrObject, find
from tests.deploy.qmgr_scripts import qmgr
from tests.deploy.test_doctor import findings
from tests.live.emulated import EmulatedServer, agent_at

ACCOUNTS = ("softwalltime", "softwalltime-live")


@pytest.mark.parametrize(
    ("managers", "statements"),
    [
        ((), []),
        (("root@*", "alice@pbs1"), []),
        (("softwalltime-live@*",), ["unset server managers"]),
        (("root@*,softwalltime-live@pbs1",), ["set server managers -= softwalltime-live@pbs1"]),
    ],
)
def test_the_statement_takes_only_the_right_of_live_values(managers: tuple[str, ...], statements: list[str]) -> None:
    server = QmgrObject({"managers": managers} if managers else {})
    assert list(remaining_rights(server, ACCOUNTS)) == statements


def test_uninstall_names_the_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = qmgr(tmp_path, """case $2 in "print server") echo 'set server managers = softwalltime-live@*' ;; esac""")
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find(conf).objects("server")
    for options in ([], ["--apply"]):
        assert run(["uninstall", str(tmp_path / "hook"), *options]) == 0
        assert "note: uninstall does not run: qmgr -c 'unset server managers'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        ('[live]\nmode = "on"\nagent = "{agent}"', ("ok", "problem")),
        ('[starts]\nmode = "on"\nshow = true\nagent = "{agent}"', ("ok", "problem")),
        ('[live]\nmode = "shadow"\nagent = "{agent}"', None),
        ('[live]\nmode = "on"\nagent = "/nonexistent/agent"', ("skipped", "skipped")),
    ],
)
def test_doctor_tries_the_right(
    table: str,
    verdict: tuple[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "service_user", lambda _settings: "")
    server = EmulatedServer(tmp_path)
    config = tmp_path / "softwalltime.toml"
    config.write_text(table.format(agent=tmp_path / "agent"))
    verdicts = []
    with agent_at(tmp_path / "agent", server):
        for _ in range(2):
            _, found = findings(capsys, "--config", str(config))
            verdicts.append(found.get("live manager right"))
            server.path.with_suffix(".unauthorized").touch()
    if verdict is None:
        assert verdicts == [None, None]
        return
    assert tuple(finding["verdict"] for finding in verdicts if finding is not None) == verdict
    if "problem" in verdict:
        assert verdicts[1]["act"].startswith("root: qmgr -c 'set server managers += softwalltime-live@*'")
