"""Predictors learn which jobs wait and run from the records that were stored, by whichever process."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Deleted, Ended, Event, Started
from softwalltime.core.jobs import Submission
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service import worker as worker_module
from softwalltime.service.ingest import ingest_logs
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.recorder import DecisionRecorder
from softwalltime.service.request_handler import RequestHandler
from softwalltime.service.worker import Worker
from softwalltime.store.connections import StatementMonitor
from softwalltime.store.current import last_change, read_changes, read_current, set_current
from tests.samples import job
from tests.service.histories import BEGIN, history, random_plans
from tests.service.test_observing import current
from tests.spy import ObservingSpy, registered

pytestmark = pytest.mark.postgres

State = dict[tuple[str, str], tuple[Submission, int | None]]


class Observer:
    """A daemon's worker and predictor, driven step by step."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.predictions = PredictionService(SitePolicy(mode="on", waiting="observing-spy"), clock=lambda: BEGIN + 9e6)
        handler = RequestHandler(self.predictions, dict)
        monitor = StatementMonitor(60.0)
        recorder = DecisionRecorder(
            handler.decisions, folder / "s", lambda: nullcontext(engine), monitor, PromiseStore()
        )
        self.worker = Worker(handler, lambda: nullcontext(engine), None, recorder, monitor, clock=lambda: BEGIN + 9e6)
        self.engine = engine

    @property
    def observed(self) -> list[Event]:
        (spy,) = self.predictions.driver.predictors.values()
        assert isinstance(spy, ObservingSpy)
        return spy.observed

    def step(self) -> None:
        self.worker._learn(self.engine)


def state_of(events: list[Event]) -> dict[str, tuple[Submission, int | None]]:
    """The waiting and running jobs after these events; each job is submitted once before anything else."""
    jobs: dict[str, tuple[Submission, int | None]] = {}
    for event in events:
        submission = event.job.submission if isinstance(event, Ended) else event.submission
        if isinstance(event, Ended | Deleted):
            del jobs[submission.job_id]
        else:
            known = jobs.get(submission.job_id)
            jobs[submission.job_id] = (
                submission,
                event.time if isinstance(event, Started) else known[1] if known else None,
            )
    return jobs


def full_read(engine: Engine) -> State:
    with engine.connect() as connection:
        return {
            (job.submission.job_id, job.server): (job.submission, job.start)
            for job in read_current(connection)
            if "[]" not in job.submission.job_id
        }


@pytest.fixture
def observer(engine: Engine, tmp_path: Path) -> Iterator[Observer]:
    with registered(ObservingSpy):
        yield Observer(engine, tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_after_any_records_in_any_batches_the_state_is_that_of_a_full_read(
    engine: Engine, tmp_path: Path, observer: Observer, seed: int
) -> None:
    chance = Random(seed)
    lines = history(random_plans(chance, 25, 3000))
    if seed % 2:
        # Records in the wrong order, as of several writers.
        lines = [line for _, line in sorted((n + chance.randrange(6), line) for n, line in enumerate(lines))]
    logs = [tmp_path / name for name in ("20261118", "20261119")]
    second = Observer(engine, tmp_path)
    left = lines
    while left:
        size = chance.randrange(1, 12)
        with chance.choice(logs).open("ab") as log:
            log.write(b"".join(line + b"\n" for line in left[:size]))
        left = left[size:]
        # Whichever process reads the logs.
        ingest_logs(engine, [log for log in logs if log.exists()], Tally(), chance.choice(("", "srv")))
        observer.step()
        assert observer.worker._job_events.jobs == full_read(engine)
        if chance.random() < 0.3:
            second.step()
        if chance.random() < 0.1:
            # A restart, or more changes than are kept.
            if chance.random() < 0.5:
                second = Observer(engine, tmp_path)
            else:
                with engine.begin() as connection:
                    connection.execute(text("DELETE FROM softwalltime.queue_changes"))
    second.step()
    assert second.worker._job_events.jobs == full_read(engine)
    if not seed % 2:
        seen = state_of(observer.observed)
        assert {key[0]: submission for key, (submission, _) in full_read(engine).items()} == {
            job_id: submission for job_id, (submission, _) in seen.items()
        }


def test_a_step_reads_the_jobs_that_changed_and_not_the_queue(
    engine: Engine, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.begin() as connection:
        set_current(connection, [current(f"{n}.srv") for n in range(300)])
    observer.step()
    assert len(observer.observed) == 300

    def fail(*_: Any) -> None:
        raise AssertionError("the whole queue is read")

    monkeypatch.setattr(worker_module, "read_current", fail)
    observer.step()
    with engine.begin() as connection:
        before = last_change(connection)
        set_current(connection, [current("7.srv", start=500), current("8.srv")])
    observer.step()
    assert observer.observed[300:] == [Started(500, current("7.srv").submission)]
    with engine.connect() as connection:
        changes = read_changes(connection, before)
        assert changes is not None
        assert list(changes.jobs) == [("7.srv", "srv")], "what is written again unchanged is no change"


def test_changes_that_are_no_longer_kept_lead_to_a_full_read(engine: Engine) -> None:
    with engine.begin() as connection:
        set_current(connection, [current("1.srv"), current("2.srv")])
    with engine.begin() as connection:
        last = last_change(connection)
        assert read_changes(connection, last) is not None
        connection.execute(text("DELETE FROM softwalltime.queue_changes WHERE id < :last"), {"last": last})
        assert read_changes(connection, last - 2) is None


def test_old_changes_are_not_searched_at_each_change(engine: Engine) -> None:
    scans = "SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables WHERE relname = 'queue_changes'"
    fill = "INSERT INTO softwalltime.queue_changes (server, job_id) SELECT 'srv', '1' FROM generate_series(1, 100000)"
    with engine.begin() as connection:
        connection.execute(text(fill))
        set_current(connection, [current(f"{n}.srv") for n in range(2000)])
        # Each search passes all rows deleted by this transaction: with one per change, the time grows with the square.
        assert connection.execute(text(scans)).scalar_one() <= 2
        assert connection.execute(text("SELECT count(*) FROM softwalltime.queue_changes")).scalar_one() == 100_000


def test_the_end_of_an_older_job_with_the_same_id_is_not_that_of_the_waiting_one(observer: Observer) -> None:
    watch = observer.worker._job_events
    watch.load([current("1.srv")], 5000)
    older = job(job_id="1.srv", submitted=50, end=90)
    assert [type(event).__name__ for event in watch.ended(older)] == ["Submitted", "Started", "Ended"]
    assert list(watch.jobs) == [("1.srv", "srv")]
