"""Daemon, ingester and hook do all their work with the rights of deploy/sql/roles.sql, and can do nothing else."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import text

from softwalltime.cli import run
from softwalltime.core.promises import LatestStart
from softwalltime.core.settings import load_settings
from softwalltime.store.connections import connect
from softwalltime.store.daily import refresh
from softwalltime.store.migrations import downgrade, upgrade
from softwalltime.store.opening import open_store
from softwalltime.store.promises import known_latest_starts, store_latest_starts
from tests.samples import RECORDED_LOG, ROOT, job
from tests.service.running import Daemon, until
from tests.store.monitored import decision, ended, fresh, store

pytestmark = pytest.mark.postgres

SCRIPT = (ROOT / "deploy" / "sql" / "roles.sql").read_text()
ROLES = ("softwalltime", "softwalltime_ingest", "softwalltime_hook", "softwalltime_owner")
As = Callable[[str], str]


@pytest.fixture
def as_role(empty_database: str) -> Iterator[As]:
    """DSN by role, of a database that was set up as roles.sql says."""

    def dsn(role: str) -> str:
        return make_conninfo(empty_database, options=f"-c role={role}")

    with psycopg.connect(empty_database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = ANY (%s)", [list(ROLES)]).fetchone() is not None:
            pytest.skip("this PostgreSQL has roles of these names, which are somebody's")
        connection.execute(SCRIPT)
        with open_store(load_settings(dsn=dsn("softwalltime_owner")), migrate=True) as engine:
            upgrade(engine)
        connection.execute(SCRIPT)
        connection.execute(SCRIPT)
    yield dsn
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA softwalltime CASCADE")
        for role in ROLES:
            connection.execute(sql.SQL("DROP OWNED BY {0}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {0}").format(sql.Identifier(role)))


def test_the_daemons_role_can_ingest_predict_record_refresh_and_delete(as_role: As, tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, as_role("softwalltime"))
    daemon.log.write_bytes(RECORDED_LOG.read_bytes())
    daemon.start()
    until(lambda: daemon.status()["learnt"] >= 42)
    daemon.append([job("alice", job_id=f"{number}.s", end=int(time.time()) - 60) for number in (900001, 900002)])
    until(lambda: daemon.status()["learnt"] >= 44)
    until(lambda: daemon.predict(job_id="900003.s")["action"] == "set")
    until(lambda: daemon.status()["recorded"] > 0)
    assert daemon.status()["store"] == "ok"
    assert daemon.end(signal.SIGTERM) == 0
    settings = load_settings(dsn=as_role("softwalltime"), keep_days=1)
    with open_store(settings) as engine:
        assert sum(refresh(engine, int(time.time()))) > 0
    assert run(["db", "prune", "--force", "--config", str(with_keep_days(tmp_path, as_role("softwalltime")))]) == 0


def test_the_daemons_role_works_after_an_upgrade_before_the_roles_are_renewed(as_role: As) -> None:
    owner, daemon = connect(as_role("softwalltime_owner")), connect(as_role("softwalltime"))
    try:
        downgrade(owner, "0001")
        upgrade(owner)
        store(daemon, [ended()], [decision()])
        assert fresh(daemon) == 1
    finally:
        owner.dispose()
        daemon.dispose()


def with_keep_days(folder: Path, dsn: str) -> Path:
    config = folder / "prune.toml"
    config.write_text(f'dsn = "{dsn}"\nkeep_days = 1\n'.replace("\\", "\\\\"))
    return config


def test_the_ingest_role_can_ingest(as_role: As, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", str(RECORDED_LOG), "--dsn", as_role("softwalltime_ingest")]) == 0
    assert "42" in capsys.readouterr().out


def test_only_the_daemons_role_deletes_scripts(as_role: As) -> None:
    with open_store(load_settings(dsn=as_role("softwalltime"))) as engine, engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.job_scripts"))
    for role in ("softwalltime_ingest", "softwalltime_hook"):
        with psycopg.connect(as_role(role)) as driver, pytest.raises(errors.InsufficientPrivilege):
            driver.execute("DELETE FROM softwalltime.job_scripts")


def test_the_daemon_keeps_latest_starts(as_role: As) -> None:
    start = LatestStart("1.srv", 1000, 2000, "x")
    with open_store(load_settings(dsn=as_role("softwalltime"))) as engine, engine.begin() as connection:
        store_latest_starts(connection, "", {"1.srv": replace(start, latest=1), "2.srv": start})
        store_latest_starts(connection, "", {"1.srv": start, "2.srv": None})
        assert list(known_latest_starts(connection, "srv")) == [start]


def test_the_hooks_role_can_predict(as_role: As) -> None:
    with psycopg.connect(as_role("softwalltime_hook")) as connection:
        asked = "SELECT softwalltime.soft_walltime(softwalltime.predict(%s, 'alice', 'p', 3600, 5000), 3600, 60)"
        for predictor in ("usage", "last2", "percentile"):
            assert connection.execute(asked, [predictor]).fetchone() == (None,)


def test_roles_that_were_granted_nothing_cannot_connect(as_role: As, empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("CREATE ROLE softwalltime_test_stranger LOGIN")
        try:
            for privilege in ("CONNECT", "TEMPORARY"):
                asked = "SELECT has_database_privilege('softwalltime_test_stranger', current_database(), %s)"
                assert connection.execute(asked, [privilege]).fetchone() == (False,), privilege
        finally:
            connection.execute("DROP ROLE softwalltime_test_stranger")


MODES = ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE",
         "EXCLUSIVE", "ACCESS EXCLUSIVE")  # fmt: skip
RELATIONS = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'softwalltime'::regnamespace AND relkind IN ('r', 'v') ORDER BY relname
"""


