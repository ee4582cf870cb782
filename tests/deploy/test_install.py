"""What an installation would do in PBS, the folder that it keeps, and what it says where there is no PBS."""

import json
import os
import stat
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment import configuration, hook, pbs
from softwalltime.deployment.files import files_in, read_own, remove_files, write
from softwalltime.deployment.hook import EVENTS, Hook, expected, installed
from softwalltime.deployment.pbs import HooksHiddenError, PbsError, find, parse
from softwalltime.deployment.plan import InstallationPlan, InstallOptions, make_plan
from softwalltime.errors import SourceError, UsageError

FOLDER = Path("/etc/softwalltime/hook")
SOCKET = "/run/softwalltime/hook.sock"
ALL = frozenset(EVENTS)
OLDER = ALL - {"postqueuejob"}


def present(**changes: object) -> Hook:
    """The hook as an installation with the defaults leaves it in PBS."""
    attributes = {"enabled": "true", "order": "900", "alarm": "5", "debug": "false"}
    attributes |= {key: str(value) for key, value in changes.items() if key in attributes}
    values = configuration.merged(dict(changes.get("values", {})), configuration.shipped())
    text = changes.get("configuration", configuration.written(values))
    return Hook(
        str(changes.get("script", hook.script())), str(text), frozenset(changes.get("events", OLDER)), attributes
    )  # fmt: skip


def plan(there: Hook | None = None, **changes: object) -> InstallationPlan:
    return make_plan(
        FOLDER,
        str(changes.get("socket", SOCKET)),
        frozenset(changes.get("supported", ALL)),
        there,
        changes.get("choices", InstallOptions()),
        changes.get("own"),
    )


