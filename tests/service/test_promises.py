"""Promised starts and the guard across restarts of the daemon: each promise counts once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.jobs import Submission
from softwalltime.core.promises import Outcome, Promise
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live.watch import ServerJob
from softwalltime.service.live_values import LiveThread
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_store import PromiseStore
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.store.promises import store_promises
from tests.live.emulated import SUBMITTED, EmulatedServer
from tests.samples import job as completed
from tests.service.running import until
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

NOW = SUBMITTED + 100_000
POLICY = SitePolicy(mode="on", waiting="factor:0.5")
ON = LiveOptions(mode="on", guard=600)


def waits(number: int, promised: int | None = None, server: str = "pbs1") -> ServerJob:
    submission = Submission(f"{number}.{server}", "alice", NOW, 36_000, queue="short", ncpus=80)
    return ServerJob(submission, "Q", None, None, promised)


def runs(number: int, started: int, server: str = "pbs1") -> ServerJob:
    return replace(waits(number, server=server), state="R", started=started)


class Process:
    """The promises of one process: live thread and recorder's thread by turns."""

    def __init__(self, engine: Engine, server: str = "") -> None:
        self.engine = engine
        self.store = PromiseStore(server)
        self.store.exchange(engine)
        self.watch = PromiseWatch(self.store)

    def look(
        self, *jobs: ServerJob, now: int = NOW, options: LiveOptions = ON, policy: SitePolicy = POLICY,
        stored: bool = True,
    ) -> list[int]:  # fmt: skip
        """Look once, and store; return how many promises this process has seen broken, kept and open."""
        self.watch.look(jobs, now, options, policy, 0, lambda _arrivals, _jobs: {})
        if stored:
            self.store.exchange(self.engine)
        return [self.watch.counts[outcome] for outcome in (Outcome.LATE, Outcome.KEPT, Outcome.OPEN)]


def found(engine: Engine, query: str) -> list[Any]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def test_late_and_kept_starts_are_counted_and_open_promises_are_restored(engine: Engine) -> None:
    first = Process(engine)
    first.look(waits(1, NOW + 100), waits(2, NOW + 100), waits(3, NOW + 100))
    assert first.look(runs(1, NOW + 161), waits(2, NOW + 100), waits(3, NOW + 100), now=NOW + 170) == [1, 0, 2]
    assert first.look(runs(2, NOW + 160), waits(3, NOW + 100), now=NOW + 180) == [1, 1, 1]
    # Killed now.  Its successor knows the promise.
    second = Process(engine)
    assert second.look(waits(3, NOW + 1900), now=NOW + 800) == [0, 0, 1]
    assert second.look(runs(3, NOW + 900), now=NOW + 910) == [1, 0, 0]
    assert found(
        engine,
        "SELECT job_id, server, first_start, last_start, start_time, outcome, queue, ncpus "
        "FROM softwalltime.promises ORDER BY job_id",
    ) == [
        ("1.pbs1", "pbs1", NOW + 100, NOW + 100, NOW + 161, "late", "short", 80),
        ("2.pbs1", "pbs1", NOW + 100, NOW + 100, NOW + 160, "kept", "short", 80),
        ("3.pbs1", "pbs1", NOW + 100, NOW + 1900, NOW + 900, "late", "short", 80),
    ]


def test_a_start_that_was_not_stored_is_counted_by_the_next_process(engine: Engine) -> None:
    first = Process(engine)
    first.look(waits(1, NOW + 100), waits(2, NOW + 100))
    assert first.look(runs(1, NOW + 200), runs(2, NOW + 200), now=NOW + 210, stored=False) == [2, 0, 0]
    # One of them still runs, the other one has ended meanwhile.
    second = Process(engine)
    with engine.begin() as connection:
        add_jobs(connection, [completed(job_id="2.pbs1", start=NOW + 200, end=NOW + 230, runtime=30, server="pbs1")])
    assert second.look(runs(1, NOW + 200), now=NOW + 270) == [1, 0, 0]
    assert second.look(now=NOW + 330) == [2, 0, 0]
    assert Process(engine).look(now=NOW + 400) == [0, 0, 0]
    assert found(engine, "SELECT DISTINCT outcome FROM softwalltime.promises") == [("late",)]


