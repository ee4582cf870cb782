"""PBS's commands: find and run qmgr, parse its output, report its errors."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment import qmgr as commands
from softwalltime.deployment.hook import installed
from softwalltime.deployment.qmgr import HooksHiddenError, PbsError, find, parse
from tests.deploy.qmgr_scripts import HIDDEN, qmgr

PRINTED = """\
#
# Create and define queue short
#
create queue short
set queue short queue_type = Execution
set queue short resources_max.walltime = 02:00:00
create queue route_q
set queue route_q route_destinations = short
set queue route_q route_destinations += long
set server managers = root@*
create resource ngpus
set resource ngpus type = long
set resource ngpus flag = hn
create hook other
set hook other event = queuejob
set hook other event += modifyjob
import hook other application/x-python base64 -
aW1wb3J0IHBicw==
set sched preempt_prio = "express_queue, normal_jobs"
"""


def test_the_output_of_qmgr_is_parsed() -> None:
    things = parse(PRINTED)
    assert things["queue", "short"].get("resources_max.walltime") == "02:00:00"
    assert things["queue", "route_q"].parts("route_destinations") == ("short", "long")
    assert things["hook", "other"].parts("event") == ("queuejob", "modifyjob")
    assert things["resource", "ngpus"].attributes == {"type": ("long",), "flag": ("hn",)}
    assert things["server", ""].get("managers") == "root@*"
    assert things["server", ""].get("backfill_depth") == ""
    assert things["sched", ""].parts("preempt_prio") == ("express_queue", "normal_jobs")


@pytest.fixture
def no_usual_pbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def test_qmgr_is_found_by_pbs_conf(tmp_path: Path, no_usual_pbs: None) -> None:
    conf = qmgr(tmp_path, "echo '    pbs_version = 20.0.1'")
    found = find(conf)
    assert (found.qmgr, found.home) == (tmp_path / "exec/bin/qmgr", Path("/scratch/pbs"))
    assert found.version() == "20.0.1"


def test_pbs_conf_overrides_the_default_folder(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir()
    qmgr(tmp_path / "old", "exit 1")
    monkeypatch.setattr(commands, "USUAL", tmp_path / "old" / "exec")
    assert find(qmgr(tmp_path, "exit 0")).qmgr == tmp_path / "exec/bin/qmgr"


# Recorded standard error of qmgr of OpenPBS 23.06.
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("qmgr obj= svr=default: alice@pbs1 is unauthorized to access hooks data from server pbs1", "as root"),
        ("Unknown Host.\nqmgr: cannot connect to server ", "start the PBS server"),
        ("Connection refused\nqmgr: cannot connect to server ", "start the PBS server"),
        ("pbsconf error: pbs conf variables not found: PBS_HOME", "or correct /etc/pbs.conf"),
        (
            "qmgr obj=softwalltime svr=default: invalid argument (postqueuejob) to event. Should be one or more of: q",
            "set the event that this PBS lacks to false",
        ),
        ("qmgr obj= svr=default: Unauthorized Request \nqmgr: Error (15007) returned from server", "a manager"),
    ],
)
def test_an_error_of_qmgr_names_who_must_act(tmp_path: Path, no_usual_pbs: None, said: str, advice: str) -> None:
    conf = qmgr(tmp_path, f"printf '%s' '{said}' >&2; exit 1")
    with pytest.raises(PbsError, match=advice) as raised:
        find(conf).execute("list server")
    assert "\n" not in str(raised.value)


def test_hidden_hooks_are_not_missing_hooks(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A list of all hooks is empty there, without an error.
    conf = qmgr(tmp_path, HIDDEN)
    with pytest.raises(HooksHiddenError, match="only to root on the host of the active server"):
        installed(find(conf))
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    folder = tmp_path / "hook"
    assert run(["install", str(folder), "--apply"]) == 1
    assert not folder.exists()
    folder.mkdir()
    (folder / "softwalltime_hook.json").write_text("{}")
    assert run(["uninstall", str(folder), "--apply"]) == 1
    assert (folder / "softwalltime_hook.json").exists()
    assert "unauthorized to access hooks" in capsys.readouterr().err


def test_uninstall_removes_the_file_that_the_hook_wrote(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = qmgr(tmp_path, "exit 0")
    conf.write_text(conf.read_text().replace("/scratch/pbs", str(tmp_path / "home")))
    monkeypatch.setenv("PBS_CONF_FILE", str(conf))
    kept = tmp_path / "home" / "server_priv" / "hooks" / "softwalltime.kept"
    kept.parent.mkdir(parents=True)
    kept.write_text("7.pbs1 2400\n")
    folder = str(tmp_path / "hook")
    assert run(["uninstall", folder]) == 0
    assert f"to remove: {kept}" in capsys.readouterr().out
    assert kept.exists()
    assert run(["uninstall", folder, "--apply"]) == 0
    assert f"removed: {kept}" in capsys.readouterr().out
    assert not kept.exists()


def test_qmgr_has_a_timeout(tmp_path: Path, no_usual_pbs: None) -> None:
    with pytest.raises(PbsError, match=r"has not answered in 0.2 s"):
        commands.run([str(find(qmgr(tmp_path, "exec sleep 20")).qmgr)], 0.2)


def test_without_pbs_nothing_is_installed_or_removed(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    folder = tmp_path / "hook"
    folder.mkdir()
    for command in ("install", "uninstall"):
        for options in ([], ["--apply"]):
            assert run([command, str(folder), *options]) == 1
            assert "no qmgr on the PATH" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