@pytest.fixture
def reader(as_role: As, empty_database: str) -> Iterator[str]:
    """DSN of a login role that may read everything a hook, a monitor and a person with SELECT may read."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'softwalltime_monitor'").fetchone() is not None:
            pytest.skip("this PostgreSQL has a role softwalltime_monitor, which is somebody's")
        connection.execute((ROOT / "deploy" / "sql" / "monitoring-role.sql").read_text())
        connection.execute("CREATE ROLE softwalltime_test_reader LOGIN IN ROLE softwalltime_monitor, softwalltime_hook")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA softwalltime TO softwalltime_test_reader")
        yield as_role("softwalltime_test_reader")
        for role in ("softwalltime_test_reader", "softwalltime_monitor", "softwalltime_monitor_anonymous"):
            connection.execute(sql.SQL("DROP OWNED BY {0}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {0}").format(sql.Identifier(role)))


def test_no_reader_can_stop_a_writer_or_an_upgrade(
    as_role: As, reader: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("softwalltime.store.connections.LOCK_TIMEOUT", "2s")
    with psycopg.connect(reader) as connection:
        relations = [name for (name,) in connection.execute(RELATIONS)]
        taken = set()
        for relation, mode in product(relations, MODES):
            with suppress(errors.InsufficientPrivilege), connection.transaction():
                statement = "LOCK TABLE softwalltime.{} IN {} MODE NOWAIT"
                connection.execute(sql.SQL(statement).format(sql.Identifier(relation), sql.SQL(mode)))
                taken.add(mode)
        assert taken == {"ACCESS SHARE"}
        # Advisory locks are open to every role; nothing may depend on them.
        advisory = "SELECT pg_advisory_lock(%s, number) FROM generate_series(0, 9) AS number"
        for class_ in (0, 0x50425353):
            connection.execute(advisory, [class_])
        assert run(["ingest", str(RECORDED_LOG), "--dsn", as_role("softwalltime_ingest")]) == 0
        # A check creates views, for which nobody may read them; the advisory locks stay.
        connection.commit()
        assert run(["db", "check", "--dsn", as_role("softwalltime_owner")]) == 0
        capsys.readouterr()


def test_a_writer_that_waits_long_names_the_session_that_blocks_it(
    as_role: As, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("softwalltime.store.connections.LOCK_TIMEOUT", "100ms")
    with psycopg.connect(as_role("softwalltime"), application_name="night job") as blocker:
        blocker.execute("LOCK TABLE softwalltime.write_lock IN EXCLUSIVE MODE")
        assert run(["ingest", str(RECORDED_LOG), "--dsn", as_role("softwalltime_ingest")]) == 1
        said = capsys.readouterr().err
        assert f"blocked by process {blocker.info.backend_pid} of role " in said
        assert "(night job" in said
        assert "SELECT pg_terminate_backend(PROCESS)" in said


OVERRIDING = """
    INSERT INTO softwalltime.completed_jobs (id, ctime, end_time, runtime, state, server, job_id)
    OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 1, 'finished', 's', '1.s')
