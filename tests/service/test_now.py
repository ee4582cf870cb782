"""Waiting and running jobs from records that arrive in parts, late, twice, or in TORQUE's format."""

import shutil
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from softwalltime.accounting import daily_files
from softwalltime.accounting.tally import Tally
from softwalltime.service import ingest as ingesting
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.current import read_current
from softwalltime.store.logs import read_malformed
from tests.samples import RECORDED_LOG
from tests.service.histories import ARRAYS, SCRIPTS, Plan, expected_state, history
from tests.service.stored import assert_as_the_log, current
from tests.store.stored import count_jobs

pytestmark = pytest.mark.postgres

DAY = "20261118"
HEAD = "user=bob group=g project=p jobname=j queue=q ctime=100 qtime=100 etime=100"
RESOURCES = "Resource_List.ncpus=1 Resource_List.walltime=01:00:00"


def record(kind: str, message: str = "", job_id: str = "1.srv") -> str:
    return f"11/18/2026 10:00:00;{kind};{job_id};{message}\n"


Q = record("Q", f"{HEAD} {RESOURCES} ")
S = record("S", f"{HEAD} start=200 {RESOURCES} ")
S2 = record("S", f"{HEAD} start=300 {RESOURCES} ")
R = record("R", f"{HEAD} start=200 {RESOURCES} end=250 Exit_status=-11 run_count=1")
E = record("E", f"{HEAD} start=200 {RESOURCES} end=300 Exit_status=0 run_count=1")
D = record("D", "requestor=root@srv")
# More bytes than the head that identifies a log.
LICENSES = record("L", "floating license hour:3 day:3 month:3 max:10", "license") * 60
SOFT = record("a", "Resource_List.soft_walltime=00:10:00")


