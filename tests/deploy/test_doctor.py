"""Each check says what is wrong and who must act, and whatever hangs or is missing ends none of them."""

import json
import os
import pwd
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.cli import run
from softwalltime.deployment import configuration, doctor
from softwalltime.deployment.apart import ApartError, apart
from softwalltime.deployment.check_hook import check_folder, check_hook
from softwalltime.deployment.check_pbs import check_queues, check_scheduler
from softwalltime.deployment.check_service import check_daemon, check_lag, check_socket, check_store, check_trial
from softwalltime.deployment.finding import Finding
from softwalltime.deployment.look import DaemonLook, LogLook, StoreLook, look_at_daemon, look_at_logs, look_at_store
from softwalltime.deployment.pbs import Things, parse
from softwalltime.errors import SoftwalltimeError
from softwalltime.settings import load_settings
from softwalltime.store import add_jobs
from softwalltime.store.migrations import head
from tests.deploy.test_install import ALL, OLDER, present
from tests.service.running import PATIENT, Daemon, until
from tests.workloads import RECORDED_LOG, job

SOCKET = Path("/run/softwalltime/hook.sock")
HOOKS = "create hook softwalltime\nset hook softwalltime event = queuejob\nset hook softwalltime order = 900\n"


def bad(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """The checks that are not well, each with its verdict; somebody must act on every one."""
    found = [finding for finding in findings if finding.verdict in ("warning", "problem")]
    assert all(finding.act for finding in found)
    return [(finding.check, finding.verdict) for finding in found]


# ---- The hook --------------------------------------------------------------------------------------------------------


def hook_findings(hook: object, hooks: str = HOOKS, supported: frozenset[str] = ALL) -> list[Finding]:
    return check_hook(hook, parse(hooks), supported, SOCKET)[0]  # type: ignore[arg-type]


def test_a_hook_as_install_leaves_it_is_well() -> None:
    findings = hook_findings(present())
    assert bad(findings) == []
    assert {finding.check for finding in findings} == {
        "hook", "hook enabled", "hook configuration", "socket", "hook events", "hook alarm", "hook order",
    }  # fmt: skip


def test_an_older_pbs_is_well_without_its_missing_event() -> None:
    assert bad(hook_findings(present(events=OLDER), supported=OLDER)) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"script": "another"}, ("hook", "problem")),
        ({"enabled": "false"}, ("hook enabled", "problem")),
        ({"debug": "true"}, ("hook debug", "warning")),
        ({"configuration": "{"}, ("hook configuration", "problem")),
        ({"values": {"deadline_ms": 0}}, ("hook configuration", "problem")),
        ({"values": {"no_such_key": 0}}, ("hook configuration", "problem")),
        ({"values": {"socket": "/run/other.sock"}}, ("socket", "problem")),
        ({"events": ALL - {"modifyjob"}}, ("hook events", "problem")),
        ({"events": ALL - {"runjob"}}, ("hook events", "warning")),
        ({"values": {"deadline_ms": 5000}}, ("hook alarm", "problem")),
    ],
)
def test_what_is_wrong_with_the_hook_is_found(changes: dict[str, object], found: tuple[str, str]) -> None:
    assert bad(hook_findings(present(**changes))) == [found]


def test_a_missing_hook_is_a_problem() -> None:
    assert bad(hook_findings(None)) == [("hook", "problem")]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("event = modifyjob\nset hook other order = 950\nset hook other enabled = true", [("hook order", "warning")]),
        ("event = modifyjob\nset hook other order = 950\nset hook other enabled = false", []),
        ("event = modifyjob\nset hook other order = 10\nset hook other enabled = true", []),
        ("event = execjob_begin\nset hook other order = 950\nset hook other enabled = true", []),
    ],
)
def test_hooks_that_run_after_it_and_could_change_the_job_are_named(other: str, found: list[tuple[str, str]]) -> None:
    findings = hook_findings(present(), f"{HOOKS}create hook other\nset hook other {other}\n")
    assert bad(findings) == found
    assert not found or "other" in next(each for each in findings if each.check == "hook order").text


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_what_the_hook_loads_must_be_roots_alone(tmp_path: Path) -> None:
    folder = tmp_path / "psycopg"
    (folder / "psycopg").mkdir(parents=True)
    library = folder / "psycopg" / "__init__.py"
    library.touch()
    assert bad(check_folder(str(folder))) == []
    library.chmod(0o664)
    assert bad(check_folder(str(folder))) == [("psycopg_path", "problem")]
    library.chmod(0o644)
    os.chown(library, 65534, 65534)
    assert bad(check_folder(str(folder))) == [("psycopg_path", "problem")]
    os.chown(library, 0, 0)
    tmp_path.chmod(0o777)
    assert bad(check_folder(str(folder))) == [("psycopg_path", "problem")]
    assert bad(check_folder(str(tmp_path / "nowhere"))) == bad(check_folder("")) == [("psycopg_path", "problem")]