def test_a_latest_start_outlives_the_process_and_not_the_wait(engine: Engine) -> None:
    options, policy = LiveOptions(mode="on", slack=600, raise_lead=60), SitePolicy(mode="on", ordering="v1")

    def raised(process: Process, planned: int, now: int, *jobs: ServerJob) -> list[str]:
        process.watch.look(jobs, now, options, policy, 0, lambda _, wanted: dict.fromkeys(wanted, planned))
        process.store.exchange(engine)
        return sorted(process.watch.kept)

    assert raised(Process(engine), NOW + 100, NOW, waits(1), waits(2)) == []
    # A process that would plan them anew, later.
    assert raised(Process(engine), NOW + 9000, NOW + 640, waits(1), waits(2)) == ["1.pbs1", "2.pbs1"]
    altered = replace(waits(2), submission=replace(waits(2).submission, walltime=72_000))
    assert raised(Process(engine), NOW, NOW + 650, waits(1), altered) == ["1.pbs1", "2.pbs1"]
    assert raised(Process(engine), NOW + 9000, NOW + 660, waits(1), waits(2)) == ["1.pbs1"]
    assert raised(Process(engine), NOW, NOW + 670, runs(1, NOW + 665), waits(2)) == []
    assert found(engine, "SELECT job_id, server, set_at FROM softwalltime.latest_starts") == [
        ("2.pbs1", "pbs1", NOW + 660)
    ]
    # What is not wanted any more is forgotten.
    options = LiveOptions(mode="on")
    assert raised(Process(engine), NOW, NOW + 9000, waits(2)) == []
    assert found(engine, "SELECT * FROM softwalltime.latest_starts") == []


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        (LiveOptions(mode="shadow"), POLICY),
        (ON, SitePolicy(mode="shadow", waiting="factor:0.5")),
    ],
)
def test_promises_are_recorded_in_mode_shadow_too(engine: Engine, options: LiveOptions, policy: SitePolicy) -> None:
    process = Process(engine)
    process.look(waits(1, NOW + 100), options=options, policy=policy)
    assert process.look(runs(1, NOW + 900), now=NOW + 910, options=options, policy=policy) == [1, 0, 0]
    assert found(engine, "SELECT outcome, start_time FROM softwalltime.promises") == [("late", NOW + 900)]


def test_the_guard_goes_on_after_a_restart_and_its_times_are_recorded(engine: Engine) -> None:
    first = Process(engine)
    first.look(waits(1, NOW + 100))
    first.look(waits(1, NOW + 900), now=NOW + 701)
    assert first.watch.late_job == "1.pbs1"
    second = Process(engine)
    second.look(waits(1, NOW + 900), now=NOW + 760)
    assert second.watch.late_job == "1.pbs1"
    second.look(runs(1, NOW + 800), now=NOW + 820)
    assert second.watch.late_job == ""
    second.look(waits(2, NOW + 830), now=NOW + 821)
    second.look(waits(2, NOW + 830), now=NOW + 1500)
    second.watch.guard_off(NOW + 1600)
    second.store.exchange(engine)
    assert found(
        engine,
        "SELECT guard, extract(epoch FROM since)::int, extract(epoch FROM until)::int "
        "FROM softwalltime.guard_times ORDER BY since",
    ) == [
        (True, NOW + 701, NOW + 820), (False, NOW + 820, NOW + 1500), (True, NOW + 1500, NOW + 1600),
        (False, NOW + 1600, None),
    ]  # fmt: skip