def statements(made: InstallationPlan) -> list[str]:
    return [step.statement.removeprefix("set hook softwalltime ") for step in made.steps]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_error_for_a_user_without_permission_names_who_has_it(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        parent.chmod(parent.stat().st_mode | 0o011)
    write(plan(), tmp_path)
    os.seteuid(65534)
    try:
        with pytest.raises(SourceError, match=r"Permission denied; run this as root on the PBS server's host$"):
            read_own(tmp_path)
        with pytest.raises(SourceError, match=r"Permission denied; run this as root on the PBS server's host$"):
            write(plan(), tmp_path / "new")
    finally:
        os.seteuid(0)


def test_a_new_hook_is_enabled_last() -> None:
    assert statements(plan()) == [
        "create hook softwalltime",
        "enabled = false",
        f"import hook softwalltime application/x-config default {FOLDER}/softwalltime_hook.json",
        f"import hook softwalltime application/x-python default {FOLDER}/softwalltime_hook.py",
        'event = "queuejob,modifyjob,runjob"',
        "order = 900",
        "alarm = 5",
        "debug = false",
        "enabled = true",
    ]


def test_an_installed_hook_of_this_version_needs_no_steps() -> None:
    made = plan(present())
    assert made.steps == ()
    assert made.notes == ()
    assert "of this version" in made.files["softwalltime.qmgr"]


def test_the_statements_for_qmgr_are_the_steps_with_their_reasons() -> None:
    made = plan()
    lines = made.files["softwalltime.qmgr"].splitlines()
    assert [line for line in lines if not line.startswith("#")] == [step.statement for step in made.steps]


def test_an_event_that_an_older_pbs_lacks_is_omitted() -> None:
    own = {**configuration.shipped(), "events": {"postqueuejob": True}}
    made = plan(supported=OLDER, own=own)
    assert 'event = "queuejob,modifyjob,runjob"' in statements(made)
    assert 'event = "queuejob,postqueuejob,modifyjob,runjob"' in statements(plan(own=own))
    # The hook notices by itself; were it written down, it would stay so after PBS's next update.
    assert json.loads(made.files["softwalltime_hook.json"])["events"]["postqueuejob"] is True


@pytest.mark.parametrize(
    ("version", "events"),
    [("19.1.3", OLDER), ("20.0.1", OLDER), ("22.05.11", OLDER), ("23.06.06", ALL), ("2022.1.4", OLDER),
     ("2024.1.0", ALL), ("", ALL)],
)  # fmt: skip
def test_expected_events_by_version_of_pbs(version: str, events: frozenset[str]) -> None:
    assert expected(version) == events


def test_an_event_disabled_in_the_configuration_is_omitted() -> None:
    made = plan(present(), own={**configuration.shipped(), "events": {"queuejob": False, "postqueuejob": True}})
    assert 'event = "postqueuejob,modifyjob,runjob"' in statements(made)


def test_an_administrators_values_are_kept_and_new_keys_added() -> None:
    made = plan(present(configuration='{"deadline_ms": 80, "log": "errors", "ours": 1}'))
    values = json.loads(made.files["softwalltime_hook.json"])
    assert (values["deadline_ms"], values["log"], values["ours"]) == (80, "errors", 1)
    assert values.keys() - {"ours"} == configuration.shipped().keys()
    assert statements(made) == [
        f"import hook softwalltime application/x-config default {FOLDER}/softwalltime_hook.json"
    ]
    assert "hook configuration: ours: unknown key: the hook uses the default" in made.notes
    assert "hook configuration: minimum: new, 60" in made.notes


def test_the_configuration_in_the_folder_overrides_the_one_in_pbs() -> None:
    made = plan(present(values={"deadline_ms": 80}), own={**configuration.shipped(), "deadline_ms": 100})
    assert json.loads(made.files["softwalltime_hook.json"])["deadline_ms"] == 100
    assert made.notes == ("in PBS: deadline_ms: 80, will be 100",)


def test_the_hook_gets_the_socket_of_the_daemon() -> None:
    made = plan(present(), socket="/run/elsewhere.sock")
    assert json.loads(made.files["softwalltime_hook.json"])["socket"] == "/run/elsewhere.sock"
    assert made.notes == (f'hook configuration: socket: "{SOCKET}", will be "/run/elsewhere.sock"',)


def test_an_invalid_configuration_in_pbs_is_replaced() -> None:
    made = plan(present(configuration="{"))
    assert made.notes == ("the configuration of the hook in PBS is not JSON and is replaced",)
    assert json.loads(made.files["softwalltime_hook.json"]) == configuration.shipped()


def test_a_disabled_hook_stays_disabled_without_the_option() -> None:
    off = present(enabled="false", script="an older one")
    assert "enabled = true" not in statements(plan(off))
    assert "the hook is disabled in PBS and stays disabled; --enable enables it" in plan(off).notes
    assert statements(plan(off, choices=InstallOptions(enable=True)))[-1] == "enabled = true"


def test_order_and_alarm_are_kept_without_the_options() -> None:
    moved = present(order=7, alarm=9)
    assert statements(plan(moved)) == []
    assert statements(plan(moved, choices=InstallOptions(order=1000, alarm=6))) == ["order = 1000", "alarm = 6"]


def test_the_alarm_is_later_than_the_deadline() -> None:
    assert "alarm = 9" in statements(plan(own={**configuration.shipped(), "deadline_ms": 5000}))


def test_an_interrupted_installation_is_completed() -> None:
    half = Hook("", "", frozenset(), {"enabled": "false", "order": "1", "alarm": "30", "debug": "false"})
    made = plan(half)
    assert statements(made)[0].startswith("import hook")
    assert statements(made)[-1] == "enabled = true"
    assert not [note for note in made.notes if "disabled" in note]


def test_debugging_output_is_disabled() -> None:
    assert statements(plan(present(debug="true"))) == ["debug = false"]


# ---- The folder ------------------------------------------------------------------------------------------------------


def test_writing_again_changes_nothing_and_removing_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "hook"
    made = plan()
    assert write(made, folder) == [folder / name for name in made.files]
    assert write(made, folder) == []
    assert (folder / "softwalltime_hook.py").read_text() == hook.script()
    assert read_own(folder) == configuration.shipped()
    assert sorted(remove_files(folder)) == sorted(folder / name for name in made.files)
    assert not folder.exists()
    assert remove_files(folder) == files_in(folder) == []


def test_files_of_others_in_the_folder_are_kept(tmp_path: Path) -> None:
    write(plan(), tmp_path)
    (tmp_path / "notes").touch()
    remove_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.skipif(os.geteuid() != 0, reason="PBS takes hooks from root alone, so only root is kept from mistakes")
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_root_refuses_a_folder_that_others_can_write_to(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open" / "hook"
    folder.mkdir(parents=True)
    folder.parent.chmod(mode)
    with pytest.raises(UsageError, match=r"open can be written by others.*chmod go-w"):
        write(plan(), folder)
    folder.parent.chmod(0o755)
    os.chown(folder, 65534, 65534)
    with pytest.raises(UsageError, match="chown root"):
        write(plan(), folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_root_refuses_a_symbolic_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "roots")
    write(plan(), link / "hook")
    # It leads to a folder of root's now, and to another one when PBS reads it.
    os.lchown(link, 65534, 65534)
    with pytest.raises(UsageError, match=r"link belongs to another user.*chown root"):
        write(plan(), link / "hook")


@pytest.mark.skipif(os.geteuid() != 0, reason="PBS takes hooks from root alone, so only root is kept from mistakes")
def test_root_refuses_a_sticky_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    write(plan(), tmp_path / "hook")
    with pytest.raises(UsageError, match="can be written by others"):
        write(plan(), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_a_file_that_others_could_change_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "hook"
    write(plan(), folder)
    script = folder / "softwalltime_hook.py"
    for owner, mode in ((65534, 0o644), (0, 0o664), (0, 0o646)):
        os.chown(script, owner, 0)
        script.chmod(mode)
        assert write(plan(), folder) == [script]
        assert (script.stat().st_uid, stat.S_IMODE(script.stat().st_mode)) == (0, 0o644)
    assert write(plan(), folder) == []


def test_a_password_is_neither_readable_nor_shown(tmp_path: Path) -> None:
    own = {"postgres": {"dsn": "postgresql://hook:secret@db/softwalltime"}}
    folder = tmp_path / "hook"
    made = plan(present(values={"postgres": {"dsn": "postgresql://hook:before@db/x"}}), own=own)
    write(made, folder)
    file = folder / "softwalltime_hook.json"
    assert "secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # As an editor may have left it.
    file.chmod(0o644)
    assert write(made, folder) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = "\n".join([*made.notes, *(f"{step.statement} {step.why}" for step in made.steps)])
    assert "postgres.dsn: (not shown), will be (not shown)" in said
    assert "secret" not in said
    assert "before" not in said


def test_a_link_in_the_folder_is_replaced_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    folder = tmp_path / "hook"
    folder.mkdir(mode=0o755)
    (folder / "softwalltime_hook.py").symlink_to(elsewhere)
    write(plan(), folder)
    assert elsewhere.read_text() == "precious"
    assert not (folder / "softwalltime_hook.py").is_symlink()
    assert stat.S_IMODE((folder / "softwalltime_hook.py").stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["with blank", 'with"quote', "with'quote", "with\ttab"])
def test_a_path_that_qmgr_cannot_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="give another FOLDER"):
        write(plan(), tmp_path / name)


def test_an_invalid_configuration_in_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "softwalltime_hook.json").write_text('{"deadline_ms": 80,}')
    with pytest.raises(UsageError, match=rf"^{tmp_path}/softwalltime_hook.json: not JSON: .*move it away"):
        read_own(tmp_path)


# ---- PBS's commands --------------------------------------------------------------------------------------------------

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
    assert things["server", ""].get("managers") == "root@*"
    assert things["server", ""].get("backfill_depth") == ""
    assert things["sched", ""].parts("preempt_prio") == ("express_queue", "normal_jobs")


def qmgr(folder: Path, script: str) -> Path:
    """A qmgr that does as this script says, where PBS_EXEC would have it."""
    program = folder / "exec" / "bin" / "qmgr"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    conf = folder / "pbs.conf"
    conf.write_text(f"# PBS\nPBS_EXEC={folder}/exec\nPBS_HOME=/scratch/pbs\n")
    return conf


@pytest.fixture
def no_usual_pbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pbs, "USUAL", Path("/nonexistent"))
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
    monkeypatch.setattr(pbs, "USUAL", tmp_path / "old" / "exec")
    assert find(qmgr(tmp_path, "exit 0")).qmgr == tmp_path / "exec/bin/qmgr"


