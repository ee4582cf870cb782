"""Retention: which rows are deleted when, without blocking writers."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import Engine, text

from softwalltime.cli import run
from softwalltime.core.jobs import CompletedJob, CurrentJob, DecisionRecord
from softwalltime.core.promises import Promise
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.worker import HOUR, Worker
from softwalltime.store import retention
from softwalltime.store.completed_jobs import add_interrupted, read_jobs
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.current import read_current, set_current
from softwalltime.store.learning_jobs import read_history
from softwalltime.store.predictions import add_decisions
from softwalltime.store.promises import GuardState, last_late_jobs, open_promises, store_promises, store_state
from softwalltime.store.retention import MAX_UNCHECKED_ROWS, RefusalReason, RetentionRun, refusals
from tests.samples import job
from tests.service.own_postgres import own_postgres
from tests.service.running import PATIENT, until
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

DAY = 86400
NOW = 1_800_000_000


def pruned(engine: Engine, days: int = 0, now: int = NOW, *, force: bool = False) -> Counter[str]:
    """Rows deleted by table."""
    counted: Counter[str] = Counter()
    for table, rows in RetentionRun(engine, days, now, force=force):
        counted[table] += rows
    return counted


def refused(engine: Engine, days: int, now: int = NOW) -> list[tuple[str, RefusalReason, int]]:
    """Return the refusals of retention, and assert that it deletes nothing."""
    with engine.connect() as connection:
        found = refusals(connection, days, now)
    run = RetentionRun(engine, days, now)
    deleted = sum(rows for _, rows in run)
    assert run.refused == found
    assert not (found and deleted)
    return [(refusal.table, refusal.reason, refusal.old) for refusal in run.refused]


def add(engine: Engine, *jobs: CompletedJob) -> None:
    with engine.begin() as connection:
        add_jobs(connection, jobs)


def ids(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [found.submission.job_id for found in read_jobs(connection)]


def waiting(job_id: str, ctime: int, start: int | None = None, walltime: int | None = 3600) -> CurrentJob:
    of = job(job_id=job_id, submitted=ctime, walltime=walltime).submission
    return CurrentJob(of, "srv", start)


def test_older_rows_are_pruned_and_the_limit_itself_is_kept(engine: Engine) -> None:
    add(engine, *(job(job_id=f"{days}", end=NOW - days * DAY) for days in (0, 9, 10, 11)))
    add(engine, job(job_id="just", end=NOW - 10 * DAY - 1), job(job_id="never ran", end=NOW - 20 * DAY, runtime=0))
    with engine.begin() as connection:
        for days in (11, 9):
            add_interrupted(connection, [job(job_id=f"{days}", end=NOW - days * DAY)])
            at = NOW - days * DAY
            decision = DecisionRecord(at, "queuejob", job().submission, "on", "v1", 1.0, 60, "set", "", 1)
            add_decisions(connection, [decision])
            store_promises(connection, "", [Promise(f"{days}.srv", at, at, at)])
            for server in ("srv", "idle")[: 1 if days == 9 else 2]:
                store_state(connection, GuardState(server, at, f"{days}.{server}"))
    assert pruned(engine, days=10) == {
        "completed_jobs": 3, "predictions": 1, "interrupted_runs": 1, "current_jobs": 0, "daily figures": 0,
        "start_times": 0, "promises": 1, "live_states": 1, "job_scripts": 0,
    }  # fmt: skip
    with engine.connect() as connection:
        assert [promise.job_id for promise in open_promises(connection, "")] == ["9.srv"]
        late_jobs = last_late_jobs(connection)
    # The last state of each server stays, however old.
    assert late_jobs == {"srv": "9.srv", "idle": "11.idle"}
    assert sorted(ids(engine)) == ["0", "10", "9"]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT job_id FROM softwalltime.interrupted_runs")).scalars().all() == ["9"]
        assert connection.execute(text("SELECT predicted_at FROM softwalltime.predictions")).scalars().all() == [
            NOW - 9 * DAY
        ]


def of_days(*days: float) -> list[CompletedJob]:
    """Return jobs that ended these numbers of days before ``NOW``."""
    return [job(job_id=f"{number}.srv", end=NOW - int(age * DAY)) for number, age in enumerate(days)]


def test_a_clock_four_years_ahead_deletes_nothing(engine: Engine) -> None:
    jobs = of_days(*(n / 10 for n in range(500)))
    add(engine, *jobs)
    with engine.begin() as connection:
        decisions = [
            DecisionRecord(each.end, "postqueuejob", each.submission, "on", "v1", 1.0, 60, "set", "", 1)
            for each in jobs
        ]
        add_decisions(connection, decisions)
    ahead = NOW + 4 * 365 * DAY
    clock = [("completed_jobs", RefusalReason.CLOCK, 500), ("predictions", RefusalReason.CLOCK, 500)]
    assert refused(engine, 1096, ahead) == clock
    # While the clock was wrong a job ended: by the records the clock is right now.
    add(engine, job(job_id="ahead", end=ahead))
    share = [("completed_jobs", RefusalReason.SHARE, 500), ("predictions", RefusalReason.SHARE, 500)]
    assert refused(engine, 1096, ahead) == share
    # The clock is correct again: the job does not count, and retention continues as before.
    assert refused(engine, 1096) == []
    assert pruned(engine, 40)["completed_jobs"] == 99


def test_a_clock_that_is_behind_most_records_deletes_nothing(engine: Engine) -> None:
    add(engine, *of_days(*range(1000)))
    assert refused(engine, 30, NOW - 900 * DAY) == [("completed_jobs", RefusalReason.CLOCK, 69)]


def test_a_record_of_the_far_future_is_named_where_it_prevents_retention(engine: Engine) -> None:
    add(engine, *of_days(*range(63)), job(job_id="2099", end=4_085_000_000))
    with engine.connect() as connection:
        (sentence,) = (refusal.text for refusal in refusals(connection, 30, NOW))
    assert "1 of 64 jobs ended later by their records, the last 2099-06-13 02:13 UTC; correct the clock" in sentence
    assert sentence.endswith("if it is right, run softwalltime db prune --force")
    assert pruned(engine, 30, force=True)["completed_jobs"] == 32


@pytest.mark.parametrize(("hours", "refuses"), [(23, False), (25, True)])
def test_the_clock_may_be_a_day_after_the_newest_job(engine: Engine, hours: int, refuses: bool) -> None:
    add(engine, *of_days(*(n / 10 for n in range(110))))
    assert bool(refused(engine, 10, NOW + hours * HOUR)) == refuses


def test_age_is_measured_from_the_newest_job(engine: Engine) -> None:
    add(engine, *of_days(0, 9.5, 10.5))
    assert pruned(engine, 10, now=NOW + 20 * HOUR)["completed_jobs"] == 1
    assert ids(engine) == ["1.srv", "0.srv"]


@pytest.mark.parametrize(
    ("days", "old", "kept", "refuses"),
    [
        (30, MAX_UNCHECKED_ROWS, 10, False),
        (30, 200, 599, True),
        (30, 200, 601, False),
        (3, 200, 70, False),
        (3, 200, 60, True),
    ],
)
def test_a_large_share_is_not_deleted_at_once(engine: Engine, days: int, old: int, kept: int, refuses: bool) -> None:
    ages = [days + 1 + n / 1000 for n in range(old)] + [n / 1000 for n in range(kept)]
    add(engine, *of_days(*ages))
    expected = [("completed_jobs", RefusalReason.SHARE, old)] if refuses else []
    assert refused(engine, days) == expected
    if refuses:
        assert pruned(engine, days, force=True)["completed_jobs"] == old


def test_predictions_without_any_job_are_measured_by_the_clock(engine: Engine) -> None:
    with engine.begin() as connection:
        for days in (1, 11):
            at = NOW - days * DAY
            add_decisions(
                connection, [DecisionRecord(at, "queuejob", job().submission, "on", "v1", 1.0, 60, "set", "", 1)]
            )
    assert pruned(engine, 10)["predictions"] == 1


def test_without_a_limit_nothing_is_pruned(engine: Engine) -> None:
    add(engine, job(end=1), job(job_id="2.srv", end=2))
    assert pruned(engine) == {"current_jobs": 0, "start_times": 0}
    assert len(ids(engine)) == 2


def test_it_is_done_in_batches_and_may_be_stopped_in_between(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 10)
    add(engine, *(job(job_id=str(n), end=n) for n in range(45)))
    add(engine, *(job("bob", job_id=f"b{n}", end=NOW + n - 30) for n in range(25)))
    steps = RetentionRun(engine, 10, NOW)
    assert [next(steps), next(steps)] == [("completed_jobs", 10)] * 2
    assert len(ids(engine)) == 50
    steps = RetentionRun(engine, 10, NOW)
    assert [rows for table, rows in steps if table == "completed_jobs"] == [10, 10, 5]
    assert len(ids(engine)) == 25


def test_current_jobs_are_pruned_when_their_ends_must_have_been_missed(engine: Engine) -> None:
    old, lost = NOW - 1100 * DAY, NOW - 31 * DAY - 3600
    jobs = [
        waiting("waits", NOW - DAY),
        waiting("waits for years", old),
        waiting("runs", NOW - DAY, NOW - DAY),
        waiting("is late", lost, NOW - 30 * DAY - 3600),
        waiting("is lost", lost, lost),
        waiting("has no limit", lost, lost, None),
        waiting("had no limit for years", old, old, None),
        waiting("5[].srv", lost, lost),
    ]
    with engine.begin() as connection:
        set_current(connection, jobs)
    assert pruned(engine, days=1096) == {"current_jobs": 3, **dict.fromkeys(EMPTY, 0)}
    with engine.connect() as connection:
        left = {found.submission.job_id for found in read_current(connection)}
    assert left == {"waits", "runs", "is late", "has no limit", "5[].srv"}


EMPTY = (
    "completed_jobs", "predictions", "interrupted_runs", "promises", "live_states", "daily figures", "start_times",
    "job_scripts",
)  # fmt: skip


@contextmanager
def at_work(*tasks: Callable[[], None]) -> Iterator[Counter[str]]:
    """While in it, threads do these again and again, each of them at least once; how often is counted by name."""
    stopping = Event()
    done: Counter[str] = Counter()
    failed: list[BaseException] = []

    def repeat(task: Callable[[], None]) -> None:
        try:
            while True:
                task()
                done[task.__name__] += 1
                if stopping.is_set():
                    break
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=repeat, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert failed == []


def test_writers_do_not_wait_for_retention(engine: Engine, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 1000)
    with engine.begin() as connection:
        # Autovacuum takes short locks too, which this test must not measure.
        for table in ("completed_jobs", "current_jobs"):
            connection.execute(text(f"ALTER TABLE softwalltime.{table} SET (autovacuum_enabled = false)"))
    begin = NOW - 2000 * DAY
    for first in range(0, 40_000, 10_000):
        add(engine, *(job(f"user{n % 50}", job_id=str(n), end=begin + n * 4000) for n in range(first, first + 10_000)))
    reader, writer, watcher = (connect(database) for _ in range(3))
    new = iter(range(1_000_000, 2_000_000))
    waits: Counter[str] = Counter()

    def read() -> None:
        with reader.connect() as connection:
            for _ in read_history(connection, 2, None, NOW):
                pass
            connection.execute(text("SELECT softwalltime.last2('user1', 1800000000)")).one()

    def write() -> None:
        with writer.begin() as connection:
            add_jobs(connection, [job(f"user{n % 50}", job_id=str(n), end=NOW) for n in (next(new) for _ in range(20))])
            set_current(connection, [waiting(str(next(new)), NOW)])

    def watch() -> None:
        with watcher.connect() as connection:
            # Of those who are connected to this database: in its copies all tables have the same numbers.
            ours = """
                FROM pg_locks JOIN pg_stat_activity USING (pid)
                WHERE datname = current_database() AND backend_type = 'client backend'
            """
            # Writers wait for each other by intention.
            turn = "relation IS NOT DISTINCT FROM 'softwalltime.write_lock'::regclass"
            denied = text(f"SELECT locktype || mode {ours} AND NOT granted AND NOT ({turn})")
            waits.update(connection.execute(denied).scalars())
            strong = text(f"""
                SELECT count(*) {ours} AND relation = 'softwalltime.completed_jobs'::regclass
                    AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
            """)
            waits["strong lock"] += connection.execute(strong).scalar_one()

    with at_work(read, write, watch) as done:
        until(lambda: len(done) == 3)
        deleted = pruned(engine, force=True, days=1000)
    assert deleted["completed_jobs"] > 20_000
    for own in (reader, writer, watcher):
        own.dispose()
    assert +waits == Counter()


def test_the_command_prunes_by_the_settings(
    engine: Engine, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = int(time.time())
    add(engine, *(job(job_id=str(days), end=now - int(days * DAY)) for days in (0.5, 9, 11, 4000)))
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "{database}"\nkeep_days = 10\n')
    assert run(["db", "prune", "--config", str(config)]) == 0
    assert "completed_jobs                 2 rows deleted" in capsys.readouterr().out
    assert sorted(ids(engine)) == ["0.5", "9"]


def test_the_command_prints_what_it_deleted_before_it_failed(
    engine: Engine, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = int(time.time())
    add(engine, *(job(job_id=str(days), end=now - int(days * DAY)) for days in (0.5, 11, 12)))
    with engine.begin() as connection:
        connection.execute(
            text("""
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE 'not today' USING ERRCODE = 'disk_full'; END
            $$;
            CREATE TRIGGER refuse BEFORE DELETE ON softwalltime.predictions EXECUTE FUNCTION public.refuse();
        """)
        )
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "{database}"\nkeep_days = 10\n')
    assert run(["db", "prune", "--config", str(config)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "completed_jobs                 2 rows deleted\n"
    assert "not today" in printed.err
    assert ids(engine) == ["0.5"]


def test_the_command_names_what_it_refuses(
    engine: Engine, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = int(time.time())
    add(engine, *(job(job_id=str(n), end=now - n * 3600) for n in range(1000)))
    config = tmp_path / "softwalltime.toml"
    config.write_text(f'dsn = "{database}"\nkeep_days = 20\n')
    assert run(["db", "prune", "--config", str(config)]) == 1
    said = "rows of completed_jobs, 52% of them, are older than keep_days; if that is right, run softwalltime db prune"
    assert said in capsys.readouterr().err
    assert len(ids(engine)) == 1000
    assert run(["db", "prune", "--force", "--config", str(config)]) == 0
    assert len(ids(engine)) < 490
    add(engine, job(job_id="long ago", end=1))
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM softwalltime.completed_jobs WHERE end_time > 1"))
    add(engine, *(job(job_id=str(n), end=now - 90 * DAY - n * 3600) for n in range(1000)))
    assert run(["db", "prune", "--config", str(config)]) == 1
    assert re.search(r"the clock says 20.* UTC, but the newest job ended 20.* UTC; correct", capsys.readouterr().err)


def test_the_daemon_prunes_every_day_and_restarts_after_the_store_was_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(retention, "BATCH", 5)
    monkeypatch.setattr("softwalltime.service.worker.POLL_INTERVAL_S", 0.05)
    passed = [0.0]
    with own_postgres() as postgres:

        @contextmanager
        def open_engine() -> Iterator[Engine]:
            own = connect(postgres.dsn)
            yield own
            own.dispose()

        engine = connect(postgres.dsn)
        add(engine, *(replace(job(job_id=str(n), end=n), start=n) for n in range(60)), job(job_id="new", end=NOW))
        engine.dispose()
        handler = RequestHandler(PredictionService(SitePolicy()), dict)
        monitor = StatementMonitor(PATIENT)
        recorder = DecisionRecorder(handler.decisions, tmp_path, open_engine, monitor, PromiseStore())
        worker = Worker(
            handler, open_engine, None, recorder, monitor,
            10, lambda: NOW + passed[0], 1e9, lambda: passed[0],
        )  # fmt: skip
        worker.start()
        try:
            until(lambda: worker.problem == "")
            time.sleep(0.5)
            assert worker.pruned == 0, "not at once"
            passed[0] += HOUR
            until(lambda: worker.pruned >= 10)
            postgres.kill()
            until(lambda: worker.problem != "")
            postgres.start()
            until(lambda: worker.pruned >= 60)
        finally:
            assert worker.stop(PATIENT)
        engine = connect(postgres.dsn)
        assert ids(engine) == ["new"]
        engine.dispose()