def test_an_array_has_had_its_promised_start_once_its_first_subjob_runs(engine: Engine) -> None:
    process = Process(engine)
    process.look(waits(1, NOW + 100))
    begun = replace(waits(1), state="B", started=NOW + 110, promised=NOW + 5000)
    assert process.look(begun, now=NOW + 150) == [0, 1, 0]
    process.look(begun, now=NOW + 90_000)
    assert (process.watch.late_job, process.watch.counts["kept"]) == ("", 1)


def test_two_servers_in_one_store_keep_their_own(engine: Engine) -> None:
    one, other = Process(engine), Process(engine)
    one.look(waits(1, NOW + 100))
    other.look(waits(1, NOW + 100, "pbs2"))
    assert one.look(runs(1, NOW + 300), now=NOW + 310) == [1, 0, 0]
    assert other.look(runs(1, NOW + 100, "pbs2"), now=NOW + 310) == [0, 1, 0]
    # Which one it is, is known from the first job on, or from the settings.
    one.look(waits(7, NOW + 900), now=NOW + 400)
    assert Process(engine).look(waits(5, server="pbs2")) == [0, 0, 0]
    assert Process(engine, "pbs1").look(now=NOW + 410) == [0, 0, 0]
    later = Process(engine)
    for now in (NOW + 500, NOW + 200_000):
        later.look(waits(5, server="pbs2"), now=now)
    assert found(engine, "SELECT outcome FROM softwalltime.promises WHERE job_id = '7.pbs1'") == [("open",)]


def test_a_job_has_one_open_promise_whatever_a_killed_process_left(engine: Engine) -> None:
    with engine.begin() as connection:
        for at in (NOW, NOW + 50):
            store_promises(connection, "", [Promise("1.pbs1", at, NOW + 100, NOW + 100)])
        # A promise that is closed stays so.
        store_promises(connection, "", [Promise("1.pbs1", NOW, NOW + 100, NOW + 100, Outcome.LATE, NOW + 999)])
    assert found(engine, "SELECT promised_at, outcome FROM softwalltime.promises ORDER BY 1") == [
        (NOW, "withdrawn"), (NOW + 50, "open"),
    ]  # fmt: skip


def test_what_postgresql_refuses_stops_nothing(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    process = Process(engine)
    process.look(waits(1, NOW + 100))
    process.look(waits(1, 2**70))
    assert "promised starts cannot be stored" in caplog.text
    huge = waits(2, NOW + 100)
    process.look(replace(huge, submission=replace(huge.submission, ncpus=2**40)))
    assert found(engine, "SELECT ncpus FROM softwalltime.promises WHERE job_id = '2.pbs1'") == [(None,)]


@pytest.fixture
def emulated(tmp_path: Path) -> EmulatedServer:
    return EmulatedServer(tmp_path)


@pytest.fixture
def threads() -> Iterator[list[LiveThread]]:
    started: list[LiveThread] = []
    yield started
    assert all(thread.stop(60) for thread in started)


def test_the_live_thread_waits_for_the_store_and_says_what_it_found(
    engine: Engine, emulated: EmulatedServer, threads: list[LiveThread]
) -> None:
    with engine.begin() as connection:
        store_promises(connection, "", [Promise("9.pbs1", NOW, NOW + 5, NOW + 5)])
    clock = SimpleNamespace(now=float(NOW + 500))
    predictions = PredictionService(POLICY, clock=lambda: clock.now)
    predictions.ready = True
    store = PromiseStore()
    emulated.add("1.pbs1")
    emulated.add("9.pbs1", job_state="R", stime=str(NOW + 400))
    thread = LiveThread(
        LiveOptions(mode="on", every=5, change_share=0.1),
        lambda: predictions,
        [].append,
        store,
        emulated.connect,
        lambda: clock.now,
    )
    threads.append(thread)
    thread.start()
    assert not emulated.requests()
    store.exchange(engine)
    until(lambda: emulated.soft("1.pbs1") == "18000")
    assert thread.status().promises["late"] == 1
