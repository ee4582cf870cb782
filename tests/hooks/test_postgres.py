"""The transport for sites without the daemon: the hook calls the SQL functions itself."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Site, altered, postqueued, queued, started
from softwalltime.store.embedded.postgres_process import embedded_postgres
from tests.hooks.conftest import HASTY, HOOK, HUNG, PATIENT, STATE
from tests.hooks.jobs import AT_QUEUEJOB, NOW, submission
from tests.hooks.test_breaker import PAUSE, outcome_of
from tests.samples import job
from tests.service.running import until
from tests.store.stored import add_jobs

Ask = Callable[..., HookOutcome]


@pytest.fixture
def ask(script: HookScript, configured: Callable[..., Path], transport: Path) -> Ask:
    """Run the hook for an event with PostgreSQL as its peer."""

    def ask(
        event: Any, dsn: str, deadline_ms: int = PATIENT, settings: dict[str, str] | None = None, **changes: Any
    ) -> HookOutcome:
        settings = {"transport_path": str(transport), "dsn": dsn, "waiting": "last2", **(settings or {})}
        outcome = script.run(
            event, configured(transport="postgres", deadline_ms=deadline_ms, postgres=settings, **changes)
        )
        assert not outcome.error
        assert outcome.accepted
        return outcome

    return ask


@pytest.fixture
def history(database: str, connection: Connection) -> str:
    """The DSN of a database with two jobs of alice, of 500 s and 700 s, and none of bob."""
    jobs = [
        job(
            "alice",
            job_id=f"{number}.pbs1",
            submitted=NOW - 9000 + number,
            runtime=runtime,
            walltime=3600,
            project="astro",
        )
        for number, runtime in enumerate((500, 700))
    ]
    add_jobs(connection, jobs)
    connection.commit()
    return database


def test_the_prediction_comes_from_the_sql_functions(ask: Ask, history: str, site: Site) -> None:
    assert ask(postqueued(submission(), site=site), history).soft_walltime == 600
    assert ask(queued(submission(), site=site), history, events=AT_QUEUEJOB).soft_walltime == 600
    alter = altered(submission(), {"walltime": "00:08:20"}, site=site, now=NOW, soft_walltime=600)
    assert ask(alter, history).soft_walltime == 500


def test_a_cold_start_gets_no_soft_walltime(ask: Ask, history: str, site: Site) -> None:
    outcome = ask(postqueued(submission(user="bob"), site=site), history)
    assert outcome.soft_walltime is None
    assert "no prediction below the walltime by last2" in outcome.log[0][1]


def test_a_starting_job_is_raised_to_its_walltime_without_a_connection(ask: Ask, site: Site) -> None:
    event = started(submission(), site=site, now=NOW, soft_walltime=600)
    assert ask(event, "host=/nowhere").soft_walltime == 3600


def test_a_starting_job_can_have_another_predictor(ask: Ask, history: str, site: Site) -> None:
    event = started(submission(), site=site, now=NOW, soft_walltime=60)
    assert ask(event, history, settings={"running": "last2+900"}).soft_walltime == 1500


def test_a_starting_job_without_a_prediction_is_raised_to_its_walltime_as_by_the_daemon(
    ask: Ask, history: str, site: Site
) -> None:
    event = started(submission(user="bob"), site=site, now=NOW, soft_walltime=600)
    assert ask(event, history, settings={"running": "last2"}).soft_walltime == 3600


def test_texts_of_users_are_parameters(ask: Ask, history: str, site: Site) -> None:
    assert (
        ask(postqueued(submission(project="'; drop schema softwalltime cascade; --"), site=site), history).soft_walltime
        == 600
    )
    assert ask(postqueued(submission(), site=site), history).soft_walltime == 600


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("host=/nowhere", "PostgreSQL: "),
        ("host=127.0.0.1 port=9", "PostgreSQL: "),
        ("this is no dsn", "OperationalError: "),
        ("", "no answer: "),
    ],
)
def test_an_unreachable_database_is_no_answer(
    dsn: str, said: str, ask: Ask, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")
    outcome = ask(postqueued(submission(), site=site), dsn)
    assert outcome.soft_walltime is None
    assert said in outcome.log[0][1]


def test_the_transport_is_loaded_once(ask: Ask, transport: Path, site: Site) -> None:
    event = postqueued(submission(), site=site)
    assert "PostgreSQL: " in ask(event, "host=/nowhere").log[0][1]
    transport.unlink()
    assert "PostgreSQL: " in ask(event, "host=/nowhere").log[0][1]


def test_a_database_without_the_functions_is_no_answer(ask: Ask, empty_database: str, site: Site) -> None:
    outcome = ask(postqueued(submission(), site=site), empty_database)
    assert "does not exist" in outcome.log[0][1]


def test_an_unknown_predictor_is_no_answer(ask: Ask, history: str, site: Site) -> None:
    outcome = ask(postqueued(submission(), site=site), history, settings={"waiting": "crystal ball"})
    assert "no predictor in SQL is called" in outcome.log[0][1]


def test_the_fallback_applies_at_a_start_without_an_answer(ask: Ask, site: Site) -> None:
    event = started(submission(), site=site, now=NOW, soft_walltime=600)
    assert ask(event, "host=/nowhere", settings={"running": "last2"}).soft_walltime == 3600


def test_a_slow_statement_is_cancelled(ask: Ask, history: str, site: Site) -> None:
    with psycopg.connect(history, autocommit=True) as connection:
        connection.execute("ALTER FUNCTION softwalltime.last2 RENAME TO quick")
        connection.execute(
            "CREATE FUNCTION softwalltime.last2(text, bigint) RETURNS double precision LANGUAGE sql VOLATILE"
            " AS 'SELECT 1.0::double precision FROM pg_sleep(3600)'"
        )
        begin = time.monotonic()
        outcome = ask(postqueued(submission(), site=site), history, deadline_ms=200)
        assert time.monotonic() - begin < HUNG
        assert "no answer" in outcome.log[0][1]
        # The server cancels the statement.
        there = "SELECT FROM pg_stat_activity WHERE application_name = 'softwalltime hook'"
        until(lambda: connection.execute(there).fetchone() is None)


def test_a_statement_that_the_server_does_not_cancel_costs_no_more_than_the_deadline(
    ask: Ask, history: str, site: Site
) -> None:
    with psycopg.connect(history, autocommit=True) as connection:
        connection.execute("ALTER FUNCTION softwalltime.last2 RENAME TO quick")
        connection.execute(
            "CREATE FUNCTION softwalltime.last2(text, bigint) RETURNS double precision LANGUAGE sql VOLATILE"
            f" AS 'SELECT 600.0::double precision FROM pg_sleep({HUNG})'"
        )
        begin = time.monotonic()
        outcome = ask(postqueued(submission(), site=site), make_conninfo(history, options=""), deadline_ms=200)
        assert time.monotonic() - begin < HUNG
        assert "no answer: timed out" in outcome.log[0][1]
        there = "FROM pg_stat_activity WHERE application_name = 'softwalltime hook'"
        connection.execute(f"SELECT pg_terminate_backend(pid) {there}")


@pytest.fixture
def suspended_postgres(tmp_path: Path) -> Iterator[str]:
    """The DSN of a suspended PostgreSQL: the kernel accepts connections, but no answer comes."""
    with embedded_postgres(tmp_path, durable=False) as dsn:
        (file,) = tmp_path.rglob("postmaster.pid")
        pid = int(file.read_text().split()[0])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield dsn
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_suspended_postgresql_costs_three_deadlines(ask: Ask, suspended_postgres: str, site: Site) -> None:
    event = postqueued(submission(), site=site)
    begin = time.monotonic()
    outcomes = [ask(event, suspended_postgres, deadline_ms=HASTY, breaker_seconds=PAUSE) for _ in range(6)]
    assert time.monotonic() - begin < HUNG
    assert [outcome_of(outcome) for outcome in outcomes] == ["late"] * 3 + ["no request"] * 3
    assert not any(outcome.soft_walltime for outcome in outcomes)


def test_a_peer_that_only_accepts_costs_no_more_than_the_deadline(ask: Ask, site: Site) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        dsn = f"host=127.0.0.1 port={server.getsockname()[1]} user=x dbname=x"
        begin = time.monotonic()
        outcome = ask(postqueued(submission(), site=site), dsn, deadline_ms=HASTY)
        assert time.monotonic() - begin < HUNG
    assert "no answer: timed out" in outcome.log[0][1]
    assert "PostgreSQL" in os.environ[STATE]
    assert "127.0.0.1" not in os.environ[STATE], "a DSN may hold a password"


FRESH = """
import json, sys
from pathlib import Path
hook, transport, folder, dsn, now = sys.argv[1:]
from softwalltime.emulation.pbs.pbs_events import Site, queued
from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.core.jobs import Submission
sys.path = [entry for entry in sys.path if "site-packages" not in entry]
configuration = Path(folder) / "hook.json"
postgres = {"transport_path": transport, "dsn": dsn, "psycopg_path": folder, "waiting": "last2"}
configuration.write_text(json.dumps({"transport": "postgres", "deadline_ms": 5000, "postgres": postgres}))
event = queued(Submission("7.pbs1", "alice", int(now), 3600), site=Site())
outcome = HookScript(Path(hook)).run(event, configuration)
pq = sys.modules.get("psycopg.pq")
print(json.dumps([outcome.soft_walltime, pq and pq.__impl__, pq and pq.__file__, [line for _, line in outcome.log]]))
"""


@pytest.mark.parametrize("installed", [True, False])
def test_pure_python_psycopg_is_loaded_from_its_folder(
    installed: bool, history: str, transport: Path, tmp_path: Path
) -> None:
    if installed:
        packages = Path(psycopg.__file__).parents[1]
        for name in ("psycopg", "typing_extensions.py"):
            (tmp_path / name).symlink_to(packages / name)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(HOOK), str(transport), str(tmp_path), history, str(NOW)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(HOOK.parents[1] / "daemon")},
    )
    soft_walltime, implementation, file, log = json.loads(done.stdout)
    if installed:
        assert (soft_walltime, implementation) == (600, "python"), log
        assert Path(file).is_relative_to(tmp_path)
    else:
        assert soft_walltime is None
        assert "FileNotFoundError" in log[0]


def test_the_request_has_the_time_of_the_event(ask: Ask, history: str, site: Site) -> None:
    """Before alice's first job ended, there is no prediction for her."""
    early = replace(postqueued(submission(), site=site), now=NOW - 9000)
    assert ask(early, history).soft_walltime is None