"""
FORBIDDEN = {
    "softwalltime": [
        # Its id would be that of a job that was deleted.
        OVERRIDING,
        "INSERT INTO softwalltime.predictions (id, predicted_at) OVERRIDING SYSTEM VALUE VALUES (1, 1)",
        "INSERT INTO softwalltime.completed_jobs OVERRIDING SYSTEM VALUE SELECT * FROM softwalltime.completed_jobs",
        "DROP TABLE softwalltime.predictions",
        "ALTER TABLE softwalltime.completed_jobs ADD COLUMN x int",
        "TRUNCATE softwalltime.completed_jobs",
        "UPDATE softwalltime.completed_jobs SET runtime = 1",
        "UPDATE softwalltime.predictions SET soft_walltime = 1",
        "DELETE FROM softwalltime.log_positions",
        "UPDATE softwalltime.alembic_version SET version_num = '1'",
        "CREATE TABLE softwalltime.x ()",
        "CREATE FUNCTION softwalltime.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA x",
        "CREATE ROLE softwalltime_x",
        "COPY softwalltime.completed_jobs TO PROGRAM 'cat'",
        "SELECT pg_read_file('/etc/passwd')",
    ],
    "softwalltime_ingest": [
        OVERRIDING,
        "SELECT * FROM softwalltime.predictions",
        "DELETE FROM softwalltime.completed_jobs",
        "UPDATE softwalltime.completed_jobs SET runtime = 1",
        "CREATE TABLE softwalltime.x ()",
    ],
    "softwalltime_hook": [
        "SELECT * FROM softwalltime.predictions",
        "INSERT INTO softwalltime.teaching_states VALUES ('failed')",
        "DELETE FROM softwalltime.completed_jobs",
        "SELECT * FROM softwalltime.malformed_lines",
        "CREATE TABLE softwalltime.x ()",
    ],
    "softwalltime_owner": ["CREATE ROLE softwalltime_x", "SELECT pg_read_file('/etc/passwd')"],
}


@pytest.mark.parametrize("role", FORBIDDEN)
def test_the_roles_have_no_other_privileges(as_role: As, role: str) -> None:
    with psycopg.connect(as_role(role), autocommit=True) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (role,)
        for statement in FORBIDDEN[role]:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_a_compromised_daemon_is_limited_as_in_the_threat_model(as_role: As) -> None:
    with psycopg.connect(as_role("softwalltime"), autocommit=True) as connection:
        add = """
            INSERT INTO softwalltime.completed_jobs (ctime, end_time, runtime, state, server, job_id)
            VALUES (1, 1, 1, 'finished', 's', '1.s') RETURNING id
        """
        first = connection.execute(add).fetchone()
        connection.execute("DELETE FROM softwalltime.completed_jobs")
        assert connection.execute(add).fetchone() > first, "a job that was replaced shows by its id"
        with connection.transaction():
            connection.execute("LOCK softwalltime.completed_jobs")


def test_the_owner_role_passes_db_check(as_role: As, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "check", "--dsn", as_role("softwalltime_owner")]) == 0
    capsys.readouterr()
