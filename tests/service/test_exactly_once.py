"""Kills, stops, suspensions and full disks: the store holds each record of the log exactly once.

SOFTWALLTIME_TEST_KILLS: how often the ingesting process is killed; default 32.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from random import Random
from threading import Thread
from uuid import uuid4

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting import daily_files
from softwalltime.accounting.daily_files import log_files
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import StoreError
from softwalltime.service import ingest as ingesting
from softwalltime.service.follow import Follower
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.connections import connect, lock
from tests.samples import ROOT
from tests.service.fork_server import ForkServer
from tests.service.histories import Plan, history, random_plans, with_rubbish
from tests.service.own_postgres import own_postgres
from tests.service.running import until
from tests.service.stored import assert_as_the_log, positions_reach

pytestmark = pytest.mark.postgres

KILLS = int(os.environ.get("SOFTWALLTIME_TEST_KILLS", "32"))
IN_TRANSACTION = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
""")
BLOCKED = text("""
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
    WHERE relation = 'softwalltime.log_positions'::regclass AND NOT granted
""")
WAITING_TO_WRITE = text(
    "SELECT count(*) FROM pg_locks WHERE relation = 'softwalltime.write_lock'::regclass AND NOT granted"
)


def write_logs(folder: Path, lines: list[bytes]) -> Path:
    """Write these lines as logs by day; a line that is not a record belongs to the previous record's day."""
    folder.mkdir()
    day = b""

    def day_of(line: bytes) -> bytes:
        nonlocal day
        stamp = line[6:10] + line[:2] + line[3:5]
        day = stamp if stamp.isdigit() else day or b"20261118"
        return day

    for name, some in groupby(lines, day_of):
        with (folder / name.decode()).open("ab") as log:
            log.writelines(line + b"\n" for line in some)
    return folder


