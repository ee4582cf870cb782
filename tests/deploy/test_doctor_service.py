"""Each check of daemon, socket, store and logs says what is wrong and who must fix it; no check hangs."""

import os
import pwd
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import SoftwalltimeError
from softwalltime.core.settings import load_settings
from softwalltime.deployment.check_service import (
    check_daemon,
    check_lag,
    check_policy,
    check_socket,
    check_store,
)
from softwalltime.deployment.probes import (
    DaemonProbe,
    LogProbe,
    StoreProbe,
    SubprocessError,
    call_in_subprocess,
    probe_daemon,
    probe_logs,
    probe_store,
)
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.migrations import head
from tests.deploy.findings import bad
from tests.samples import RECORDED_LOG, job
from tests.service.running import PATIENT
from tests.service.statuses import working_status
from tests.store.stored import add_jobs


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"version": "0"}, [("daemon version", "warning")]),
        ({"ready": False, "store": "cannot connect"}, [("daemon status", "problem")] * 2),
        ({"store": "cannot connect"}, [("daemon status", "problem")]),
        ({"accounting": "/x: Permission denied"}, [("daemon status", "problem")]),
        ({"accounting": "not followed"}, []),
        ({"from_the_future": 1}, [("daemon status", "warning")]),
        ({"policy": {"mode": "off", "share": 1.0}}, [("mode", "warning")]),
        ({"policy": {"mode": "on", "share": 0.1}}, []),
    ],
)
def test_findings_about_the_status_of_the_daemon(changes: dict[str, object], found: list[tuple[str, str]]) -> None:
    assert bad(check_daemon(DaemonProbe(0.1, working_status(**changes)), 50, "1")) == found


@pytest.mark.parametrize(
    ("policy", "version", "found"),
    [
        (SitePolicy(), "1", []),
        (SitePolicy(share=0.1), "1", [("policy", "warning")]),
        (SitePolicy(share=0.1), "2", []),  # which may know other keys
        (None, "1", []),  # as on the host of a container
    ],
)
def test_settings_that_were_not_reloaded_are_reported(
    policy: SitePolicy | None, version: str, found: list[tuple[str, str]]
) -> None:
    status = working_status(policy=SitePolicy().model_dump(mode="json"))
    assert bad(check_policy(status, policy, version)) == found


@pytest.mark.parametrize(("median", "verdict"), [(0.1, "ok"), (20, "warning"), (60, "problem")])
def test_a_slow_daemon_is_reported(median: float, verdict: str) -> None:
    assert next(check_daemon(DaemonProbe(median, working_status()), 50, "1")).verdict == verdict


FIRST = b"11/20/2026 10:16:10;Q;1.srv;"
STORE = StoreProbe("9", "9", 0.0, True, positions=(("srv", 100),))


@pytest.mark.parametrize(
    ("probe", "found"),
    [
        (STORE, []),
        ("cannot connect", [("store", "problem")]),
        (replace(STORE, revision=""), [("store", "problem")]),
        (replace(STORE, jobs=False), [("history", "warning")]),
        (replace(STORE, ahead=-30.0), [("clock", "warning")]),
        (replace(STORE, retention="retention deletes nothing by age: why"), [("retention", "warning")]),
    ],
)
def test_problems_of_the_store_are_reported(probe: StoreProbe | str, found: list[tuple[str, str]]) -> None:
    assert bad(check_store(probe, "postgresql:///x")) == found


def test_the_embedded_postgres_is_a_problem_and_not_started() -> None:
    assert bad(check_store("unused", None)) == [("store", "problem")]


def test_the_store_of_a_daemon_in_a_container_is_unknown_on_the_host() -> None:
    assert bad(check_store("unused", None, answers=True)) == [("store", "warning")]


@pytest.mark.parametrize(
    ("log", "positions", "found"),
    [
        (LogProbe("/a/20261120", 100, -90.0, FIRST), [("srv", 100)], []),
        (LogProbe("/a/20261120", 5000, -1.0, FIRST), [("srv", 100)], []),  # being written
        (LogProbe("/a/20261120", 5000, -90.0, FIRST), [("srv", 100)], [("position", "problem")]),
        (LogProbe("/a/20261120", 50_000_000, -1.0, FIRST), [("srv", 100)], [("position", "problem")]),
        (LogProbe("/a/20261120", 100, -90.0, FIRST), [], [("position", "warning")]),
        (LogProbe("/a/20261121", 0, -90.0, b""), [], []),  # PBS has just begun it
        (LogProbe("/a/20261120", 100, -30 * 86400.0, FIRST), [("srv", 100)], [("position", "warning")]),
        (LogProbe("/a/20261120", 100, 60.0, FIRST), [("srv", 100)], [("clock", "warning")]),
        ("/a: Permission denied", [], []),
    ],
)
def test_the_lag_of_the_store_is_reported(
    log: LogProbe | str, positions: list[tuple[str, int]], found: list[tuple[str, str]]
) -> None:
    now = time.time()
    looked = replace(log, written=now + log.written) if isinstance(log, LogProbe) else log
    assert bad(check_lag(looked, replace(STORE, positions=tuple(positions)), now)) == found


