"""Kills, stops, suspensions and full disks: the store holds each record of the log exactly once.

SOFTWALLTIME_TEST_KILLS says how often the ingester is killed: some tens unless more are asked for.
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

from softwalltime.accounting import files
from softwalltime.accounting.files import log_files
from softwalltime.accounting.tally import Tally
from softwalltime.errors import StoreError
from softwalltime.service import ingest as ingesting
from softwalltime.service.follow import Follower
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.engine import connect, lock
from tests.samples import ROOT
from tests.service.histories import Plan, history, random_plans, with_rubbish
from tests.service.nursery import Nursery
from tests.service.own_postgres import own_postgres
from tests.service.running import until
from tests.service.stored import assert_as_the_log, positions_reach

pytestmark = pytest.mark.postgres

KILLS = int(os.environ.get("SOFTWALLTIME_TEST_KILLS", "32"))
IN_TRANSACTION = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
""")
TO_BE_HELD_UP = text("""
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()
    WHERE relation = 'softwalltime.log_positions'::regclass AND NOT granted
""")
WAITING_TO_WRITE = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")


def write_logs(folder: Path, lines: list[bytes]) -> Path:
    """Logs of these lines by day; a line that is no record belongs to the day before it."""
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
    """A process that writes these logs meanwhile; they are whole at the end."""
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.service.pbs_server", source, target, str(seconds)]
    with subprocess.Popen(command, cwd=ROOT) as writer:
        yield writer
        assert writer.wait() == 0
    for log in source.iterdir():
        assert (target / log.name).read_bytes() == log.read_bytes()


def end(process: int, number: signal.Signals) -> None:
    """End a process of the nursery's, and wait until it is gone."""
    os.kill(process, number)
    until(lambda: ended(process))


def ended(process: int) -> bool:
    """Whether a process of the nursery's is gone."""
    return not Path(f"/proc/{process}").exists()


def await_transaction(engine: Engine, seconds: float) -> None:
    """Wait until another session is in a transaction, with a timeout."""
    deadline = time.monotonic() + seconds
    with engine.connect() as connection:
        while time.monotonic() < deadline and not connection.execute(IN_TRANSACTION).scalar_one():
            connection.rollback()


@contextmanager
def held_up(engine: Engine) -> Iterator[Callable[[], None]]:
    """Block commits of log positions inside the context; the value waits until a session is blocked."""
    with engine.begin() as connection:
        # The position is what is written last.
        connection.execute(text("LOCK TABLE softwalltime.log_positions IN SHARE MODE"))
        yield lambda: until(lambda: connection.execute(TO_BE_HELD_UP).scalar_one() == 1)


