"""The whole daemon: answers, learning, recording, recovery and shutdown."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from softwalltime.cli import run
from softwalltime.service.protocol import NoAnswerError
from softwalltime.store.completed_jobs import read_jobs
from softwalltime.store.connections import connect
from softwalltime.store.embedded.postgres_process import embedded_postgres
from tests.fix_postgres import scratch
from tests.samples import job
from tests.service.own_postgres import create_tables
from tests.service.running import PATIENT, Daemon, suspend_postgres, until
from tests.store.stored import add_jobs, count_jobs

Start = Callable[..., Daemon]
HISTORY = [job(job_id=f"{n}.srv", runtime=600, end=1_700_000_000 + n) for n in range(3)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    daemons: list[Daemon] = []

    def begin(dsn: str, *policy: str, ready: bool = True) -> Daemon:
        daemon = Daemon(tmp_path, dsn, *policy)
        daemons.append(daemon)
        return daemon.start(ready=ready)

    yield begin
    for daemon in daemons:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end(signal.SIGKILL)


def test_it_predicts_from_the_history_after_a_start(start: Start, database: str, engine: Engine) -> None:
    with engine.begin() as connection:
        add_jobs(connection, HISTORY)
    daemon = start(database)
    assert daemon.predict() == {
        "v": 1, "action": "set", "soft_walltime": 600, "basis": "mean of the last 2 runtimes of user alice",
    }  # fmt: skip
    assert daemon.predict("runjob", soft_walltime=600)["soft_walltime"] == 3600


def test_it_follows_the_accounting_log_and_learns_each_job_once(start: Start, database: str, engine: Engine) -> None:
    daemon = start(database, 'mode = "on"\nwaiting = "percentile:keys=user,least=1,p=100,window=9999w"\n')
    assert daemon.predict()["action"] == "none"
    daemon.append(HISTORY[:2])
    until(lambda: daemon.predict(walltime=2000)["action"] == "set")
    daemon.append([job(job_id="9.srv", runtime=700, end=1_700_000_009)])
    until(lambda: daemon.status()["learnt"] == 3)
    assert daemon.predict(walltime=1000)["soft_walltime"] == 700
    with engine.connect() as connection:
        assert count_jobs(connection) == 3


def test_it_learns_what_another_process_ingests(start: Start, database: str, engine: Engine) -> None:
    daemon = start(database)
    with engine.begin() as connection:
        add_jobs(connection, HISTORY)
    until(lambda: daemon.predict()["action"] == "set")


@pytest.fixture
def start_both(tmp_path: Path) -> Iterator[Callable[[str, str, str], tuple[Daemon, Daemon]]]:
    """Start two daemons with one store for PBS servers with these names; daemons with the same name follow one log."""
    daemons: list[Daemon] = []

    def begin(dsn: str, *servers: str) -> tuple[Daemon, Daemon]:
        for server in servers:
            folder = tmp_path / f"host{len(daemons)}"
            folder.mkdir()
            daemon = Daemon(folder, dsn)
            daemon.environment["SOFTWALLTIME_SERVER"] = server
            if daemons and servers[0] == server:
                daemon.accounting, daemon.log = daemons[0].accounting, daemons[0].log
                daemon.configure('mode = "on"\nwaiting = "v1"\n')
            daemons.append(daemon)
        for daemon in daemons:
            daemon.start()
        return daemons[0], daemons[1]

    yield begin
    for daemon in daemons:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.end(signal.SIGKILL)


def test_jobs_of_one_server_are_learnt_by_the_daemon_of_the_other(
    start_both: Callable[[str, str, str], tuple[Daemon, Daemon]], database: str, engine: Engine
) -> None:
    here, there = start_both(database, "pbs1", "pbs2")
    here.append(HISTORY)
    until(lambda: there.predict()["action"] == "set")
    there.append(HISTORY)
    until(lambda: here.status()["learnt"] == there.status()["learnt"] == 2 * len(HISTORY))
    with engine.connect() as connection:
        stored = [(found.server, found.submission.job_id) for found in read_jobs(connection)]
    assert sorted(stored) == [(server, each.submission.job_id) for server in ("pbs1", "pbs2") for each in HISTORY]


def test_two_daemons_that_follow_one_log_store_each_job_once_and_learn_all(
    start_both: Callable[[str, str, str], tuple[Daemon, Daemon]], database: str, engine: Engine
) -> None:
    primary, secondary = start_both(database, "pbs1", "pbs1")
    for number in range(20):
        primary.append([job(job_id=f"{number}.srv", end=1_700_000_000 + number)])
    until(lambda: primary.status()["learnt"] == secondary.status()["learnt"] == 20)
    assert primary.status()["stored"] + secondary.status()["stored"] == 20
    primary.end(signal.SIGKILL)
    secondary.append([job(job_id="20.srv", end=1_700_000_020)])
    until(lambda: secondary.status()["learnt"] == 21)
    primary.start()
    secondary.append([job(job_id="21.srv", end=1_700_000_021)])
    until(lambda: secondary.status()["learnt"] == 22)
    assert primary.predict() == secondary.predict()
    with engine.connect() as connection:
        assert count_jobs(connection) == 22


def test_a_restart_after_a_kill_gives_the_same_predictions(start: Start, database: str) -> None:
    daemon = start(database)
    daemon.append(HISTORY)
    until(lambda: daemon.status()["learnt"] == 3)
    before = daemon.predict()
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert daemon.predict() == before
    assert daemon.status()["stored"] == 0, "the log was not read again"


def test_every_prediction_is_stored_before_the_daemon_ends(start: Start, database: str, engine: Engine) -> None:
    daemon = start(database, 'mode = "shadow"\nwaiting = "v1"\n')
    daemon.append(HISTORY)
    until(lambda: daemon.status()["learnt"] == 3)
    assert daemon.predict(job_id="77.srv", queue="long")["action"] == "none"
    assert daemon.end() == 0
    assert not daemon.socket.exists()
    with engine.connect() as connection:
        rows = connection.execute(text("select * from softwalltime.predictions")).mappings().all()
    row = rows[-1]
    assert (row["action"], row["soft_walltime"], row["job_id"], row["queue"]) == ("shadow", 600, "77.srv", "long")
    assert row["took"] > 0


def test_sighup_reloads_the_policy_and_keeps_the_old_one_if_it_is_invalid(start: Start, database: str) -> None:
    daemon = start(database)
    daemon.append(HISTORY)
    until(lambda: daemon.status()["learnt"] == 3)
    daemon.configure('mode = "on"\nwaiting = "v2"\n')
    daemon.send(signal.SIGHUP)
    until(lambda: daemon.predict()["soft_walltime"] == 1500)
    daemon.configure('mode = "on"\nwaiting = "v99"\n')
    daemon.send(signal.SIGHUP)
    until(lambda: "no predictor is called 'v99'" in daemon.output.read_text())
    assert daemon.predict()["soft_walltime"] == 1500
    assert daemon.status()["settings"].startswith("policy.waiting: no predictor is called 'v99'")
    assert run(["status", "--socket", str(daemon.socket)]) == 1
    daemon.configure('mode = "on"\nwaiting = "v1"\n')
    daemon.send(signal.SIGHUP)
    until(lambda: daemon.status()["settings"] == "ok")
    assert run(["status", "--socket", str(daemon.socket)]) == 0


@pytest.fixture
def own_postgres() -> Iterator[tuple[str, Path]]:
    """DSN and data folder of a PostgreSQL that a test may stop."""
    with scratch() as folder, embedded_postgres(folder / "data", durable=False) as dsn:
        create_tables(dsn)
        yield dsn, folder / "data" / "postgres" / "data"


def test_it_answers_from_memory_while_postgres_hangs_and_catches_up_afterwards(
    start: Start, own_postgres: tuple[str, Path]
) -> None:
    dsn, data = own_postgres
    daemon = start(dsn)
    daemon.append(HISTORY[:1])
    until(lambda: daemon.status()["learnt"] == 1)
    suspend_postgres(data, signal.SIGSTOP)
    try:
        daemon.append(HISTORY[1:])
        for _ in range(50):
            assert daemon.predict()["soft_walltime"] == 600
        until(lambda: daemon.status()["store"].startswith("PostgreSQL has not answered for "), 30)
    finally:
        suspend_postgres(data, signal.SIGCONT)
    until(lambda: daemon.status()["learnt"] == 3 and daemon.status()["to_record"] == 0)
    assert daemon.status()["stored"] == 3


def test_it_answers_from_memory_while_postgres_is_down_and_catches_up_afterwards(
    start: Start, own_postgres: tuple[str, Path]
) -> None:
    dsn, data = own_postgres
    daemon = start(dsn)
    daemon.append(HISTORY[:2])
    until(lambda: daemon.status()["learnt"] == 2)
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    until(lambda: not (data / "postmaster.pid").exists() or daemon.status()["store"] != "ok")
    daemon.append(HISTORY[2:])
    until(lambda: daemon.status()["store"] != "ok")
    assert daemon.predict()["soft_walltime"] == 600
    assert daemon.status()["learnt"] == 2
    # The next user of the embedded PostgreSQL starts it again.
    with embedded_postgres(data.parents[1], durable=False):
        until(lambda: daemon.status()["store"] == "ok" and daemon.status()["learnt"] == 3)
        until(lambda: daemon.status()["to_record"] == 0)
        daemon.end()


def test_after_an_upgrade_the_store_is_ok_before_the_logs_are_stored(start: Start, database: str) -> None:
    engine = connect(database)
    with engine.begin() as connection:
        connection.execute(text("alter schema softwalltime rename to away"))
    daemon = start(database, ready=False)
    daemon.append(HISTORY)
    until(lambda: "softwalltime db upgrade" in daemon.status()["store"])
    with engine.begin() as writer:
        writer.execute(text("lock table away.completed_jobs in share mode"))
        with engine.begin() as connection:
            connection.execute(text("alter schema away rename to softwalltime"))
        until(lambda: daemon.status()["store"] == "ok")
        assert daemon.status()["stored"] == 0
    until(lambda: daemon.status()["learnt"] == 3)
    engine.dispose()


def test_without_postgres_it_answers_that_the_history_is_loading(start: Start) -> None:
    daemon = start("postgresql://nobody@127.0.0.1:1/none", ready=False)
    assert daemon.predict()["basis"] == "the history is still being loaded"
    until(lambda: "127.0.0.1" in daemon.status()["store"])
    assert daemon.end() == 0


def test_systemd_is_notified_of_ready_watchdog_and_stopping(tmp_path: Path, database: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENT)
        daemon = Daemon(tmp_path, database)
        daemon.environment["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        daemon.start(ready=False)
        told = iter(lambda: systemd.recv(1000).decode(), "")
        # The watchdog is notified from the start, readiness later.
        assert next(told) == "WATCHDOG=1"
        assert any(state.startswith("READY=1") for state in told)
        assert daemon.end() == 0
        systemd.settimeout(0)
        assert "STOPPING=1" in told


def test_jobs_around_malformed_lines_are_read(start: Start, database: str) -> None:
    daemon = start(database)
    with daemon.log.open("ab") as log:
        log.write(bytes(range(256)) * 20 + b"\n" + b"11/20/2026 10:16:10;E;1.srv;user=\n")
    daemon.append(HISTORY)
    until(lambda: daemon.status()["learnt"] == 3)
    assert daemon.status()["malformed"] >= 2


def test_explain_and_status_use_the_daemon(start: Start, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = start(database, 'mode = "shadow"\nwaiting = "v1"\n')
    daemon.append(HISTORY)
    until(lambda: daemon.status()["learnt"] == 3)
    options = ["--config", str(daemon.config)]
    assert run(["explain", "--user", "alice", "--walltime", "01:00:00", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "soft walltime 00:10:00 (600 s): mean of the last 2 runtimes of user alice "
        "(predictor v1; mode shadow: recorded, not set)"
    )
    assert lines[1:] == []
    assert run(["explain", "--user", "alice", "--walltime", "00:05:00", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "no soft walltime: mean of the last 2 runtimes of user alice; that is not below the walltime"
    )
    # A job without a project has PBS's default project.
    daemon.configure('mode = "shadow"\nwaiting = "v1"\nrules = [{project = "_pbs_project_default", waiting = "v2"}]\n')
    daemon.send(signal.SIGHUP)
    until(lambda: daemon.status()["policy"]["rules"])
    for project, expected in (((), 1500), (("--project", "other"), 600)):
        assert run(["explain", "--user", "alice", "--walltime", "01:00:00", *project, *options]) == 0
        assert f"({expected} s): " in capsys.readouterr().out
    assert run(["explain", "--user", "bob", "--walltime", "3600", "--project", "other", *options]) == 0
    assert capsys.readouterr().out.startswith(
        "no soft walltime: user bob has no completed job (predictor v1)\n"
        "A prediction needs at least 1 more completed job of this kind.\n"
    )
    assert run(["explain", "--user", "alice", "--walltime", "00:10:00", "--project", "other", *options]) == 0
    assert capsys.readouterr().out.startswith(
        "no soft walltime: mean of the last 2 runtimes of user alice; that is not below the walltime (predictor v1)\n"
        "The prediction is 00:10:00 (600 s), the walltime 00:10:00 (600 s): PBS plans with the walltime.\n"
    )
    assert run(["status", *options]) == 0
    assert re.search(r"^ +store +ok$", capsys.readouterr().out, re.MULTILINE)


def test_without_a_daemon_status_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--socket", str(tmp_path / "s")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no daemon answers there" in error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_can_neither_connect_nor_read_the_socket(start: Start, database: str) -> None:
    daemon = start(database)
    for parent in daemon.socket.parents:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        with pytest.raises(NoAnswerError, match="Permission denied: only root and the daemon's user may ask it"):
            daemon.status()
        os.seteuid(0)
        # The check holds even if the socket is writable for everyone.
        daemon.socket.chmod(0o666)
        os.seteuid(65534)
        with pytest.raises(NoAnswerError, match=r"talks to root and its own user only|Connection reset|Broken pipe"):
            daemon.status()
    finally:
        os.seteuid(0)
    assert daemon.status()["refused_users"] == 1


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ('mode = "maybe"\n', "policy.mode: should be 'off', 'shadow' or 'on' ('maybe')"),
        ('waiting = "v99"\n', "policy.waiting: no predictor is called 'v99'"),
        ("minimum = 10\n", "policy.minimum: should be greater than or equal to 60 (10)"),
        ('mod = "on"\n', "policy.mod: unknown key; is mode meant?"),
        ('rules = [{que = "long"}]\n', "policy.rules[0].que: unknown key; is queue meant?"),
        ("frequency = 1\n", "policy.frequency: unknown key; there are preset, mode, waiting, "),
    ],
)
def test_an_invalid_policy_is_refused_before_the_daemon_starts(
    tmp_path: Path, policy: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = Daemon(tmp_path, "postgresql:///x", policy)
    assert run(["serve", "--config", str(daemon.config)]) == 2
    assert message.replace("'", "") in capsys.readouterr().err.replace("'", "")
    assert not daemon.socket.exists()
