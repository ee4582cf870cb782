"""Follow accounting logs while they are written."""

import gzip
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event, Thread
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, event

from softwalltime.accounting.writer import records
from softwalltime.core.states import TEACHING
from softwalltime.service import follow as following
from softwalltime.service.follow import SUMMARY_INTERVAL_S, Follower, follow
from softwalltime.store.completed_jobs import read_jobs as read_stored
from softwalltime.store.connections import connect
from softwalltime.store.logs import read_malformed
from tests.samples import job
from tests.service.log_helpers import RECORDED, Clock, append, command, count_stored, ended, logged_errors
from tests.service.running import until
from tests.service.stored import assert_as_the_log

pytestmark = pytest.mark.postgres


def test_new_records_are_stored_while_the_log_is_written(folder: Path, database: str, engine: Engine) -> None:
    with command(folder, database):
        until(lambda: count_stored(engine) == 42)
        for number in range(100, 104):
            append(folder / "20261120", ended(number))
            until(lambda: count_stored(engine) == number - 57)  # noqa: B023 - called within this iteration


def test_it_polls_twice_a_second(folder: Path, engine: Engine) -> None:
    waited: list[float | None] = []

    class Stopping(Event):
        """Appends a record instead of waiting."""

        def wait(self, timeout: float | None = None) -> bool:
            assert count_stored(engine) == 42 + len(waited)
            waited.append(timeout)
            append(folder / "20261120", ended(100 + len(waited)))
            if len(waited) == 4:
                self.set()
            return self.is_set()

    follow(Follower(folder), lambda: nullcontext(engine), TEACHING, Stopping())
    assert waited == [0.5] * 4


def test_the_next_day_s_log_is_found_at_midnight_and_on_days_of_23_and_25_hours(tmp_path: Path, engine: Engine) -> None:
    zone = ZoneInfo("Europe/Prague")
    folder = tmp_path / "accounting"
    folder.mkdir()
    follower = Follower(folder)
    stamps = []
    for change in (1_774_746_000, 1_792_890_000):
        some = [
            job(job_id=f"{change + n}.pbs1", submitted=change + n * 700, end=change + n * 700 + 60, runtime=50)
            for n in range(-200, 200)
        ]
        for number, (day, record) in enumerate(records(some, zone)):
            append(folder / day, record.encode())
            stamps.append(record[:19])
            if number % 40 == 0:
                follower.poll(engine)
    follower.poll(engine)
    days = {file.name for file in folder.iterdir()}
    assert days >= {"20260328", "20260329", "20260330", "20261024", "20261025", "20261026"}
    assert any(before[:10] == after[:10] and before > after for before, after in pairwise(stamps)), "an hour came twice"
    assert follower.tally.lines == len(stamps)
    assert_as_the_log(engine, folder)


def test_a_late_log_is_read_and_so_are_later_logs(folder: Path, engine: Engine) -> None:
    follower = Follower(folder)
    assert follower.poll(engine) == 42
    (folder / "20261119").write_bytes(ended(101, 102))
    (folder / "20261121").write_bytes(ended(103))
    assert follower.poll(engine) == 3
    append(folder / "20261120", ended(104))
    assert follower.poll(engine) == 1
    assert follower.tally.lines == RECORDED.count(b"\n") + 4


def test_a_line_is_read_once_it_is_complete(folder: Path, engine: Engine) -> None:
    follower = Follower(folder)
    follower.poll(engine)
    record = ended(101)
    for end in range(0, len(record), 97):
        append(folder / "20261120", record[end : end + 97])
        found = follower.poll(engine)
    assert found == 1
    assert follower.tally.malformed == 0
    assert follower.tally.unfinished == [], "it would grow with each poll of an incomplete line"


def test_two_servers_with_names_of_their_own_share_a_store(folder: Path, engine: Engine, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "b")
    followers = [Follower(folder, "a"), Follower(tmp_path / "b", "b")]
    assert [follower.poll(engine) for follower in followers] == [42, 42]
    append(tmp_path / "b" / "20261120", ended(101))
    assert [follower.poll(engine) for follower in followers] == [0, 1]
    with engine.connect() as connection:
        assert {found.server for found in read_stored(connection)} == {"a", "b"}


def test_it_continues_from_the_position_of_another_process(folder: Path, engine: Engine) -> None:
    follower, other = Follower(folder), Follower(folder)
    assert follower.poll(engine) == 42
    append(folder / "20261120", ended(101))
    assert other.poll(engine) == 1
    append(folder / "20261120", ended(102))
    # The positions that it has cached are outdated.
    assert follower.poll(engine) == 1
    assert (follower.tally.stored, follower.tally.lines) == (43, RECORDED.count(b"\n") + 1)
    append(folder / "20261120", ended(103))
    assert other.poll(engine) == 1
    assert count_stored(engine) == 45