# ---- PBS's settings --------------------------------------------------------------------------------------------------

STRICT = {"sched_config": "# strict_ordering: false ALL\nstrict_ordering: true\tALL\n"}


def server(*lines: str) -> Things:
    return parse("\n".join(["set server scheduling = True", *lines]))


@pytest.mark.parametrize(
    ("lines", "files", "found"),
    [
        ([], STRICT, []),
        (["set server backfill_depth = 0"], STRICT, [("backfill_depth", "problem")]),
        (["set queue q backfill_depth = 0"], STRICT, [("backfill_depth", "warning")]),
        (["set server scheduling = False"], STRICT, [("scheduling", "problem")]),
        ([], {"sched_config": "strict_ordering: false ALL"}, [("strict ordering", "problem")]),
        ([], {"sched_config": ""}, [("strict ordering", "problem")]),
        ([], {"sched_config": "strict_ordering: True prime\nstrict_ordering: false non_prime"}, []),
        ([], {"sched_config": "strict_ordering: 1 ALL"}, []),
        ([], {"sched_config": "strict_ordering: 0"}, [("strict ordering", "problem")]),
        ([], {"sched_config": "strict_ordering: true ALL\nbackfill: false ALL"}, [("strict ordering", "problem")]),
        ([], {"sched_config": None}, []),
    ],
)
def test_a_scheduler_that_plans_nothing_is_found(
    lines: list[str], files: dict[str, str | None], found: list[tuple[str, str]]
) -> None:
    assert bad(check_scheduler(server(*lines), files, "23.06.06")) == found


@pytest.mark.parametrize(
    ("version", "verdict", "said"),
    [
        # Only jobs that have waited for max_starve, a day by default, were top jobs then.
        ("18.1.2", "warning", "only jobs that starve"),
        ("2020.1.4", "warning", "only jobs that starve"),
        ("22.05.11", "problem", "help_starving_jobs sets nothing in this version"),
        ("23.06.06", "problem", "help_starving_jobs sets nothing in this version"),
        ("2024.1.1", "problem", "help_starving_jobs sets nothing in this version"),
        ("", "problem", "does not say"),
    ],
)
def test_starving_jobs_were_planned_ahead_by_old_schedulers_only(version: str, verdict: str, said: str) -> None:
    files = {"sched_config": "help_starving_jobs: true ALL\nbackfill: true ALL"}
    assert bad(check_scheduler(server(), files, version)) == [("strict ordering", verdict)]
    assert any(said in finding.text for finding in check_scheduler(server(), files, version))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["set queue q queue_type = Execution"], [("default walltimes", "warning")]),
        (["set queue q queue_type = Execution", "set server resources_default.walltime = 1:00:00"], []),
        (["set queue q queue_type = Execution", "set queue q resources_default.walltime = 1:00:00"], []),
        (["set queue q queue_type = Route"], []),
        (
            ["set queue q queue_type = Execution", "set queue q resources_max.walltime = 1:00:00"],
            [("queue limits", "warning")],
        ),
    ],
)
def test_queues_that_go_by_the_walltime_or_give_none_are_named(lines: list[str], found: list[tuple[str, str]]) -> None:
    findings = list(check_queues(server(*lines)))
    assert bad(findings) == found
    assert not found or any(finding.text.startswith("q: ") for finding in findings)


# ---- Daemon and store ------------------------------------------------------------------------------------------------

