"""The store's primary is killed and its standby promoted: the store still holds each record of the log exactly once.

SOFTWALLTIME_TEST_FAILOVERS: how often; default 1.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting.daily_files import log_files
from softwalltime.service import follow
from softwalltime.service.protocol import NoAnswerError, ask
from softwalltime.store.connections import connect
from tests.samples import job
from tests.service.fork_server import ForkServer
from tests.service.histories import history, random_plans, with_rubbish
from tests.service.log_helpers import ended
from tests.service.running import Daemon, until
from tests.service.standby_pair import standby_pair
from tests.service.stored import assert_as_the_log, positions_reach
from tests.service.test_exactly_once import end, pbs_server, write_logs

FAILOVERS = int(os.environ.get("SOFTWALLTIME_TEST_FAILOVERS", "1"))
SECONDS = 2.0
"""About how long one failover takes here, with the new standby."""


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("command", ["ingest", "serve"])
def test_every_record_is_stored_once_after_failovers(command: str, synchronous: bool, tmp_path: Path) -> None:
    chance = Random(FAILOVERS)
    plans = random_plans(chance, 150 * FAILOVERS, 2 * 86400 * FAILOVERS)
    source = write_logs(tmp_path / "written", with_rubbish(history(plans), chance))
    folder, errors = tmp_path / "accounting", tmp_path / "errors"
    config, socket = tmp_path / "softwalltime.toml", tmp_path / "socket"
    with standby_pair(synchronous=synchronous) as servers, ForkServer(errors) as forks:
        config.write_text(f'dsn = "{servers.dsn}"\naccounting = "{folder}"\nsocket = "{socket}"\n')
        options = ["--config", config] if command == "serve" else ["--follow", "--config", config]
        lost = 0

        def completed() -> int:
            return int(servers.ask(servers.primary, "SELECT count(*) FROM softwalltime.completed_jobs"))

        with pbs_server(source, folder, SECONDS * FAILOVERS) as writer:
            process = forks.start(command, *options)
            for _ in range(FAILOVERS):
                time.sleep(chance.uniform(0.2, 0.5))
                if not synchronous:
                    # A slow machine could read the whole log before, or nothing of it after.
                    with paused(writer):
                        servers.detach()
                        kept = completed()
                    until(
                        lambda kept=kept: completed() > kept or (writer.poll() == 0 and all_read(servers.dsn, folder))
                    )
                    time.sleep(chance.uniform(0, 0.3))
                jobs = completed()
                servers.fail_over()
                lost += jobs > completed()
                servers.join()
        assert synchronous or lost, "no failover lost a commit"
        until(lambda: all_read(servers.dsn, folder))
        engine = connect(servers.dsn)
        assert_as_the_log(engine, folder)
        if command == "serve":
            # It has learnt what a daemon learns that starts now.
            options = ["--dsn", servers.dsn, "--socket", tmp_path / "other"]
            other = forks.start("serve", *options)
            until(lambda: answers(tmp_path / "other") and status(tmp_path / "other")["ready"])
            learnt = status(tmp_path / "other")["learnt"]
            assert learnt > 0
            until(lambda: status(socket)["learnt"] == learnt, 20)
            end(other, signal.SIGTERM)
        end(process, signal.SIGTERM)
        engine.dispose()
    assert "Traceback" not in errors.read_text()


@contextmanager
def paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process meanwhile."""
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


def all_read(dsn: str, folder: Path) -> bool:
    """Return whether the logs of a folder were read to their ends."""
    engine = connect(dsn)
    try:
        return positions_reach(engine, log_files(folder))
    finally:
        # The server may be killed next.
        engine.dispose()


def status(socket: Path) -> dict[str, Any]:
    """Return the daemon's status."""
    return ask(socket, {"op": "status"}, 60)


def answers(socket: Path) -> bool:
    """Return whether a daemon answers there."""
    try:
        return bool(status(socket))
    except NoAnswerError:
        return False


@pytest.mark.parametrize("first_id", [4, 40])
def test_jobs_that_the_store_has_lost_are_read_and_learnt_again(
    first_id: int, tmp_path: Path, database: str, engine: Engine
) -> None:
    daemon = Daemon(tmp_path, database, 'waiting = "percentile"').start()
    recently = int(time.time()) - 9000
    jobs = [job(job_id=f"{number}.srv", submitted=recently, runtime=600 + number) for number in range(9)]
    daemon.append(jobs[:3])
    until(lambda: daemon.status()["learnt"] == 3)
    run(engine, "CREATE TABLE softwalltime.before AS TABLE softwalltime.log_positions")
    daemon.append(jobs[3:8])
    until(lambda: daemon.status()["learnt"] == 8)
    # What a standby holds that lacks the last commits; its ids go on somewhere.
    run(
        engine,
        "DELETE FROM softwalltime.completed_jobs WHERE id > 3",
        f"ALTER TABLE softwalltime.completed_jobs ALTER COLUMN id RESTART WITH {first_id}",
        "DELETE FROM softwalltime.log_positions",
        "INSERT INTO softwalltime.log_positions TABLE softwalltime.before",
        "DROP TABLE softwalltime.before",
    )
    daemon.append(jobs[8:])
    until(lambda: stored(engine) == 9)
    # Nothing is learnt twice: what is wrong stays so.
    time.sleep(1.5)
    assert daemon.status()["learnt"] == 9
    assert daemon.end() == 0
    assert_as_the_log(engine, daemon.accounting)


def test_a_follower_notices_a_loss_also_while_no_record_comes(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "CHECK_INTERVAL_S", 0)
    (tmp_path / "20261119").write_bytes(ended(1))
    follower = follow.Follower(tmp_path)
    assert follower.poll(engine) == 1
    run(engine, "TRUNCATE softwalltime.completed_jobs, softwalltime.log_positions")
    assert follower.poll(engine) == 1
    assert follower.poll(engine) == 0


def run(engine: Engine, *statements: str) -> None:
    """Run statements in one transaction."""
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def stored(engine: Engine) -> int:
    """Return the number of completed jobs."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM softwalltime.completed_jobs")).scalar_one())