@contextmanager
def pbs_server(source: Path, target: Path, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that writes these logs; they are complete when the context ends."""
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.service.pbs_server", source, target, str(seconds)]
    with subprocess.Popen(command, cwd=ROOT) as writer:
        yield writer
        assert writer.wait() == 0
    for log in source.iterdir():
        assert (target / log.name).read_bytes() == log.read_bytes()


def end(process: int, number: signal.Signals) -> None:
    """Send a signal to a process of the fork server, and wait until it has ended."""
    os.kill(process, number)
    until(lambda: ended(process))


def ended(process: int) -> bool:
    """Return whether a process of the fork server has ended."""
    return not Path(f"/proc/{process}").exists()


def await_transaction(engine: Engine, seconds: float) -> None:
    """Wait until another session is in a transaction, with a timeout."""
    deadline = time.monotonic() + seconds
    with engine.connect() as connection:
        while time.monotonic() < deadline and not connection.execute(IN_TRANSACTION).scalar_one():
            connection.rollback()


@contextmanager
def blocked_commits(engine: Engine) -> Iterator[Callable[[], None]]:
    """Block commits of log positions; yield a function that waits until a session is blocked."""
    with engine.begin() as connection:
        # The position is written last.
        connection.execute(text("LOCK TABLE softwalltime.log_positions IN SHARE MODE"))
        yield lambda: until(lambda: connection.execute(BLOCKED).scalar_one() == 1)


@pytest.mark.parametrize(("command", "kills"), [("ingest", KILLS), ("serve", max(KILLS // 4, 4))])
def test_every_record_is_stored_once_after_kills_at_random_times(
    command: str, kills: int, tmp_path: Path, database: str, engine: Engine
) -> None:
    chance = Random(kills)
    plans = random_plans(chance, 15 * kills, 3 * 86400)
    source = write_logs(tmp_path / "written", with_rubbish(history(plans), chance))
    folder = tmp_path / "accounting"
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "{database}"\naccounting = "{folder}"\nsocket = "{tmp_path}/socket"\n')
    options = ["--config", config] if command == "serve" else ["--follow", "--config", config]
    with pbs_server(source, folder, 0.2 * kills), ForkServer(tmp_path / "errors") as forks:
        # Some kills are during a transaction for certain; most of the others, at random times, are too.
        for _ in range(kills // 4):
            with blocked_commits(engine) as await_blocked:
                process = forks.start(command, *options)
                await_blocked()
                end(process, signal.SIGKILL)
        for _ in range(kills - kills // 4):
            process = forks.start(command, *options)
            time.sleep(chance.uniform(0, 0.15))
            if chance.random() < 0.7:
                await_transaction(engine, 1)
                time.sleep(chance.uniform(0, 0.004))
            end(process, signal.SIGKILL)
    with ForkServer(tmp_path / "errors") as forks:
        process = forks.start(command, *options)
        until(lambda: positions_reach(engine, log_files(folder)))
        end(process, signal.SIGTERM)
    state = assert_as_the_log(engine, folder)
    assert len(state.completed) > 5 * kills
    assert state.interrupted
    assert state.current
    assert state.malformed
    # A worker process that was still starting when its parent was killed may report missing resources.
    tracebacks = (tmp_path / "errors").read_text().split("Traceback (most recent call last):")[1:]
    assert all("multiprocessing/forkserver.py" in each.splitlines()[1] for each in tracebacks)


def test_no_worker_process_remains_after_a_kill(
    tmp_path: Path, database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = history([Plan("QSE", number, (1,) * 9) for number in range(6000)])
    folder = write_logs(tmp_path / "accounting", lines)
    mark = f"SOFTWALLTIME_TEST_MARK={uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("SOFTWALLTIME_TEST_MIN_PARALLEL_BYTES", "0")
    with ForkServer(tmp_path / "errors") as forks:
        for _ in range(3):
            # With blocked commits, the command runs until all processes have started.
            with blocked_commits(engine):
                process = forks.start("ingest", folder, "--again", "--dsn", database)
                until(lambda: len(marked(mark)) > 4)
                end(process, signal.SIGKILL)
            until(lambda: len(marked(mark)) <= 1)
        assert marked(mark)
        process = forks.start("ingest", folder, "--dsn", database)
        until(lambda: ended(process))
    assert len(assert_as_the_log(engine, folder).completed) == 6000


def marked(mark: str) -> list[int]:
    """Return the processes with this mark in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def test_concurrent_processes_store_every_record_once(tmp_path: Path, database: str, engine: Engine) -> None:
    chance = Random(5)
    source = write_logs(tmp_path / "written", with_rubbish(history(random_plans(chance, 400, 2 * 86400)), chance))
    folder = tmp_path / "accounting"
    options = ["--dsn", database]
    with pbs_server(source, folder, 6) as writer, ForkServer(tmp_path / "errors") as forks:
        until(lambda: any(folder.iterdir()))
        followers = [forks.start("ingest", "--follow", folder, *options) for _ in range(2)]
        while writer.poll() is None:
            again = forks.start("ingest", *sorted(folder.iterdir()), "--again", *options)
            until(lambda: ended(again))  # noqa: B023 - called within this iteration
        until(lambda: positions_reach(engine, log_files(folder)))
        for process in followers:
            end(process, signal.SIGTERM)
    assert_as_the_log(engine, folder)
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_concurrent_threads_store_every_record_once(
    tmp_path: Path, database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "MAX_BATCH_LINES", 40)
    monkeypatch.setattr(daily_files, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(ingesting, "OVERTAKEN_PAUSE_S", 0.01)
    chance = Random(6)
    folder = write_logs(tmp_path / "accounting", with_rubbish(history(random_plans(chance, 300, 86400)), chance))
    tallies = [Tally() for _ in range(4)]
    stored: list[int] = []

    def read(number: int) -> None:
        own = connect(database)
        new, known = ingest_logs(own, log_files(folder), tallies[number], again=number == 0)
        own.dispose()
        stored.append(new)
        assert new + known == tallies[number].jobs

    threads = [Thread(target=read, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = assert_as_the_log(engine, folder)
    assert sum(stored) == len(state.completed)
    # The thread with `again` reads each line once, however often it is overtaken.  The others share the lines that it
    # has not read yet, if any.
    assert tallies[0].lines == state.lines
    assert sum(tally.lines for tally in tallies[1:]) <= state.lines


def test_a_process_waits_for_a_suspended_transaction(tmp_path: Path, database: str, engine: Engine) -> None:
    chance = Random(7)
    folder = write_logs(tmp_path / "accounting", history(random_plans(chance, 900, 86400)))
    with ForkServer(tmp_path / "errors") as forks:
        with blocked_commits(engine) as await_blocked:
            first = forks.start("ingest", "--follow", folder, "--dsn", database)
            await_blocked()
            os.kill(first, signal.SIGSTOP)
        try:
            second = forks.start("ingest", "--follow", folder, "--dsn", database)
            with engine.connect() as connection:
                until(lambda: connection.execute(WAITING_TO_WRITE).scalar_one() == 1)
            assert not ended(second)
        finally:
            os.kill(first, signal.SIGCONT)
        until(lambda: positions_reach(engine, log_files(folder)))
        for process in (first, second):
            end(process, signal.SIGTERM)
    assert_as_the_log(engine, folder)


def test_every_record_is_stored_once_while_postgres_stops_crashes_and_hangs(tmp_path: Path) -> None:
    chance = Random(8)
    source = write_logs(tmp_path / "written", with_rubbish(history(random_plans(chance, 700, 2 * 86400)), chance))
    folder = tmp_path / "accounting"
    errors = tmp_path / "errors"

    def count_in_log(word: str) -> int:
        return errors.read_text().count(word)

    with own_postgres() as postgres, ForkServer(errors) as forks:
        with pbs_server(source, folder, 6):
            process = forks.start("ingest", "--follow", folder, "--dsn", postgres.dsn)
            until(lambda: count_in_log("INFO stored"))
            for number, interrupt in enumerate(("crash", "shutdown"), 1):
                time.sleep(chance.uniform(0.3, 0.8))
                before = count_in_log("ERROR ")
                postgres.kill(signal.SIGQUIT if interrupt == "crash" else signal.SIGINT)
                # There is at least this record to store.
                with (folder / "20270101").open("a") as log:
                    log.write(f"01/01/2027 10:00:00;L;license;{interrupt}\n")
                until(lambda: count_in_log("ERROR ") > before)  # noqa: B023 - called within this iteration
                postgres.start()
                until(lambda: count_in_log("INFO reading again after an error") >= number)  # noqa: B023 - called within this iteration
                time.sleep(chance.uniform(0.3, 0.8))
                with postgres.suspended():
                    time.sleep(0.4)
        engine = connect(postgres.dsn)
        until(lambda: positions_reach(engine, log_files(folder)))
        end(process, signal.SIGTERM)
        assert_as_the_log(engine, folder)
        engine.dispose()
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize("command", [["ingest", "--follow"], ["ingest"], ["serve", "--accounting"]], ids=" ".join)
def test_the_process_ends_at_sigterm_while_postgres_hangs(command: list[str], tmp_path: Path) -> None:
    chance = Random(9)
    source = write_logs(tmp_path / "written", history(random_plans(chance, 900, 86400)))
    folder = tmp_path / "accounting"
    with own_postgres() as postgres, ForkServer(tmp_path / "errors") as forks:
        options = ["--socket", str(tmp_path / "socket")] if command[0] == "serve" else []
        with pbs_server(source, folder, 0):
            pass
        engine = connect(postgres.dsn)
        with engine.begin() as connection:
            # The process is blocked in its commit.
            lock(connection)
            process = forks.start(*command, folder, "--dsn", postgres.dsn, *options)
            until(lambda: connection.execute(WAITING_TO_WRITE).scalar_one() == 1)
            with postgres.suspended():
                end(process, signal.SIGTERM)
        # The next process reads the uncommitted records again.
        process = forks.start("ingest", "--follow", folder, "--dsn", postgres.dsn)
        until(lambda: positions_reach(engine, log_files(folder)))
        end(process, signal.SIGTERM)
        assert_as_the_log(engine, folder)
        engine.dispose()
    assert "Traceback" not in (tmp_path / "errors").read_text()


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Mount a file system of this size."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "softwalltime-test", folder]
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Callable[[], None]:
    """Fill a disk; return a function that frees it."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while (free := shutil.disk_usage(disk).free) > 65536:
            # PostgreSQL may allocate space at the same time.
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), ballast.stat().st_size, free - 65536)
    return ballast.unlink


def test_nothing_is_lost_while_the_disk_is_full(tmp_path: Path) -> None:
    many = history([Plan("QSE", number, (1,) * 9) for number in range(30_000)])
    folder = write_logs(tmp_path / "accounting", many[:1000])
    log = log_files(folder)[0]
    with small_disk(200) as disk, own_postgres(disk) as postgres:
        engine = connect(postgres.dsn)
        follower = Follower(folder)
        follower.poll(engine)
        free = fill(disk)
        with log.open("ab") as stream:
            stream.writelines(line + b"\n" for line in many[1000:])
        with pytest.raises(StoreError, match=r"No space left|disk|try again when it runs|terminat"):
            follower.poll(engine)
        engine.dispose()
        free()
        # PostgreSQL shuts down without space for its WAL, and starts only after space is free.
        postgres.start()
        engine = connect(postgres.dsn)
        until(lambda: follower.poll(engine) or follower.behind_bytes == 0)
        assert len(assert_as_the_log(engine, folder).completed) == 30_000
        engine.dispose()
