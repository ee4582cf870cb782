"""Accounting logs followed as they are written, rotated, gzipped, cut off, replaced, unreadable and gone."""

import gzip
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event, Thread
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, event

from softwalltime.accounting import files
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import end_record, records
from softwalltime.errors import SourceError
from softwalltime.service import follow as following
from softwalltime.service.follow import RETRY, UNKNOWN_AFTER, Follower, follow
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.reading import Known, Told, new_blocks
from softwalltime.states import TEACHING
from softwalltime.store import connect, count_jobs, read_malformed
from softwalltime.store import read_jobs as read_stored
from tests.service.histories import history, random_plans
from tests.service.own_postgres import own_postgres
from tests.service.running import Daemon, until
from tests.service.stored import assert_as_the_log
from tests.workloads import RECORDED_LOG, job

pytestmark = pytest.mark.postgres

RECORDED = RECORDED_LOG.read_bytes()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An accounting folder with the recorded log in it."""
    folder = tmp_path / "accounting"
    folder.mkdir()
    shutil.copy(RECORDED_LOG, folder / "20261120")
    return folder


def ended(*numbers: int) -> bytes:
    """E records of jobs with these numbers."""
    return b"".join(
        f"11/20/2026 11:00:00;E;{n}.pbs1;{end_record(job(job_id=f'{n}.pbs1', end=1_795_170_000 + n))}\n".encode()
        for n in numbers
    )


def append(log: Path, content: bytes) -> None:
    with log.open("ab") as stream:
        stream.write(content)


def jobs(engine: Engine) -> int:
    with engine.connect() as connection:
        return count_jobs(connection)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@contextmanager
def command(folder: Path, dsn: str, *options: str) -> Iterator[Path]:
    """``softwalltime ingest --follow`` as a process; the value is the file that it logs to."""
    output = folder.parent / "output"
    arguments = ["ingest", "--follow", folder, "--dsn", dsn, *options]
    with (
        output.open("wb") as stream,
        subprocess.Popen([sys.executable, "-m", "softwalltime", *arguments], stderr=stream) as process,
    ):
        try:
            yield output
        finally:
            process.terminate()


def test_what_is_written_is_stored_as_it_comes(folder: Path, database: str, engine: Engine) -> None:
    with command(folder, database):
        until(lambda: jobs(engine) == 42)
        for number in range(100, 104):
            append(folder / "20261120", ended(number))
            until(lambda: jobs(engine) == number - 57)  # noqa: B023 - waited for in this very round


def test_it_looks_twice_a_second(folder: Path, engine: Engine) -> None:
    waited: list[float | None] = []

    class Stopping(Event):
        """Instead of each wait something is written."""

        def wait(self, timeout: float | None = None) -> bool:
            assert jobs(engine) == 42 + len(waited)
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
                follower.look(engine)
    follower.look(engine)
    days = {file.name for file in folder.iterdir()}
    assert days >= {"20260328", "20260329", "20260330", "20261024", "20261025", "20261026"}
    assert any(before[:10] == after[:10] and before > after for before, after in pairwise(stamps)), "an hour came twice"
    assert follower.tally.lines == len(stamps)
    assert_as_the_log(engine, folder)


def test_a_log_that_appears_late_is_read_and_costs_no_other_log(folder: Path, engine: Engine) -> None:
    follower = Follower(folder)
    assert follower.look(engine) == 42
    (folder / "20261119").write_bytes(ended(101, 102))
    (folder / "20261121").write_bytes(ended(103))
    assert follower.look(engine) == 3
    append(folder / "20261120", ended(104))
    assert follower.look(engine) == 1
    assert follower.tally.lines == RECORDED.count(b"\n") + 4


def test_a_log_is_gzipped_beside_its_plain_file_which_then_goes(folder: Path, engine: Engine) -> None:
    plain, packed = folder / "20261120", folder / "20261120.gz"
    follower = Follower(folder)
    follower.look(engine)
    lines = follower.tally.lines
    content = gzip.compress(RECORDED + ended(101))
    # gzip writes it piece by piece, and only then takes the other away; here that had been written to once more.
    packed.write_bytes(content[:500])
    assert follower.look(engine) == 0
    append(plain, ended(101))
    packed.write_bytes(content)
    assert follower.look(engine) == 1
    plain.unlink()
    assert follower.look(engine) == 0
    assert follower.tally.lines == lines + 1
    # Nor is it read again by who comes later, or has its name only.
    later = Follower(packed)
    assert later.look(engine) == 0
    assert (later.tally.lines, later.tally.broken) == (0, [])


def test_a_log_that_is_cut_off_is_read_from_its_start_and_nothing_is_stored_twice(folder: Path, engine: Engine) -> None:
    log = folder / "20261120"
    follower = Follower(folder)
    follower.look(engine)
    kept = b"".join(RECORDED.splitlines(keepends=True)[:90])
    log.write_bytes(kept)
    assert follower.look(engine) == 0
    append(log, ended(101))
    assert follower.look(engine) == 1
    assert jobs(engine) == 43
    assert follower.behind_bytes == 0


def test_a_log_that_is_cut_off_and_written_on_beyond_its_length_is_read_from_its_start(
    folder: Path, engine: Engine
) -> None:
    log = folder / "20261120"
    follower = Follower(folder)
    follower.look(engine)
    kept = b"".join(RECORDED.splitlines(keepends=True)[:90])
    more = ended(*range(100, 300))
    assert len(kept + more) > len(RECORDED)
    log.write_bytes(kept + more)
    # Read on from where it was, those in the middle would be missing.
    assert follower.look(engine) == 200
    assert jobs(engine) == 242


@pytest.mark.parametrize("replaced", ["by another log", "by itself", "by an older copy", "and put back"])
def test_a_log_is_replaced(replaced: str, folder: Path, engine: Engine, tmp_path: Path) -> None:
    log, other = folder / "20261120", tmp_path / "other"
    follower = Follower(folder)
    follower.look(engine)
    older = Path(shutil.copy2(log, tmp_path / "older"))
    append(log, ended(101))
    assert follower.look(engine) == 1
    match replaced:
        case "by another log":
            other.write_bytes(ended(*range(200, 700)))
            other.replace(log)
            assert follower.look(engine) == 500
        case "by itself":
            shutil.copy2(log, other)
            other.replace(log)
            lines = follower.tally.lines
            assert follower.look(engine) == 0
            assert follower.tally.lines == lines
        case "by an older copy":
            older.replace(log)
            assert follower.look(engine) == 0
            append(log, ended(102, 103))
            assert follower.look(engine) == 2
        case _:
            log.rename(tmp_path / "away")
            with pytest.raises(SourceError, match="holds no accounting log"):
                follower.look(engine)
            (tmp_path / "away").rename(log)
            assert follower.look(engine) == 0
    append(log, ended(900))
    assert follower.look(engine) == 1


def test_a_log_that_grows_or_is_rotated_away_while_it_is_read_is_read_to_its_end(
    folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK", 5000)
    log, tally = folder / "20261120", Tally()
    blocks = new_blocks(Known(engine), [log], tally, "", Told(lambda _: None))
    read = [next(blocks)]
    append(log, ended(101))
    log.rename(folder.parent / "rotated")
    (folder / "20261120").write_bytes(b"another")
    read += blocks
    content = b"".join(line + b"\n" for task in read for line in task.block.lines)
    assert content == RECORDED + ended(101)
    assert (tally.files, tally.broken, tally.unfinished) == (1, [], 0)


def test_a_log_that_vanished_before_it_was_read_is_told_of_and_no_error(engine: Engine, folder: Path) -> None:
    tally = Tally()
    assert ingest_logs(engine, [folder / "20261101", folder / "20261120"], tally) == (42, 0)
    assert [str(error) for error in tally.broken] == [f"{folder}/20261101: No such file or directory"]


def test_a_line_is_left_until_it_is_whole(folder: Path, engine: Engine) -> None:
    follower = Follower(folder)
    follower.look(engine)
    record = ended(101)
    for end in range(0, len(record), 97):
        append(folder / "20261120", record[end : end + 97])
        found = follower.look(engine)
    assert found == 1
    assert follower.tally.malformed == 0


def test_two_servers_with_names_of_their_own_share_a_store(folder: Path, engine: Engine, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "b")
    followers = [Follower(folder, "a"), Follower(tmp_path / "b", "b")]
    assert [follower.look(engine) for follower in followers] == [42, 42]
    append(tmp_path / "b" / "20261120", ended(101))
    assert [follower.look(engine) for follower in followers] == [0, 1]
    with engine.connect() as connection:
        assert {found.server for found in read_stored(connection)} == {"a", "b"}


def test_it_goes_on_where_another_process_is_that_reads_the_same_log(folder: Path, engine: Engine) -> None:
    follower, other = Follower(folder), Follower(folder)
    assert follower.look(engine) == 42
    append(folder / "20261120", ended(101))
    assert other.look(engine) == 1
    append(folder / "20261120", ended(102))
    # What it remembers of the store is not true any more.
    assert follower.look(engine) == 1
    assert (follower.tally.stored, follower.tally.lines) == (43, RECORDED.count(b"\n") + 1)
    append(folder / "20261120", ended(103))
    assert other.look(engine) == 1
    assert jobs(engine) == 45


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who may not read what belongs to root."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_must_not_be_read_is_told_of_and_read_once_it_may_be(folder: Path, engine: Engine) -> None:
    folder.chmod(0o700)
    follower = Follower(folder)
    with nobody(), pytest.raises(SourceError, match=r"accounting: Permission denied$"):
        follower.look(engine)
    assert follower.look(engine) == 42


def unreadable(folder: Path, how: str) -> Path:
    """A log that cannot be read."""
    log = folder / "20261119"
    match how:
        case "a folder":
            log.mkdir()
        case "a loop":
            log.symlink_to(log)
        case "nowhere":
            log.symlink_to(folder / "nowhere")
        case "a broken gzip file":
            log = folder / "20261119.gz"
            log.write_bytes(gzip.compress(ended(*range(100, 200)))[:-10])
        case "a trace":
            log.write_text("; UnixStartTime: 0\n" + "1 " * 18 + "\n")
    return log


@pytest.mark.parametrize("how", ["a folder", "a loop", "a broken gzip file", "a trace"])
def test_a_log_that_cannot_be_read_costs_no_other_and_is_tried_again_now_and_then(
    how: str, folder: Path, engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    log = unreadable(folder, how)
    follower = Follower(folder, clock=clock)
    assert follower.look(engine) >= 42
    for _ in range(5):
        clock.now += RETRY / 10
        assert follower.look(engine) == 0
    assert len(complaints(caplog)) == 1
    assert complaints(caplog)[0].startswith(str(log))
    # The others go on meanwhile.
    append(folder / "20261120", ended(501))
    assert follower.look(engine) == 1
    clock.now += RETRY
    assert follower.look(engine) == 0
    assert len(complaints(caplog)) == 2
    assert follower.behind_bytes == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_log_that_must_not_be_read_costs_no_other_and_is_read_once_it_may_be(
    folder: Path, engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    secret = folder / "20261119"
    secret.write_bytes(ended(101))
    secret.chmod(0o600)
    for parent in (folder, *folder.parents):
        parent.chmod(parent.stat().st_mode | 0o055)
    engine.connect().close()
    follower = Follower(folder, clock=clock)
    with nobody():
        assert follower.look(engine) == 42
        assert complaints(caplog) == [f"{secret}: Permission denied"]
    # Its size and time are the same; only trying can tell.
    secret.chmod(0o644)
    assert follower.look(engine) == 0
    clock.now += RETRY
    assert follower.look(engine) == 1


def test_a_gzip_file_that_was_broken_is_read_on_once_it_is_whole(folder: Path, engine: Engine) -> None:
    content = b"".join(line + b"\n" for line in history(random_plans(Random(1), 3000, 86400)))
    log = folder / "20261119.gz"
    log.write_bytes(gzip.compress(content)[:-3000])
    follower = Follower(folder)
    before = follower.look(engine)
    assert before > 42
    log.write_bytes(gzip.compress(content))
    assert follower.look(engine) > 0
    assert follower.tally.lines == content.count(b"\n") + RECORDED.count(b"\n")


def test_a_link_to_nowhere_is_no_log_yet(folder: Path, engine: Engine) -> None:
    log = unreadable(folder, "nowhere")
    follower = Follower(folder)
    assert follower.look(engine) == 42
    assert follower.tally.broken == []
    log.resolve().write_bytes(ended(101))
    assert follower.look(engine) == 1


def test_the_folder_goes_and_comes_back(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    follower.look(engine)
    folder.rename(folder.parent / "away")
    clock.now += UNKNOWN_AFTER / 2
    with pytest.raises(SourceError, match=r"accounting: No such file"):
        follower.look(engine)
    assert follower.behind_seconds == 0
    clock.now += 60
    # An empty mount point in its place is as bad.
    folder.mkdir()
    with pytest.raises(SourceError, match="no accounting log"):
        follower.look(engine)
    assert follower.behind_seconds > 60
    folder.rmdir()
    (folder.parent / "away").rename(folder)
    append(folder / "20261120", ended(101))
    assert follower.look(engine) == 1
    assert (follower.behind_seconds, follower.tally.lines) == (0, RECORDED.count(b"\n") + 1)


def test_the_process_waits_for_a_folder_that_has_gone(folder: Path, database: str, engine: Engine) -> None:
    with command(folder, database) as output:
        until(lambda: jobs(engine) == 42)
        folder.rename(folder.parent / "away")
        until(lambda: "No such file" in output.read_text())
        time.sleep(1)
        append(folder.parent / "away" / "20261120", ended(101))
        (folder.parent / "away").rename(folder)
        until(lambda: jobs(engine) == 43)
        until(lambda: "going on" in output.read_text())
    assert output.read_text().count("No such file") == 1


def test_an_error_that_nobody_thought_of_is_told_and_ends_nothing(
    folder: Path, database: str, engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0.01)
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
        until(lambda: jobs(engine) == 42)
    finally:
        stopping.set()
        thread.join()
    assert complaints(caplog) == ["unexpected error; trying again"] * 2


def test_how_far_behind_it_is_is_known_from_the_first_look_on(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    assert follower.measure().keys() == {folder / "20261120"}
    assert (follower.behind_bytes, follower.behind_seconds) == (len(RECORDED), 0)
    clock.now += 7
    follower.measure()
    assert follower.behind_seconds == 7
    follower.look(engine)
    assert (follower.behind_bytes, follower.behind_seconds) == (0, 0)
    append(folder / "20261120", b"x" * 50)
    follower.measure()
    assert follower.behind_bytes == 50
    (folder / "20261120").write_bytes(RECORDED[:1000])
    follower.measure()
    assert follower.behind_bytes == 1000, "all of what was cut off is to be read"


def test_what_is_written_without_a_pause_is_not_behind_for_long(folder: Path, engine: Engine) -> None:
    now = 1_795_000_000

    def busy() -> float:
        # Something is written between any two moments.
        nonlocal now
        now += 1
        append(folder / "20261120", b"11/20/2026 11:00:00;L;license;\n")
        return now

    follower = Follower(folder, clock=busy)
    for _ in range(20):
        follower.look(engine)
    assert follower.behind_bytes > 0
    assert follower.behind_seconds < 10


def test_while_it_is_not_known_whether_all_is_stored_it_says_so(folder: Path, engine: Engine, clock: Clock) -> None:
    follower = Follower(folder, clock=clock)
    follower.look(engine)
    follower.look(engine)
    clock.now += UNKNOWN_AFTER
    assert follower.behind_seconds == 0
    # As while PostgreSQL hangs, so that no look comes to its end.
    clock.now += 1
    assert follower.behind_seconds == UNKNOWN_AFTER + 1


def test_status_says_how_far_behind_it_is_while_postgres_is_away(tmp_path: Path) -> None:
    with own_postgres() as postgres:
        daemon = Daemon(tmp_path, postgres.dsn)
        daemon.start()
        try:
            daemon.append([job(job_id="1.srv", end=1_700_000_000)])
            until(lambda: daemon.status()["stored"] == 1)
            until(lambda: daemon.status()["behind_bytes"] == 0)
            postgres.kill()
            daemon.append([job(job_id="2.srv", end=1_700_000_001)])
            until(lambda: daemon.status()["behind_bytes"] > 100)
            first = daemon.status()
            until(lambda: daemon.status()["behind_seconds"] > first["behind_seconds"] + 1)
            daemon.append([job(job_id="3.srv", end=1_700_000_002)])
            until(lambda: daemon.status()["behind_bytes"] > first["behind_bytes"])
            assert daemon.status()["store"] != "ok"
            postgres.start()
            until(lambda: daemon.status()["behind_bytes"] == daemon.status()["behind_seconds"] == 0)
            until(lambda: daemon.status()["store"] == "ok")
            assert daemon.status()["stored"] == 3
        finally:
            daemon.end()


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
def test_whatever_a_log_begins_with_each_of_its_lines_is_met_once(first: bytes, tmp_path: Path, engine: Engine) -> None:
    log = tmp_path / "20261120"
    follower = Follower(log)
    # The first line alone does not tell whose log it is.
    log.write_bytes(first)
    follower.look(engine)
    append(log, first)
    follower.look(engine)
    append(log, RECORDED)
    assert follower.look(engine) == 42
    assert follower.tally.lines == 2 + RECORDED.count(b"\n")
    Follower(log).look(engine)
    with engine.connect() as connection:
        assert len(read_malformed(connection)) == follower.tally.malformed <= 2


def test_a_line_without_end_takes_no_memory_worth_mentioning(tmp_path: Path, database: str) -> None:
    log = tmp_path / "20261120"
    with log.open("wb") as stream:
        for _ in range(300):
            stream.write(b"\0" * (1 << 20))
        stream.write(b"\n" + (b"x" * (1 << 20) + b"\n") * 200 + RECORDED)
    # Not what getrusage says, which knows the greatest of the process that started this one too.
    measured = (
        "import re, sys; from pathlib import Path; from softwalltime.cli import run; status = run(sys.argv[1:]);"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1000); sys.exit(status)"
    )
    arguments = ["ingest", str(log), "--dsn", database]
    done = subprocess.run([sys.executable, "-c", measured, *arguments], capture_output=True, text=True, check=True)
    assert "jobs stored          42" in done.stdout
    assert int(done.stdout.split()[-1]) < 250


def test_thousands_of_logs_that_were_read_cost_a_look_little(tmp_path: Path, engine: Engine) -> None:
    for number in range(1500):
        (tmp_path / f"{20200000 + number}").write_bytes(ended(number) * 2)
    assert Follower(tmp_path).look(engine) == 1500
    # Gzipped, none is known by its name any more.
    for log in sorted(tmp_path.iterdir()):
        log.with_suffix(".gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    follower = Follower(tmp_path)
    assert follower.look(engine) == 0
    assert (follower.tally.lines, follower.tally.files) == (0, 1500)
    assert len(asked) <= 2, "about all of them at once, not about each"
    append(tmp_path / "20261120", ended(99_999))
    asked.clear()
    assert follower.look(engine) == 1
    assert any(statement.startswith("INSERT INTO softwalltime.log_positions") for statement in asked)
    assert not any("FROM softwalltime.log_positions" in statement for statement in asked), "it is remembered"