def store(engine: Engine, path: Path, content: str, *, again: bool = False) -> Tally:
    """Write this content to a log and ingest it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, newline="")
    tally = Tally()
    ingest_logs(engine, [path], tally, again=again)
    return tally


def empty(engine: Engine) -> None:
    with engine.begin() as connection:
        names = "completed_jobs, interrupted_runs, current_jobs, log_positions, malformed_lines"
        connection.execute(text(f"TRUNCATE {', '.join(f'softwalltime.{name}' for name in names.split(', '))}"))


plans = st.builds(
    Plan, st.sampled_from(SCRIPTS), st.integers(0, 60), st.lists(st.integers(0, 30), min_size=9, max_size=9).map(tuple)
)
arrays = st.builds(
    Plan, st.sampled_from(ARRAYS), st.integers(0, 60), st.lists(st.integers(0, 30), min_size=9, max_size=9).map(tuple),
    st.just(True),
)  # fmt: skip


@given(
    st.lists(plans | arrays, max_size=12), st.lists(st.floats(0, 1), max_size=5), st.integers(1, 3000),
    st.integers(1, 20), st.booleans(),
)  # fmt: skip
@example([Plan("QQSE")], [0.3, 0.6], 1, 1, False)
@example([Plan("QSDE"), Plan("QSaE")], [0.2, 0.4, 0.6, 0.8], 1, 1, True)
@settings(max_examples=60)
def test_a_log_read_in_any_pieces_gives_the_same_jobs(
    module_engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[Plan],
    cuts: list[float],
    block: int,
    lines: int,
    restart: bool,
) -> None:
    empty(module_engine)
    content = b"".join(line + b"\n" for line in history(jobs))
    folder = tmp_path_factory.mktemp("any")
    log = folder / DAY
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daily_files, "BLOCK_BYTES", block)
        patch.setattr(ingesting, "MAX_BATCH_LINES", lines)
        for cut in (*sorted(cuts), 1.0):
            written = content[: round(len(content) * cut)]
            log.write_bytes(written)
            ingest_logs(module_engine, [log], Tally())
            assert current(module_engine) == expected_state(written.split(b"\n")[:-1]).current
            if restart:
                # Reading everything again changes nothing.
                ingest_logs(module_engine, [log], Tally(), again=True)
    assert_as_the_log(module_engine, folder) if content else None


# A job whose host failed has a D and no E; an interrupted run is known only after its R.
ORDINARY = [script for script in SCRIPTS if not script.endswith(("SD", "SA", "R", "Ra", "r", "ra"))]


@given(
    st.lists(
        st.builds(
            Plan,
            st.sampled_from(ORDINARY),
            st.integers(0, 3 * 86400),
            st.lists(st.sampled_from([0, 1, 60, 40_000, 90_000]), min_size=9, max_size=9).map(tuple),
        )
        | st.builds(
            Plan,
            st.sampled_from(ARRAYS),
            st.integers(0, 3 * 86400),
            st.lists(st.sampled_from([0, 1, 60, 40_000, 90_000]), min_size=9, max_size=9).map(tuple),
            st.just(True),
        ),
        min_size=1,
        max_size=10,
    ),
    st.integers(0, 9),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40)
def test_old_logs_read_after_newer_ones_add_no_current_job(
    module_engine: Engine, tmp_path_factory: pytest.TempPathFactory, jobs: list[Plan], newest: int, chance: Random
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for day, lines in groupby(history(jobs), key=lambda line: line[6:10] + line[:2] + line[3:5]):
        (folder / day.decode()).write_bytes(b"".join(line + b"\n" for line in lines))
    logs = sorted(folder.iterdir())
    shuffled = chance.sample(logs, len(logs))
    for order in (shuffled, logs[-newest:] + logs[:-newest]):
        empty(module_engine)
        for log in order:
            ingest_logs(module_engine, [log], Tally())
        state = assert_as_the_log(module_engine, folder, but_current=True)
        found = {job_id: job[0] for job_id, job in current(module_engine).items()}
        assert found.keys() <= state.current.keys()
    # The newest log first, then the older ones in order: a site ingests today's log before it starts the daemon.
    starts = {job_id: job[0] for job_id, job in state.current.items()}
    assert found.items() <= starts.items()
    assert {job_id for job_id, start in starts.items() if start is not None and "[]" not in job_id} <= found.keys()


def test_the_recorded_log_gives_the_current_jobs_at_each_time(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    lines = RECORDED_LOG.read_bytes().splitlines(keepends=True)
    for count in range(0, len(lines) + 1, 7):
        log.write_bytes(b"".join(lines[:count]))
        ingest_logs(engine, [log], Tally())
        found = {job_id: job[0] for job_id, job in current(engine).items()}
        expected = {
            job_id: job[0]
            for job_id, job in expected_state(line.rstrip(b"\n") for line in lines[:count]).current.items()
        }
        assert found == expected
    ingest_logs(engine, [Path(shutil.copy(RECORDED_LOG, log))], Tally())
    assert current(engine) == {}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([Q], (None, 3600, None)),
        ([Q, SOFT], (None, 3600, 600)),
        ([Q + SOFT + S], (200, 3600, None)),
        ([Q, S], (200, 3600, None)),
        ([Q + S, R], (None, 3600, None)),
        # A job that passes through a routing queue, or is moved to another, has a Q for each.
        ([Q, Q + D], None),
        ([Q, Q + S + E], None),
        ([Q, Q + S], (200, 3600, None)),
        ([Q + S, D], None),
        ([Q, record("M", "destination=q@other")], None),
        ([Q, record("A", "Job rejected by all possible destinations")], None),
        ([Q, record("a", "Resource_List.walltime=UNSET Job_Name=x")], (None, None, None)),
        ([Q + record("a", "Resource_List.walltime=UNSET")], (None, None, None)),
        ([Q + SOFT, record("a", "Resource_List.soft_walltime=UNSET")], (None, 3600, None)),
        # An alter names a job that has ended, or an unknown one.
        ([Q, S + E, SOFT], None),
        ([SOFT], None),
        # TORQUE's Q has no job, its R says only that the job waits again.
        ([record("Q", "queue=batch")], None),
        ([record("Q", "queue=batch") + S], (200, 3600, None)),
        ([S, record("R")], (None, 3600, None)),
        ([S + record("R")], (None, 3600, None)),
        ([S + SOFT + record("R"), SOFT + record("S", f"{HEAD} start=400 {RESOURCES}")], (400, 3600, None)),
        ([S, record("R") + record("a", "Resource_List.walltime=7200")], (None, 7200, None)),
        ([S, record("R") + E], None),
        # The record is malformed, but shows that the job has ended.
        ([Q, record("E", "user=bob end=soon")], None),
        # A reused number: another job.
        ([Q + S, Q.replace("ctime=100", "ctime=900")], (None, 3600, None)),
    ],
)
def test_records_add_change_and_remove_a_current_job(
    engine: Engine, tmp_path: Path, pieces: list[str], expected: tuple[int | None, ...] | None
) -> None:
    content = ""
    for piece in pieces:
        content += piece
        tally = store(engine, tmp_path / DAY, content)
        assert tally.malformed == piece.count("soon")
    assert current(engine) == ({} if expected is None else {"1.srv": expected})


def test_an_array_is_current_until_it_ends_and_only_its_subjobs_run(engine: Engine, tmp_path: Path) -> None:
    parent, first = ({"job_id": job_id} for job_id in ("1[].srv", "1[1].srv"))
    content = record("Q", f"{HEAD} array_indices=1-3 {RESOURCES}", **parent)
    content += record("S", f"{HEAD} start=200 {RESOURCES}", **parent)
    content += record("S", f"{HEAD} start=200 {RESOURCES}", **first)
    store(engine, tmp_path / DAY, content)
    assert current(engine) == {"1[].srv": (200, 3600, None), "1[1].srv": (200, 3600, None)}
    with engine.connect() as connection:
        assert connection.execute(text("SELECT job_id, state FROM softwalltime.jobs_now")).all() == [
            ("1[1].srv", "runs")
        ]
    content += record("E", f"{HEAD} start=200 end=300 Exit_status=0", **first)
    content += record("E", f"{HEAD} start=200 end=300 session=0 run_count=0", **parent)
    store(engine, tmp_path / DAY, content)
    assert current(engine) == {}
    with engine.connect() as connection:
        assert count_jobs(connection) == 1


def test_malformed_records_of_current_jobs_are_stored_and_counted_once(engine: Engine, tmp_path: Path) -> None:
    bad_alter = record("a", "Resource_List.walltime=soon")
    bad_start = record("S", "group=g ctime=100 start=200", job_id="2.srv")
    bad_rerun = record("R", f"{HEAD} start=200 end=never", job_id="3.srv")
    cut_off = record("E")[:27] + "\n" + record("D")[:27] + "\n"
    content = Q + bad_alter + bad_start + bad_rerun + cut_off
    tally = store(engine, tmp_path / DAY, content)
    assert current(engine) == {"1.srv": (None, 3600, None), "3.srv": (None, None, None)}
    assert tally.malformed == len(tally.kept) == 5
    assert tally.lines == tally.malformed + tally.others
    with engine.connect() as connection:
        kept = {(line.line_number, line.field, line.reason) for line in read_malformed(connection)}
    assert kept == {
        (2, "Resource_List.walltime", "not a duration"),
        (3, "user", "is missing"),
        (4, "end", "not a time in epoch seconds"),
        (5, "", "not an accounting record: fewer than 3 semicolons"),
        (6, "", "not an accounting record: fewer than 3 semicolons"),
    }


def test_current_jobs_are_complete_if_todays_log_is_read_before_older_ones(engine: Engine, tmp_path: Path) -> None:
    # As when a site ingests today's log first, and then the daemon follows the folder.
    queued, started, ended = (line.replace("1.srv", "2.srv") for line in (Q, S, E))
    store(engine, tmp_path / "20261119", D.replace("1.srv", "4.srv") + ended)
    older = S + queued + started + Q.replace("1.srv", "3.srv") + Q.replace("1.srv", "4.srv")
    store(engine, tmp_path / DAY, older)
    # The end of 2 is known; it is unknown whether 3 was deleted in between, as 4 was.
    assert current(engine) == {"1.srv": (200, 3600, None)}
    store(engine, tmp_path / "20261120", E)
    assert current(engine) == {}


def test_a_log_that_a_wrong_clock_named_does_not_make_all_others_late(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path / "20990101", Q)
    store(engine, tmp_path / DAY, Q.replace("1.srv", "2.srv"))
    assert current(engine).keys() == {"1.srv", "2.srv"}


def test_the_end_of_yesterdays_log_may_be_read_after_the_start_of_todays(engine: Engine, tmp_path: Path) -> None:
    # As on NFS, where the size of each file is visible some time after the write.
    day = 1_795_000_000
    first = Q.replace("ctime=100", f"ctime={day}") + Q.replace("1.srv", "2.srv").replace("ctime=100", f"ctime={day}")
    store(engine, tmp_path / DAY, first)
    later = Q.replace("1.srv", "3.srv").replace("ctime=100", f"ctime={day + 3 * 86400}")
    store(engine, tmp_path / "20261119", later)
    # The number of the third job was reused.
    store(engine, tmp_path / DAY, first + D + D.replace("1.srv", "3.srv"))
    assert current(engine).keys() == {"2.srv", "3.srv"}


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    ("records", "start"),
    [
        # As read: start after requeue, queued after start, start after deletion, all written in the other order.
        ([Q, R, S], None),
        ([S, Q], 200),
        ([Q, R, S2, S], 300),
        ([S2, R, S], 300),
        ([Q, S2, Q], 300),
    ],
)
def test_of_records_read_in_the_wrong_order_the_later_one_counts(
    engine: Engine, tmp_path: Path, records: list[str], start: int | None, pieces: int
) -> None:
    content = ""
    for first in range(0, len(records), -(-len(records) // pieces)):
        content += "".join(records[first : first + -(-len(records) // pieces)])
        store(engine, tmp_path / DAY, content)
    assert current(engine) == {"1.srv": (start, 3600, None)}


def test_a_start_read_after_the_deletion_that_was_written_later_is_ignored(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path / DAY, Q + D.replace("10:00:00", "10:00:05") + S + SOFT)
    assert current(engine) == {}


def test_an_alter_after_a_record_that_came_too_late_still_counts(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path / DAY, S2 + SOFT)
    store(engine, tmp_path / DAY, S2 + SOFT + S + SOFT.replace("00:10:00", "00:20:00"))
    assert current(engine) == {"1.srv": (300, 3600, 1200)}


def test_the_rest_of_yesterdays_log_changes_jobs_that_are_known(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path / DAY, Q)
    store(engine, tmp_path / "20261119", Q.replace("1.srv", "2.srv"))
    store(engine, tmp_path / DAY, Q + S)
    assert current(engine)["1.srv"] == (200, 3600, None)
    store(engine, tmp_path / DAY, Q + S + R)
    assert current(engine)["1.srv"] == (None, 3600, None)


def test_an_old_copy_of_todays_log_adds_no_current_job(engine: Engine, tmp_path: Path) -> None:
    content = LICENSES + Q + S + E + Q.replace("1.srv", "2.srv")
    store(engine, tmp_path / DAY, content + D.replace("1.srv", "2.srv"))
    for copied in (LICENSES + Q + S + E[:50], content):
        store(engine, tmp_path / "copy" / DAY, copied)
        assert current(engine) == {}


def test_a_truncated_and_continued_log_is_read(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / DAY
    content = LICENSES + Q + S
    store(engine, log, content + SOFT * 9)
    store(engine, log, content)
    assert current(engine) == {"1.srv": (200, 3600, 600)}
    content += Q.replace("1.srv", "2.srv")
    store(engine, log, content)
    assert current(engine).keys() == {"1.srv", "2.srv"}
    store(engine, log, content + E)
    assert current(engine).keys() == {"2.srv"}


def test_another_log_with_the_same_path_is_read(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / DAY
    store(engine, log, Q + S)
    store(engine, log, Q.replace("1.srv", "2.srv"))
    assert current(engine).keys() == {"1.srv", "2.srv"}


def test_a_server_name_replaces_the_hosts_in_job_ids(engine: Engine, tmp_path: Path) -> None:
    for server in ("a", "b"):
        log = tmp_path / server / DAY
        log.parent.mkdir()
        log.write_text(Q + S)
        ingest_logs(engine, [log], Tally(), server)
    log.write_text(Q + S + D)
    ingest_logs(engine, [log], Tally(), "b")
    with engine.connect() as connection:
        assert [(job.server, job.start) for job in read_current(connection)] == [("a", 200)]