STATUS = {
    "version": "1", "ready": True, "store": "ok", "accounting": "ok", "learnt": 5, "behind_seconds": 0, "malformed": 0,
    "behind_bytes": 0, "from_the_future": 0, "dropped": 0, "policy": {"mode": "shadow", "share": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"version": "0"}, [("daemon version", "warning")]),
        ({"ready": False, "store": "cannot connect"}, [("learning", "problem")]),
        ({"store": "cannot connect"}, [("learning", "problem")]),
        ({"accounting": "/x: Permission denied"}, [("accounting log", "problem")]),
        ({"accounting": "not followed"}, []),
        ({"behind_seconds": 100, "behind_bytes": 5}, [("accounting log", "warning")]),
        ({"from_the_future": 1}, [("clock", "warning")]),
        ({"malformed": 1}, [("accounting log", "warning")]),
        ({"dropped": 1}, [("record", "warning")]),
        ({"policy": {"mode": "off", "share": 1.0}}, [("mode", "warning")]),
        ({"policy": {"mode": "on", "share": 0.1}}, []),
    ],
)
def test_what_the_daemon_says_of_itself_is_judged(changes: dict[str, object], found: list[tuple[str, str]]) -> None:
    assert bad(check_daemon(DaemonLook(0.1, {**STATUS, **changes}), 50, "1")) == found


@pytest.mark.parametrize(("median", "verdict"), [(0.1, "ok"), (20, "warning"), (60, "problem")])
def test_a_daemon_that_answers_late_is_found(median: float, verdict: str) -> None:
    assert next(check_daemon(DaemonLook(median, STATUS), 50, "1")).verdict == verdict


STORE = StoreLook("9", "9", 0.0, {"/a/20261120": 100}, True, "alice", 600)


@pytest.mark.parametrize(
    ("look", "found"),
    [
        (STORE, []),
        ("cannot connect", [("store", "problem")]),
        (replace(STORE, revision=""), [("store", "problem")]),
        (replace(STORE, jobs=False), [("history", "warning")]),
        (replace(STORE, ahead=-30.0), [("clock", "warning")]),
    ],
)
def test_what_is_wrong_with_the_store_is_found(look: StoreLook | str, found: list[tuple[str, str]]) -> None:
    assert bad(check_store(look, "postgresql:///x")) == found


def test_the_embedded_postgres_is_not_for_production_and_not_started_by_a_check() -> None:
    assert bad(check_store("unused", None)) == [("store", "problem")]


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (LogLook("/a/20261120", 100, -90.0), []),
        (LogLook("/a/20261120", 5000, -1.0), []),  # being written
        (LogLook("/a/20261120", 5000, -90.0), [("position", "problem")]),
        (LogLook("/a/20261120", 50_000_000, -1.0), [("position", "problem")]),
        (LogLook("/a/20261121", 100, -90.0), [("position", "warning")]),
        (LogLook("/a/20261120", 100, -30 * 86400.0), [("position", "warning")]),
        (LogLook("/a/20261120", 100, 60.0), [("clock", "warning")]),
        ("/a: Permission denied", []),
    ],
)
def test_a_store_behind_the_log_is_found(log: LogLook | str, found: list[tuple[str, str]]) -> None:
    now = time.time()
    looked = replace(log, written=now + log.written) if isinstance(log, LogLook) else log
    assert bad(check_lag(looked, STORE, now)) == found


