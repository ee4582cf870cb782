"""The process that answers users: each gets his own jobs, whatever he sends, and nobody else's."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine

from softwalltime.service.users import own_jobs
from softwalltime.service.users.own_jobs import NoOwnJobsError, ask_own_jobs
from softwalltime.service.users.own_jobs_server import BURST
from tests.samples import ROOT
from tests.service.running import PATIENT
from tests.users.site import ME, OTHER, OwnJobsProcess, fill, listening, now, start_process

pytestmark = pytest.mark.postgres
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
ROLE = (ROOT / "deploy" / "sql" / "me-role.sql").read_text()


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """DSN with the role of deploy/sql/me-role.sql."""
    with psycopg.connect(database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'softwalltime_me'").fetchone() is not None:
            pytest.skip("this PostgreSQL has a role softwalltime_me, which is somebody's")
        for _ in range(2):
            connection.execute(ROLE.encode())
    yield make_conninfo(database, options="-c role=softwalltime_me")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY softwalltime_me; DROP ROLE softwalltime_me"))


@pytest.fixture
def process(role: str, engine: Engine) -> Iterator[OwnJobsProcess]:
    fill(engine, now())
    folder = Path(tempfile.mkdtemp())
    made = OwnJobsProcess(folder, role)
    yield made
    made.end()
    shutil.rmtree(folder)


def test_a_user_gets_his_own_jobs(process: OwnJobsProcess) -> None:
    found = ask_own_jobs(process.socket)
    assert (found.user, found.problem) == (ME, "")
    assert [job.job for job in found.waiting] == ["1.srv"]
    assert [job.job for job in found.running] == ["2.srv"]
    (waiting,), (running,) = found.waiting, found.running
    assert waiting.expected is not None
    assert waiting.range90 == (waiting.expected - 3600, waiting.expected + 3600)
    assert (waiting.runtime, waiting.runtime90, waiting.waits_for) == (3600, (1800, 5400), "first in the queue")
    assert (running.expected_end, running.latest_end) == (None, running.started + 7200)
    assert [made.server for made in found.forecasts] == ["srv"]
    assert [(probe.queue, probe.expected) for probe in found.probes] == [("long", waiting.expected)]


@as_root
def test_another_user_gets_his_own_jobs_and_no_others_whatever_he_sends(process: OwnJobsProcess) -> None:
    for sent in ("", f'{{"user": "{ME}"}}\n', "--user root\n" * 9):
        answer = process.ask(OTHER, sent)
        assert (answer["user"], [job["job"] for job in answer["waiting"]]) == (OTHER, ["3.srv"])
        assert [job["job"] for job in answer["running"]] == ["4.srv"]
    # An account without jobs learns nothing, not even whether others have any.
    nothing = process.ask("daemon")
    assert nothing["user"] == ""
    assert not any(nothing[kind] or nothing[f"{kind}_jobs"] for kind in ("waiting", "running", "ended"))


@as_root
def test_a_user_who_asks_too_often_is_refused_and_others_are_answered(process: OwnJobsProcess) -> None:
    def ask_often() -> None:
        for _ in range(10 * int(BURST)):
            ask_own_jobs(process.socket)

    with pytest.raises(NoOwnJobsError, match="asked too often"):
        ask_often()
    assert process.ask(OTHER)["user"] == OTHER


@as_root
def test_only_the_account_of_the_web_server_names_another_user(
    role: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine, now())
    monkeypatch.setenv("SOFTWALLTIME_WEB_ACCOUNT", "daemon")
    with tempfile.TemporaryDirectory() as folder:
        made = OwnJobsProcess(Path(folder), role)
        assert [made.ask("daemon", f"{name}\n")["user"] for name in (ME, OTHER, "eve")] == [ME, OTHER, ""]
        answer = made.ask(OTHER, f"{ME}\n")
        assert (answer["user"], [job["job"] for job in answer["waiting"]]) == (OTHER, ["3.srv"])
        made.end()


def test_it_takes_the_socket_of_systemd(
    role: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine, now())
    monkeypatch.setattr(own_jobs, "TIMEOUT", PATIENT)
    path = tmp_path / "me.sock"
    with listening(path) as listener:
        process = start_process(listener, role)
        try:
            # The first one who asks waits for the process, and gets his jobs.
            assert ask_own_jobs(path).user == ME
        finally:
            process.terminate()
            process.wait(PATIENT)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SOFTWALLTIME_DSN": "postgresql:///x"}, "no socket: start softwalltime-me.socket"),
        ({}, "no store: set SOFTWALLTIME_DSN"),
        ({"SOFTWALLTIME_DSN": "postgresql:///x", "SOFTWALLTIME_WEB_ACCOUNT": "root"}, "web_account: not root"),
        ({"SOFTWALLTIME_DSN": "postgresql:///x", "SOFTWALLTIME_WEB_ACCOUNT": "no\x1b"}, "no account no?"),
    ],
)
def test_wrong_settings_end_it_with_2_which_systemd_does_not_restart(environment: dict[str, str], message: str) -> None:
    command = [sys.executable, "-m", "softwalltime.service.users.process"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_role_can_read_nothing_else_and_change_nothing(role: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection:
        for statement in (
            "SELECT project FROM softwalltime.expected_starts",
            "SELECT account FROM softwalltime.completed_jobs",
            "SELECT * FROM softwalltime.completed_jobs",
            "SELECT basis FROM softwalltime.predictions",
            "SELECT script FROM softwalltime.job_scripts",
            "SELECT line FROM softwalltime.malformed_lines",
            "SELECT user_name FROM softwalltime.jobs_now",
            "DELETE FROM softwalltime.current_jobs",
            "LOCK TABLE softwalltime.current_jobs IN ROW EXCLUSIVE MODE",
            "CREATE TABLE softwalltime.x ()",
        ):
            with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())