def test_an_unexpected_error_is_logged_and_following_continues(
    folder: Path, database: str, engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.01)
    stopping = Event()
    failures = iter([RuntimeError("a bug"), MemoryError()])

    @contextmanager
    def open_engine() -> Iterator[Engine]:
        for failure in failures:
            raise failure
        own = connect(database)
        yield own
        own.dispose()

    thread = Thread(target=follow, args=[Follower(folder), open_engine, TEACHING, stopping])
    thread.start()
    try:
        until(lambda: count_stored(engine) == 42)
    finally:
        stopping.set()
        thread.join()
    assert logged_errors(caplog) == ["unexpected error; trying again"] * 2


@pytest.mark.parametrize(
    "first",
    [
        b"rubbish\n",
        b"; not a header of a trace\n",
        b"11/20/2026 10:16:10;L;license;floating license hour:1\n",
        b"\n",
        b"x" * 19 + b";E;1." + bytes(Random(1).choices(range(65, 91), k=3000)) + b";\n",
        b"\0" * 9000 + b"\n",
    ],
    ids=["rubbish", "like a trace's", "license", "blank", "endless server", "more than the head"],
)
def test_each_line_is_read_once_for_any_beginning_of_a_log(first: bytes, tmp_path: Path, engine: Engine) -> None:
    log = tmp_path / "20261120"
    follower = Follower(log)
    # The first line alone does not identify the server.
    log.write_bytes(first)
    follower.poll(engine)
    append(log, first)
    follower.poll(engine)
    append(log, RECORDED)
    assert follower.poll(engine) == 42
    assert follower.tally.lines == 2 + RECORDED.count(b"\n")
    Follower(log).poll(engine)
    with engine.connect() as connection:
        assert len(read_malformed(connection)) == follower.tally.malformed <= 2


def test_a_line_of_300_megabytes_takes_little_memory(tmp_path: Path, database: str) -> None:
    log = tmp_path / "20261120"
    with log.open("wb") as stream:
        for _ in range(300):
            stream.write(b"\0" * (1 << 20))
        stream.write(b"\n" + (b"x" * (1 << 20) + b"\n") * 200 + RECORDED)
    # Not getrusage: its maximum includes the parent process.
    measured = (
        "import re, sys; from pathlib import Path; from softwalltime.cli import run; status = run(sys.argv[1:]);"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1000); sys.exit(status)"
    )
    arguments = ["ingest", str(log), "--dsn", database]
    done = subprocess.run([sys.executable, "-c", measured, *arguments], capture_output=True, text=True, check=True)
    assert "jobs stored          42" in done.stdout
    assert int(done.stdout.split()[-1]) < 250


def test_a_poll_of_thousands_of_known_logs_needs_few_queries(tmp_path: Path, engine: Engine) -> None:
    for number in range(1500):
        (tmp_path / f"{date(2020, 1, 1) + timedelta(number):%Y%m%d}").write_bytes(ended(number) * 2)
    assert Follower(tmp_path).poll(engine) == 1500
    # After compression, no log is known by its name.
    for log in sorted(tmp_path.iterdir()):
        log.with_suffix(".gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    follower = Follower(tmp_path)
    assert follower.poll(engine) == 0
    assert (follower.tally.lines, follower.tally.files) == (0, 1500)
    assert len(statements) <= 2, "one query for all logs, not one for each"
    append(tmp_path / "20261120", ended(99_999))
    statements.clear()
    assert follower.poll(engine) == 1
    assert any(statement.startswith("INSERT INTO softwalltime.log_positions") for statement in statements)
    queries = [statement for statement in statements if "FROM softwalltime.log_positions" in statement]
    assert len(queries) == 1, "positions are cached; the last one committed is confirmed"


def test_stored_jobs_are_logged_once_an_hour_with_their_sums(
    engine: Engine, folder: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "softwalltime.service.follow")
    follower = Follower(folder, clock=clock)
    first = follower.poll(engine)
    for number in range(1, 5):
        clock.now += 60
        append(folder / "20261120", ended(number))
        follower.poll(engine)
    clock.now += SUMMARY_INTERVAL_S
    follower.poll(engine)

    def jobs(level: int) -> list[int]:
        return [vars(record)["jobs"] for record in caplog.records if record.levelno == level]

    assert jobs(logging.INFO) == [first, 4], "the first poll, and then the sum of an hour"
    clock.now += SUMMARY_INTERVAL_S
    follower.poll(engine)
    assert len(jobs(logging.INFO)) == 2, "nothing was stored"