@pytest.mark.parametrize(("command", "kills"), [("ingest", KILLS), ("serve", max(KILLS // 4, 4))])
def test_killed_at_any_moment_it_stores_every_record_once(
    command: str, kills: int, tmp_path: Path, database: str, engine: Engine
) -> None:
    chance = Random(kills)
    plans = random_plans(chance, 15 * kills, 3 * 86400)
    source = write_logs(tmp_path / "written", with_rubbish(history(plans), chance))
    folder = tmp_path / "accounting"
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "{database}"\naccounting = "{folder}"\nsocket = "{tmp_path}/socket"\n')
    options = ["--config", config] if command == "serve" else ["--follow", "--config", config]
    with pbs_server(source, folder, 0.2 * kills), Nursery(tmp_path / "errors") as nursery:
        # Some in the middle of a transaction for certain; the others whenever it may be, in most cases in one too.
        for _ in range(kills // 4):
            with held_up(engine) as is_held_up:
                process = nursery.start(command, *options)
                is_held_up()
                end(process, signal.SIGKILL)
        for _ in range(kills - kills // 4):
            process = nursery.start(command, *options)
            time.sleep(chance.uniform(0, 0.15))
            if chance.random() < 0.7:
                await_transaction(engine, 1)
                time.sleep(chance.uniform(0, 0.004))
            end(process, signal.SIGKILL)
    with Nursery(tmp_path / "errors") as nursery:
        process = nursery.start(command, *options)
        until(lambda: positions_reach(engine, log_files(folder)))
        end(process, signal.SIGTERM)
    folded = assert_as_the_log(engine, folder)
    assert len(folded.completed) > 5 * kills
    assert folded.interrupted
    assert folded.current
    assert folded.malformed
    # A process that was only being started when the one that wanted it was killed finds that what it needs is gone.
    tracebacks = (tmp_path / "errors").read_text().split("Traceback (most recent call last):")[1:]
    assert all("multiprocessing/forkserver.py" in each.splitlines()[1] for each in tracebacks)


def test_killed_while_many_processes_parse_it_leaves_none_of_them(
    tmp_path: Path, database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = history([Plan("QSE", number, (1,) * 9) for number in range(6000)])
    folder = write_logs(tmp_path / "accounting", lines)
    mark = f"SOFTWALLTIME_TEST_MARK={uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("SOFTWALLTIME_TEST_LEAST", "0")
    with Nursery(tmp_path / "errors") as nursery:
        for _ in range(3):
            # It cannot be done before all of them are there.
            with held_up(engine):
                process = nursery.start("ingest", folder, "--again", "--dsn", database)
                until(lambda: len(marked(mark)) > 4)
                end(process, signal.SIGKILL)
            until(lambda: len(marked(mark)) <= 1)
        assert marked(mark)
        process = nursery.start("ingest", folder, "--dsn", database)
        until(lambda: ended(process))
    assert len(assert_as_the_log(engine, folder).completed) == 6000


def marked(mark: str) -> list[int]:
    """Processes that have this in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def test_many_at_once_over_the_same_logs_store_every_record_once(tmp_path: Path, database: str, engine: Engine) -> None:
    chance = Random(5)
    source = write_logs(tmp_path / "written", with_rubbish(history(random_plans(chance, 400, 2 * 86400)), chance))
    folder = tmp_path / "accounting"
    options = ["--dsn", database]
    with pbs_server(source, folder, 6) as writer, Nursery(tmp_path / "errors") as nursery:
        until(lambda: any(folder.iterdir()))
        followers = [nursery.start("ingest", "--follow", folder, *options) for _ in range(2)]
        while writer.poll() is None:
            again = nursery.start("ingest", *sorted(folder.iterdir()), "--again", *options)
            until(lambda: ended(again))  # noqa: B023 - waited for in this very round
        until(lambda: positions_reach(engine, log_files(folder)))
        for process in followers:
            end(process, signal.SIGTERM)
    assert_as_the_log(engine, folder)
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_threads_at_once_over_the_same_logs_store_every_record_once(
    tmp_path: Path, database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "LINES", 40)
    monkeypatch.setattr(files, "BLOCK", 2000)
    monkeypatch.setattr(ingesting, "PAUSE", 0.01)
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
    folded = assert_as_the_log(engine, folder)
    assert sum(stored) == len(folded.completed)
    # Who reads again reads each line once, however often it is overtaken; the others share what it leaves them, which
    # may be nothing.
    assert tallies[0].lines == folded.lines
    assert sum(tally.lines for tally in tallies[1:]) <= folded.lines


def test_one_that_is_suspended_in_a_transaction_is_waited_for(tmp_path: Path, database: str, engine: Engine) -> None:
    chance = Random(7)
    folder = write_logs(tmp_path / "accounting", history(random_plans(chance, 900, 86400)))
    with Nursery(tmp_path / "errors") as nursery:
        with held_up(engine) as is_held_up:
            first = nursery.start("ingest", "--follow", folder, "--dsn", database)
            is_held_up()
            os.kill(first, signal.SIGSTOP)
        try:
            second = nursery.start("ingest", "--follow", folder, "--dsn", database)
            with engine.connect() as connection:
                until(lambda: connection.execute(WAITING_TO_WRITE).scalar_one() == 1)
            assert not ended(second)
        finally:
            os.kill(first, signal.SIGCONT)
        until(lambda: positions_reach(engine, log_files(folder)))
        for process in (first, second):
            end(process, signal.SIGTERM)
    assert_as_the_log(engine, folder)


def test_postgres_may_stop_crash_and_hang_in_the_middle(tmp_path: Path) -> None:
    chance = Random(8)
    source = write_logs(tmp_path / "written", with_rubbish(history(random_plans(chance, 700, 2 * 86400)), chance))
    folder = tmp_path / "accounting"
    errors = tmp_path / "errors"

    def told(word: str) -> int:
        return errors.read_text().count(word)

    with own_postgres() as postgres, Nursery(errors) as nursery:
        with pbs_server(source, folder, 6):
            process = nursery.start("ingest", "--follow", folder, "--dsn", postgres.dsn)
            until(lambda: told("INFO stored"))
            for number, interrupt in enumerate(("crash", "shutdown"), 1):
                time.sleep(chance.uniform(0.3, 0.8))
                before = told("ERROR ")
                postgres.kill(signal.SIGQUIT if interrupt == "crash" else signal.SIGINT)
                # Should all else have been stored already, this is not.
                with (folder / "20270101").open("a") as log:
                    log.write(f"01/01/2027 10:00:00;L;license;{interrupt}\n")
                until(lambda: told("ERROR ") > before)  # noqa: B023 - waited for in this very round
                postgres.start()
                until(lambda: told("INFO reading again after an error") >= number)  # noqa: B023 - waited for in this very round
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
def test_it_ends_at_sigterm_while_postgres_hangs(command: list[str], tmp_path: Path) -> None:
    chance = Random(9)
    source = write_logs(tmp_path / "written", history(random_plans(chance, 900, 86400)))
    folder = tmp_path / "accounting"
    with own_postgres() as postgres, Nursery(tmp_path / "errors") as nursery:
        options = ["--socket", str(tmp_path / "socket")] if command[0] == "serve" else []
        with pbs_server(source, folder, 0):
            pass
        engine = connect(postgres.dsn)
        with engine.begin() as connection:
            # So that it hangs while it commits.
            lock(connection)
            process = nursery.start(*command, folder, "--dsn", postgres.dsn, *options)
            until(lambda: connection.execute(WAITING_TO_WRITE).scalar_one() == 1)
            with postgres.suspended():
                end(process, signal.SIGTERM)
        # What was not committed is read again by the next one.
        process = nursery.start("ingest", "--follow", folder, "--dsn", postgres.dsn)
        until(lambda: positions_reach(engine, log_files(folder)))
        end(process, signal.SIGTERM)
        assert_as_the_log(engine, folder)
        engine.dispose()
    assert "Traceback" not in (tmp_path / "errors").read_text()


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of this size."""
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
    """Leave no space on a disk; what is returned frees it."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        while (free := shutil.disk_usage(disk).free) > 65536:
            # PostgreSQL may take some of it at the same moment.
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
        # Without room for its own log PostgreSQL stops itself, and does not come back before there is some.
        postgres.start()
        engine = connect(postgres.dsn)
        until(lambda: follower.poll(engine) or follower.behind_bytes == 0)
        assert len(assert_as_the_log(engine, folder).completed) == 30_000
        engine.dispose()