# What qmgr says of an event that no server has, recorded; on 22.05 two names are one.
NO_EVENT = (
    "qmgr obj=softwalltime svr=default: invalid argument (softwalltime_asks) to event. Should be one or more of: "
)
OF_20_0_1 = (
    "queuejob,modifyjob,resvsub,movejob,runjob,provision,periodic,resv_end,execjob_begin,execjob_prologue,"
    "execjob_epilogue,execjob_preterm,execjob_end,exechost_periodic,execjob_launch,exechost_startup,execjob_attach,"
    "execjob_resize,execjob_abort,execjob_postsuspend,execjob_preresume"
)
OF_22_05 = (
    "queuejob,modifyjob,modifyvnode,management,resvsub,modifyresv,movejob,jobobit,runjob,provision,periodic,"
    "resv_confirmresv_begin,resv_end,execjob_begin,execjob_prologue,execjob_epilogue,execjob_preterm,execjob_end,"
    "exechost_periodic,execjob_launch,exechost_startup,execjob_attach,execjob_resize,execjob_abort,"
    "execjob_postsuspend,execjob_preresume"
)
OF_23_06 = OF_22_05.replace("queuejob,", "queuejob,postqueuejob,", 1).replace("confirmresv", "confirm,resv")


@pytest.mark.parametrize(("said", "events"), [(OF_20_0_1, OLDER), (OF_22_05, OLDER), (OF_23_06, ALL)])
def test_supported_events_are_those_that_qmgr_names(
    tmp_path: Path, no_usual_pbs: None, said: str, events: frozenset[str]
) -> None:
    end = ' or "" for no event\nqmgr: hook error returned from server'
    conf = qmgr(tmp_path, f"printf '%s' '{NO_EVENT}{said}{end}' >&2; exit 1")
    assert hook.supported(find(conf)) == events