def test_a_log_that_is_read_for_two_servers_is_reported() -> None:
    log = LogProbe("/a/20261120", 100, time.time(), FIRST)
    for servers, found in ((["srv", ""], []), (["srv", "srv.example.org"], [("position", "problem")])):
        store = replace(STORE, positions=tuple((server, 100) for server in servers))
        assert bad(check_lag(log, store, log.written)) == found


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """A socket with a listener that never answers."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "hook.sock"))
        listener.listen()
        (folder / "hook.sock").chmod(0o600)
        yield folder / "hook.sock"


def test_a_socket_that_others_may_use_or_replace_is_found(listening: Path) -> None:
    listening.chmod(0o666)
    assert bad([check_socket(listening)]) == [("socket permissions", "problem")]
    listening.chmod(0o600)
    listening.parent.chmod(0o777)
    assert bad([check_socket(listening)]) == [("socket permissions", "problem")]
    listening.parent.chmod(stat.S_IRWXU)
    if os.geteuid() == 0:
        assert bad([check_socket(listening)]) == [("socket permissions", "warning")]
        for path in (listening, listening.parent):
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    assert bad([check_socket(listening)]) == []
    assert bad([check_socket(listening.with_name("none"))]) == [("socket permissions", "problem")]


def test_a_subprocess_call_returns_the_value_or_the_error_in_one_line() -> None:
    def broken() -> None:
        raise SoftwalltimeError("two\nlines")

    assert call_in_subprocess(lambda: {"pid": 1}, PATIENT) == {"pid": 1}
    with pytest.raises(SubprocessError, match=r"^two lines$"):
        call_in_subprocess(broken, PATIENT)
    with pytest.raises(SubprocessError, match=r"^ZeroDivisionError: integer division or modulo by zero$"):
        call_in_subprocess(lambda: 1 // 0, PATIENT)
    with pytest.raises(SubprocessError, match=r"^the subprocess ended without a result$"):
        call_in_subprocess(lambda: os._exit(3), PATIENT)


def test_a_subprocess_call_that_hangs_is_killed() -> None:
    begin = time.monotonic()
    with pytest.raises(SubprocessError, match=r"timed out after 0.2 s"):
        call_in_subprocess(lambda: time.sleep(3600), 0.2)
    assert time.monotonic() - begin < PATIENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_it_can_be_done_as_another_user() -> None:
    uid = pwd.getpwnam("nobody").pw_uid
    assert call_in_subprocess(lambda: [os.getuid(), os.geteuid(), os.getgroups()], PATIENT, "nobody")[:2] == [uid, uid]
    assert os.getuid() == 0


def test_a_daemon_that_hangs_is_not_waited_for(listening: Path) -> None:
    with pytest.raises(SubprocessError, match="has not answered"):
        probe_daemon(listening, 0.1)


@pytest.mark.postgres
def test_the_store_is_looked_at(database: str, engine: Engine) -> None:
    settings = load_settings(dsn=database)
    assert probe_store(settings, "").jobs is False
    with engine.begin() as connection:
        add_jobs(connection, [job("carol", walltime=700)])
    found = probe_store(settings, "")
    assert (found.revision, found.jobs, found.positions) == (head(), True, ())
    assert abs(found.ahead) < PATIENT


@pytest.mark.postgres
def test_the_log_of_another_server_with_the_same_path_does_not_count(
    database: str, engine: Engine, tmp_path: Path
) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(RECORDED_LOG.read_bytes())
    ingest_logs(engine, [log], Tally(), "pbs1")

    def read() -> list[int]:
        store = probe_store(load_settings(dsn=database), "", probe_logs(tmp_path).first)
        return [offset for _, offset in store.positions]

    assert read() == [RECORDED_LOG.stat().st_size]
    # As the other server's host sees it.
    lines = RECORDED_LOG.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[5:20]))
    assert not read()
    ingest_logs(engine, [log], Tally(), "pbs2")
    with log.open("ab") as file:
        file.write(lines[20])
    assert read() == [sum(map(len, lines[5:20]))]


@pytest.mark.postgres
def test_a_store_without_tables_is_no_error_of_the_look(empty_database: str) -> None:
    assert probe_store(load_settings(dsn=empty_database), "").revision == ""


def test_a_store_that_does_not_answer_is_reported_in_one_line() -> None:
    with pytest.raises(SubprocessError, match="cannot connect to PostgreSQL"):
        probe_store(load_settings(dsn="host=/nonexistent dbname=x"), "")


def test_the_newest_log_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "20261119").write_text("x")
    (tmp_path / "20261120").write_bytes(RECORDED_LOG.read_bytes())
    os.utime(tmp_path / "20261119", (0, 0))
    found = probe_logs(tmp_path)
    assert (Path(found.path).name, found.size) == ("20261120", RECORDED_LOG.stat().st_size)
    with pytest.raises(SubprocessError, match="No such file"):
        probe_logs(tmp_path / "none")
