"""A statement that takes too long fails on the client, whatever the server does."""

from collections.abc import Iterator
from threading import Thread

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.errors import StoreError
from softwalltime.core.jobs import DecisionRecord
from softwalltime.store.connections import StatementMonitor, connect
from softwalltime.store.predictions import add_decisions
from tests.samples import job
from tests.service.running import until

pytestmark = pytest.mark.postgres
DECISION = DecisionRecord(0, "queuejob", job().submission, "on", "v1", 1.0, 60, "set", "")


@pytest.fixture
def monitor() -> StatementMonitor:
    return StatementMonitor(0.3)


@pytest.fixture
def limited(database: str, monitor: StatementMonitor) -> Iterator[Engine]:
    engine = connect(database, monitor)
    yield engine
    engine.dispose()


def test_a_statement_fails_after_the_timeout_and_the_next_one_works(limited: Engine) -> None:
    with pytest.raises(StoreError, match=r"no answer within 0\.3 s; try again when it runs"), limited.begin() as first:
        first.execute(text("SELECT pg_sleep(60)"))
    with limited.begin() as second:
        assert second.execute(text("SELECT 1")).scalar_one() == 1


def test_a_copy_fails_after_the_timeout_and_the_next_one_works(limited: Engine, engine: Engine) -> None:
    with engine.begin() as other:
        other.execute(text("LOCK softwalltime.predictions IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(StoreError, match="no answer within"), limited.begin() as connection:
            add_decisions(connection, [DECISION])
    with limited.begin() as connection:
        add_decisions(connection, [DECISION])


def test_work_that_takes_long_may_have_another_timeout(limited: Engine, monitor: StatementMonitor) -> None:
    with monitor.patient(60), limited.begin() as connection:
        connection.execute(text("SELECT pg_sleep(1)"))


def test_the_monitor_shows_how_long_a_statement_has_been_waiting(limited: Engine, monitor: StatementMonitor) -> None:
    assert monitor.waiting() == 0
    with monitor.patient(60), limited.connect() as connection:
        connection.execute(text("SELECT pg_sleep(0.3)"))
        assert monitor.waiting() == 0
        assert monitor.waiting(patient=True) == 0
    failed: list[StoreError] = []

    def wait() -> None:
        try:
            with limited.begin() as connection:
                connection.execute(text("SELECT pg_sleep(60)"))
        except StoreError as error:
            failed.append(error)

    thread = Thread(target=wait)
    thread.start()
    until(lambda: monitor.waiting() > 0.1)
    assert monitor.waiting(patient=True) >= monitor.waiting() - 0.1
    thread.join()
    assert failed
    assert monitor.waiting() == 0


def test_a_long_statement_of_patient_work_counts_as_the_longest_wait_only(
    limited: Engine, monitor: StatementMonitor
) -> None:
    def work() -> None:
        with monitor.patient(60), limited.connect() as connection:
            connection.execute(text("SELECT pg_sleep(2)"))

    thread = Thread(target=work)
    thread.start()
    until(lambda: monitor.waiting(patient=True) > 0.5)
    assert monitor.waiting() == 0
    thread.join()
    assert monitor.waiting(patient=True) == 0
