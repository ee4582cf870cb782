"""Decisions are stored while the daemon does other work, whatever a single decision contains."""

import json
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.jobs import DecisionRecord
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.protocol import NoAnswerError, ask
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.logs import read_malformed
from tests.samples import job
from tests.service.own_postgres import own_postgres
from tests.service.running import PATIENT, Daemon, until

pytestmark = pytest.mark.postgres
DECISION = DecisionRecord(0, "queuejob", job(job_id="1.srv").submission, "on", "v1", 1.0, 60, "set", "")


@pytest.fixture
def queue() -> deque[DecisionRecord]:
    return deque(replace(DECISION, at=number) for number in range(2500))


@pytest.fixture
def recorder(queue: deque[DecisionRecord], engine: Engine) -> Iterator[DecisionRecorder]:
    monitor = StatementMonitor(PATIENT)
    recorder = DecisionRecorder(queue, Path("/run/hook.sock"), lambda: nullcontext(engine), monitor, PromiseStore())
    recorder.start()
    yield recorder
    assert recorder.stop(PATIENT)


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, database)
    yield daemon
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.end(signal.SIGKILL)


def stored(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT predicted_at FROM softwalltime.predictions ORDER BY id")).scalars())


def too_long_for_an_index() -> str:
    """A text that PostgreSQL cannot compress to the size of an index row."""
    chance = Random(1)
    return "".join(chr(chance.randrange(33, 127)) for _ in range(8000))


def test_a_decision_that_cannot_be_stored_is_set_aside_and_all_others_are_stored(
    queue: deque[DecisionRecord], recorder: DecisionRecorder, engine: Engine
) -> None:
    wrong = replace(DECISION, submission=replace(DECISION.submission, job_id=too_long_for_an_index()), at=3)
    queue[700] = wrong
    queue[2400] = replace(DECISION, took=2**40)
    recorder.engine = engine
    until(lambda: not queue)
    assert stored(engine) == [number for number in range(2500) if number not in (700, 2400)]
    assert (recorder.recorded, recorder.malformed, recorder.problem) == (2498, 2, "")
    with engine.connect() as connection:
        second, first = read_malformed(connection)
    assert json.loads(second.line)["took"] == 2**40
    assert first.path == second.path == "/run/hook.sock"
    assert first.reason.startswith("prediction: index row size")
    assert "out of range" in second.reason


def test_decisions_wait_while_the_store_fails_and_keep_their_order(
    queue: deque[DecisionRecord], recorder: DecisionRecorder, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softwalltime.service.recorder.RETRY_INTERVAL_S", 0.05)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE softwalltime.predictions RENAME TO away"))
    recorder.engine = engine
    until(lambda: "softwalltime db upgrade" in recorder.problem)
    assert len(queue) == 2500
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE softwalltime.away RENAME TO predictions"))
    until(lambda: not queue)
    assert stored(engine) == list(range(2500))


def test_predictions_made_while_the_history_loads_are_stored_before_the_daemon_ends(
    daemon: Daemon, engine: Engine
) -> None:
    with engine.begin() as other:
        other.execute(text("LOCK softwalltime.completed_jobs IN ACCESS EXCLUSIVE MODE"))
        daemon.start(ready=False)
        until(lambda: daemon.status()["store"] == "ok")
        assert daemon.predict(job_id="1.srv")["basis"] == "the history is still being loaded"
        assert daemon.end() == 0
    assert len(stored(engine)) == 1
    assert "could not be recorded" not in daemon.output.read_text()


def test_no_request_waits_while_the_last_predictions_are_stored(daemon: Daemon, engine: Engine) -> None:
    daemon.start()
    assert daemon.process is not None
    with engine.begin() as other:
        other.execute(text("LOCK softwalltime.predictions IN ACCESS EXCLUSIVE MODE"))
        daemon.predict(job_id="1.srv")
        daemon.send(signal.SIGTERM)
        until(lambda: not daemon.socket.exists())
        assert daemon.process.poll() is None
        with pytest.raises(NoAnswerError, match="no daemon answers there"):
            ask(daemon.socket, {"op": "ping"})
    assert daemon.process.wait(PATIENT) == 0
    assert len(stored(engine)) == 1


def test_predictions_made_before_the_store_was_opened_are_stored_at_sigterm(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        postgres.stop()
        daemon = Daemon(tmp_path, postgres.dsn).start(ready=False)
        try:
            assert daemon.predict(job_id="1.srv")["basis"] == "the history is still being loaded"
            began = daemon.status()["uptime"]
            # The worker's pause doubles from 1 s; it is at least 4 s when PostgreSQL comes back.
            until(lambda: daemon.status()["uptime"] - began > 4)
            assert "cannot connect" in daemon.status()["store"]
            postgres.start()
            assert daemon.end() == 0
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.end(signal.SIGKILL)
        engine = connect(postgres.dsn)
        assert len(stored(engine)) == 1
        engine.dispose()
        assert "could not be recorded" not in daemon.output.read_text()


def test_the_status_shows_that_postgres_hangs_while_the_history_loads(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        engine = connect(postgres.dsn)
        daemon = Daemon(tmp_path, postgres.dsn)
        try:
            with engine.begin() as other:
                other.execute(text("LOCK softwalltime.completed_jobs IN ACCESS EXCLUSIVE MODE"))
                daemon.start(ready=False)
                waiting = text("SELECT true FROM pg_locks WHERE NOT granted")
                until(lambda: other.execute(waiting).first())
                assert daemon.status()["store"] == "ok"
                with postgres.suspended():
                    until(lambda: daemon.status()["store"] != "ok", 40)
                until(lambda: daemon.status()["store"] == "ok")
                assert not daemon.status()["ready"], "the same statement goes on"
            until(lambda: daemon.status()["ready"])
            assert daemon.end() == 0
        finally:
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.end(signal.SIGKILL)
            engine.dispose()