def test_the_trial_says_what_a_job_would_get() -> None:
    answer = {"soft_walltime": 90, "basis": "because"}
    (finding,) = check_trial(answer, "alice", 3600)
    assert finding.text == "alice, walltime 01:00:00: soft walltime 00:01:30: because"
    assert next(check_trial("no daemon", "alice", 3600)).verdict == "skipped"


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """A socket at which somebody listens and says nothing."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "hook.sock"))
        listener.listen()
        (folder / "hook.sock").chmod(0o600)
        yield folder / "hook.sock"


def test_a_socket_that_others_may_use_or_replace_is_found(listening: Path) -> None:
    listening.chmod(0o666)
    assert bad(check_socket(listening)) == [("socket permissions", "problem")]
    listening.chmod(0o600)
    listening.parent.chmod(0o777)
    assert bad(check_socket(listening)) == [("socket permissions", "problem")]
    listening.parent.chmod(stat.S_IRWXU)
    if os.geteuid() == 0:
        assert bad(check_socket(listening)) == [("socket permissions", "warning")]
        for path in (listening, listening.parent):
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    assert bad(check_socket(listening)) == []
    assert bad(check_socket(listening.with_name("none"))) == [("socket permissions", "problem")]


# ---- Looks -----------------------------------------------------------------------------------------------------------


def test_something_done_apart_gives_its_value_or_its_error_in_one_line() -> None:
    def broken() -> None:
        raise SoftwalltimeError("two\nlines")

    assert apart(lambda: {"pid": 1}, PATIENT) == {"pid": 1}
    with pytest.raises(ApartError, match=r"^two lines$"):
        apart(broken, PATIENT)
    with pytest.raises(ApartError, match=r"^ZeroDivisionError: integer division or modulo by zero$"):
        apart(lambda: 1 // 0, PATIENT)
    with pytest.raises(ApartError, match=r"^it ended without an answer$"):
        apart(lambda: os._exit(3), PATIENT)


def test_something_that_hangs_is_killed() -> None:
    begin = time.monotonic()
    with pytest.raises(ApartError, match=r"not done in 0.2 s"):
        apart(lambda: time.sleep(3600), 0.2)
    assert time.monotonic() - begin < PATIENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_it_can_be_done_as_another_user() -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    assert apart(lambda: [os.getuid(), os.geteuid(), os.getgroups()], PATIENT, "nobody")[:2] == [uid, uid]
    assert os.getuid() == 0


def test_a_daemon_that_hangs_is_not_waited_for(listening: Path) -> None:
    with pytest.raises(ApartError, match="has not answered"):
        look_at_daemon(listening, 0.1)


@pytest.mark.postgres
def test_the_store_is_looked_at(database: str, engine: Engine) -> None:
    settings = load_settings(dsn=database)
    assert look_at_store(settings, "").jobs is False
    with engine.begin() as connection:
        add_jobs(connection, [job("carol", walltime=700)])
    found = look_at_store(settings, "")
    assert (found.revision, found.user, found.walltime, found.positions) == (head(), "carol", 700, {})
    assert abs(found.ahead) < PATIENT


@pytest.mark.postgres
def test_a_store_without_tables_is_no_error_of_the_look(empty_database: str) -> None:
    assert look_at_store(load_settings(dsn=empty_database), "").revision == ""


def test_a_store_that_does_not_answer_is_told_in_one_line() -> None:
    with pytest.raises(ApartError, match="cannot connect to PostgreSQL"):
        look_at_store(load_settings(dsn="host=/nonexistent dbname=x"), "")


def test_the_newest_log_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "20261119").write_text("x")
    (tmp_path / "20261120").write_bytes(RECORDED_LOG.read_bytes())
    os.utime(tmp_path / "20261119", (0, 0))
    found = look_at_logs(tmp_path)
    assert (Path(found.path).name, found.size) == ("20261120", RECORDED_LOG.stat().st_size)
    with pytest.raises(ApartError, match="No such file"):
        look_at_logs(tmp_path / "none")


# ---- The command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def without_pbs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find", _no_pbs)


def _no_pbs() -> None:
    raise SoftwalltimeError("there is no qmgr here")


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    status = run(["doctor", "--format", "json", *arguments])
    return status, {each["check"]: each for each in json.loads(capsys.readouterr().out)}


@pytest.mark.postgres
def test_a_running_daemon_without_pbs_is_well_as_far_as_can_be_seen(
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
        assert found["trial prediction"]["text"].startswith("carol, walltime 05:00:00: soft walltime ")
        assert run(["doctor", "--config", str(daemon.config)]) == 0
        captured = capsys.readouterr()
        assert captured.err.startswith("0 problems, ")
        assert all(line[:9].strip() in ("ok", "warning", "skipped") for line in captured.out.splitlines())
    finally:
        daemon.end()


def test_with_nothing_there_every_check_says_so(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "host=/nonexistent dbname=x"\nsocket = "{tmp_path}/none.sock"\naccounting = "{tmp_path}"')
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert {check: each["verdict"] for check, each in found.items()} == {
        "settings": "ok", "PBS": "skipped", "socket permissions": "problem", "daemon": "problem", "store": "problem",
        "position": "skipped", "trial prediction": "skipped",
    }  # fmt: skip


def test_wrong_settings_are_one_finding_and_the_rest_goes_on(
    without_pbs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text("sockett = 1")
    status, found = findings(capsys, "--config", str(config))
    assert status == 1
    assert "unknown key sockett" in found["settings"]["text"]
    assert "daemon" in found


def test_a_hook_that_asks_postgresql_needs_no_daemon() -> None:
    made, values = check_hook(present(values={"transport": "postgres"}), {}, ALL, SOCKET)
    assert values is not None
    assert values["transport"] == "postgres"
    assert ("socket", "skipped") in [(finding.check, finding.verdict) for finding in made]