# What qmgr of OpenPBS 23.06 says on standard error, recorded.
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("qmgr obj= svr=default: alice@pbs1 is unauthorized to access hooks data from server pbs1", "as root"),
        ("Unknown Host.\nqmgr: cannot connect to server ", "start the PBS server"),
        ("Connection refused\nqmgr: cannot connect to server ", "start the PBS server"),
        ("qmgr obj= svr=default: Unauthorized Request \nqmgr: Error (15007) returned from server", "a manager"),
    ],
)
def test_an_error_of_qmgr_names_who_must_act(tmp_path: Path, no_usual_pbs: None, said: str, advice: str) -> None:
    conf = qmgr(tmp_path, f"printf '%s' '{said}' >&2; exit 1")
    with pytest.raises(PbsError, match=advice) as raised:
        find(conf).execute("list server")
    assert "\n" not in str(raised.value)


# What it says as root on another host than the server's, as on the idle one of two failover servers; recorded as well.
HIDDEN = """case $2 in
*hook*) echo root@sec is unauthorized to access hooks data from server prim >&2 ;;
*pbs_version*) echo pbs_version = 23.06.06 ;;
esac"""


def test_hidden_hooks_are_not_missing_hooks(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # To list all hooks is no error there, and prints none.
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


def test_qmgr_has_a_timeout(tmp_path: Path, no_usual_pbs: None) -> None:
    with pytest.raises(PbsError, match=r"has not answered in 0.2 s"):
        pbs.run([str(find(qmgr(tmp_path, "exec sleep 20")).qmgr)], 0.2)


def test_without_pbs_the_files_are_written(
    tmp_path: Path, no_usual_pbs: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    folder = tmp_path / "hook"
    assert run(["install", str(folder)]) == 0
    captured = capsys.readouterr()
    assert f"to write: {folder}/softwalltime_hook.py" in captured.out
    assert "nothing was changed; softwalltime install --apply does it" in captured.err
    assert not folder.exists(), "without --apply nothing is written"
    assert run(["install", str(folder), "--write"]) == 0
    captured = capsys.readouterr()
    assert f"written: {folder}/softwalltime_hook.py" in captured.out
    assert f"to do: import hook softwalltime application/x-python default {folder}/softwalltime_hook.py" in captured.out
    assert "nothing was changed in PBS" in captured.err
    assert run(["install", str(folder), "--apply"]) == 1
    assert "no qmgr on the PATH" in capsys.readouterr().err
    assert run(["uninstall", str(folder), "--apply"]) == 1
    assert folder.exists()
