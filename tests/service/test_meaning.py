"""From records of the log to rows of the store: which runs are jobs, how each ended, how long it ran."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting.reader import MAX_RUNTIME_DIFFERENCE_S
from softwalltime.accounting.tally import Tally
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.completed_jobs import read_jobs
from tests.samples import RECORDED_LOG
from tests.service.stored import current

pytestmark = pytest.mark.postgres

HEAD = "user=bob group=g project=p jobname=j queue=q ctime=100 qtime=100 etime=100"
WALLTIME = "Resource_List.walltime=01:00:00"


def record(kind: str, message: str = "", job_id: str = "1.srv") -> str:
    return f"11/18/2026 10:00:00;{kind};{job_id};{message}\n"


def ended(more: str = "", *, start: str = "start=200", end: int = 300, job_id: str = "1.srv") -> str:
    return record("E", f"{HEAD} {start} {WALLTIME} session=1 end={end} {more}", job_id)


Q = record("Q", f"{HEAD} {WALLTIME} ")
S = record("S", f"{HEAD} start=200 {WALLTIME} ")
S_AGAIN = record("S", f"{HEAD} start=260 {WALLTIME} ")
R = record("R", f"{HEAD} start=200 {WALLTIME} end=250 Exit_status=-11 resources_used.walltime=00:00:50 run_count=1")
D = record("D", "requestor=root@srv")


def ingest(engine: Engine, folder: Path, content: str) -> Tally:
    tally = Tally()
    (folder / "20261118").write_text(content)
    ingest_logs(engine, [folder / "20261118"], tally)
    return tally


def rows(engine: Engine, table: str, columns: str) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT {columns} FROM softwalltime.{table} ORDER BY job_id, start_time"))
        return [tuple(row) for row in found]


def test_the_subjobs_of_an_array_are_jobs(engine: Engine, tmp_path: Path) -> None:
    tally = ingest(engine, tmp_path, "".join(ended(job_id=job_id) for job_id in ("5[1].srv", "5[2].srv", "5[].srv")))
    assert rows(engine, "completed_jobs", "job_id") == [("5[1].srv",), ("5[2].srv",)]
    assert (tally.jobs, tally.array_parents, tally.malformed) == (2, 1, 0)


def test_a_rerun_job_counts_once_and_its_interrupted_run_is_stored(engine: Engine, tmp_path: Path) -> None:
    tally = ingest(engine, tmp_path, Q + S + R + S_AGAIN + ended("Exit_status=0 run_count=2", start="start=260"))
    assert rows(engine, "completed_jobs", "job_id, start_time, run_count, state, runtime") == [
        ("1.srv", 260, 2, "finished", 40)
    ]
    assert rows(engine, "interrupted_runs", "job_id, start_time, end_time, run_count, state, runtime, walltime") == [
        ("1.srv", 200, 250, 1, "rerun", 50, 3600)
    ]
    assert (tally.jobs, tally.interrupted, tally.malformed, tally.others) == (1, 1, 0, 3)


@pytest.mark.parametrize("r", [record("R"), record("R", f"{HEAD} start=200"), record("R", "queue=batch")])
def test_a_rerun_without_a_start_record_is_neither_a_run_nor_an_error(engine: Engine, tmp_path: Path, r: str) -> None:
    tally = ingest(engine, tmp_path, Q + S + r + S_AGAIN + ended(start="start=260"))
    assert rows(engine, "completed_jobs", "job_id, start_time") == [("1.srv", 260)]
    assert rows(engine, "interrupted_runs", "job_id") == []
    assert (tally.malformed, tally.other["R"]) == (0, 1)


def test_a_job_deleted_while_waiting_never_ran(engine: Engine, tmp_path: Path) -> None:
    tally = ingest(engine, tmp_path, Q + D)
    assert rows(engine, "completed_jobs", "job_id") == []
    assert (tally.jobs, tally.others, current(engine)) == (0, 2, {})


def test_a_job_deleted_while_running_ran(engine: Engine, tmp_path: Path) -> None:
    ingest(engine, tmp_path, Q + S + D + ended("Exit_status=271 resources_used.walltime=00:01:40"))
    assert rows(engine, "completed_jobs", "job_id, state, runtime") == [("1.srv", "deleted", 100)]
    assert current(engine) == {}


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ("Exit_status=0", "finished"),
        ("Exit_status=1", "failed"),
        ("Exit_status=137", "failed"),
        ("Exit_status=-29", "walltime exceeded"),
        ("Exit_status=271", "deleted"),
        ("Exit_status=271 resources_used.walltime=01:00:05", "walltime exceeded"),
        ("Exit_status=265 resources_used.walltime=01:00:05", "walltime exceeded"),
        ("Exit_status=-27", "limit exceeded"),
        ("Exit_status=-11", "rerun"),
        ("Exit_status=-4", "node failure"),
        ("Exit_status=-1", "not started"),
        ("Exit_status=-99", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_state_tells_how_a_job_ended(engine: Engine, tmp_path: Path, more: str, state: str) -> None:
    ingest(engine, tmp_path, ended(more))
    assert rows(engine, "completed_jobs", "state") == [(state,)]


@pytest.mark.parametrize(
    ("more", "start", "runtime", "disagreeing"),
    [
        ("resources_used.walltime=00:01:40", "start=200", 100, 0),
        ("resources_used.walltime=95", "start=200", 95, 0),
        # The runtime is the one that PBS measured; a difference, as after a suspension, is counted.
        (f"resources_used.walltime={100 + MAX_RUNTIME_DIFFERENCE_S}", "start=200", 100 + MAX_RUNTIME_DIFFERENCE_S, 0),
        (f"resources_used.walltime={101 + MAX_RUNTIME_DIFFERENCE_S}", "start=200", 101 + MAX_RUNTIME_DIFFERENCE_S, 1),
        ("resources_used.walltime=00:00:10", "start=200", 10, 1),
        ("", "start=200", 100, 0),
        ("", "start=400", 0, 1),
        ("", "", 0, 0),
        ("", "start=0", 0, 0),
    ],
)
def test_the_runtime_is_that_measured_by_pbs_else_end_minus_start(
    engine: Engine, tmp_path: Path, more: str, start: str, runtime: int, disagreeing: int
) -> None:
    tally = ingest(engine, tmp_path, ended(more, start=start))
    assert rows(engine, "completed_jobs", "runtime") == [(runtime,)]
    assert tally.disagreeing == disagreeing


def test_a_job_without_walltime_is_stored_and_learnt(engine: Engine, tmp_path: Path) -> None:
    ingest(engine, tmp_path, ended("Exit_status=0").replace(WALLTIME, ""))
    assert rows(engine, "completed_jobs", "walltime, runtime") == [(None, 100)]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT softwalltime.last2('bob', 1000)")).scalar_one() == 100
        assert connection.execute(text("SELECT softwalltime.usage('bob', 500, 1000)")).scalar_one() is None


def test_times_come_from_the_fields_not_from_the_time_stamp(engine: Engine, tmp_path: Path) -> None:
    # As after the clock was set back: the time stamp is earlier than that of the previous record.
    ingest(engine, tmp_path, ended().replace("11/18/2026 10:00:00", "10/25/2026 02:59:59"))
    assert rows(engine, "completed_jobs", "ctime, qtime, etime, start_time, end_time") == [(100, 100, 100, 200, 300)]


def test_the_same_run_twice_is_one_job_and_another_run_is_another_job(engine: Engine, tmp_path: Path) -> None:
    first, other = ended("Exit_status=0"), ended("Exit_status=1", start="start=250")
    tally = ingest(engine, tmp_path, first + first + ended("Exit_status=3") + other)
    assert rows(engine, "completed_jobs", "start_time, exit_status") == [(200, 0), (250, 1)]
    assert tally.jobs == 4


def test_the_recorded_log_of_a_real_server_gives_its_jobs(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "20261120").write_bytes(RECORDED_LOG.read_bytes())
    ingest_logs(engine, [tmp_path / "20261120"], Tally())
    with engine.connect() as connection:
        jobs = {job.submission.job_id: job for job in read_jobs(connection)}
    names = {job.submission.job_name: job.state for job in jobs.values()}
    assert {name: names[name].value for name in ("plain", "fails", "deleted", "overrun", "rerun")} == {
        "plain": "finished", "fails": "failed", "deleted": "deleted", "overrun": "walltime exceeded",
        "rerun": "finished",
    }  # fmt: skip
    assert jobs["16.pbs1"].run_count == 2
    assert rows(engine, "interrupted_runs", "job_id, state, run_count") == [("16.pbs1", "rerun", 1)]
