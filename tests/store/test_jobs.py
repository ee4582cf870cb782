"""Jobs are stored unchanged and once, for any writers and any order."""

import os
import random
import re
from collections.abc import Callable
from dataclasses import fields, replace
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from softwalltime.cli import run
from softwalltime.core.errors import StoreError
from softwalltime.core.jobs import CompletedJob, Submission
from softwalltime.store import connections
from softwalltime.store.completed_jobs import read_jobs
from softwalltime.store.connections import connect
from softwalltime.store.encoding import storable_text
from softwalltime.store.migrations import check
from tests.samples import job
from tests.store.stored import add_jobs, count_jobs

pytestmark = pytest.mark.postgres

_texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20) | st.sampled_from(
    ["None", r"\N", r"\.", "\\", "a\tb\nc\rd", "'", '"', "%s", "NULL", "\v\f\b", "True", "\u2028", "\x7f\x01"]
)
_long = st.integers(-(2**63), 2**63 - 1)
_short = st.integers(-(2**31), 2**31 - 1)
_maybe_long = st.none() | _long
_maybe_short = st.none() | _short
_submissions = st.builds(
    Submission,
    _texts, _texts, _long, _maybe_long, _texts, _texts, _texts, _texts, _texts, _maybe_long, _maybe_long, _maybe_short,
    _maybe_short, _maybe_short, _maybe_long, _texts, _texts, st.none() | st.booleans(),
)  # fmt: skip
_jobs = st.builds(
    CompletedJob,
    _submissions, _texts, _maybe_long, _long, _long, _maybe_long, _maybe_long, _maybe_long, _maybe_short, _maybe_short,
    _maybe_long, _maybe_long,
)  # fmt: skip


def _stored(connection: Connection) -> list[CompletedJob]:
    return list(read_jobs(connection))


def _numbered(count: int) -> list[CompletedJob]:
    return [job(job_id=f"{number}.srv", submitted=number, end=1000 + number) for number in range(count)]


@settings(max_examples=150)
@given(jobs=st.lists(_jobs, max_size=8, unique_by=lambda job: (job.server, job.submission.job_id, job.start)))
def test_every_field_of_every_job_is_read_unchanged(module_engine: Engine, jobs: list[CompletedJob]) -> None:
    with module_engine.connect() as connection:
        assert add_jobs(connection, jobs) == len(jobs)
        # The other way into the table: past what is known already.
        assert add_jobs(connection, jobs) == 0
        assert _stored(connection) == sorted(jobs, key=lambda job: job.end)


def test_jobs_that_come_by_staging_are_the_same(connection: Connection) -> None:
    known, *new = [replace(job, soft_walltime=7) for job in _numbered(5)]
    add_jobs(connection, [known])
    assert add_jobs(connection, [known, *new]) == 4
    assert _stored(connection) == [known, *new]


def test_no_jobs_are_no_work(connection: Connection) -> None:
    assert add_jobs(connection, []) == 0


def test_adding_again_stores_nothing(connection: Connection) -> None:
    jobs = _numbered(3000)
    assert add_jobs(connection, jobs) == 3000
    assert add_jobs(connection, jobs) == 0
    assert add_jobs(connection, [*jobs[1500:], job(job_id="new")]) == 1
    assert add_jobs(connection, [job(job_id="newer"), *jobs[:10]]) == 1
    assert count_jobs(connection) == 3002


def test_a_job_that_comes_twice_in_one_batch_is_stored_once_and_the_first_one_stays(connection: Connection) -> None:
    first, again = job(exit_status=0), job(exit_status=271)
    assert add_jobs(connection, [first, job(job_id="2"), again]) == 2
    assert first in _stored(connection)
    assert again not in _stored(connection)


def test_a_job_is_another_if_server_id_index_or_start_differ(connection: Connection) -> None:
    jobs = [
        job(job_id="3[1].srv"),
        job(job_id="3[2].srv"),
        replace(job(job_id="3[1].srv"), server="other"),
        replace(job(job_id="3[1].srv"), start=5),
        replace(job(job_id="3[1].srv"), start=None),
        replace(job(job_id="3[1].srv"), start=0),
    ]
    assert add_jobs(connection, jobs) == len(jobs)
    assert add_jobs(connection, jobs) == 0


def test_learning_order_is_by_end_then_as_the_jobs_became_known(connection: Connection) -> None:
    add_jobs(connection, [job(job_id=name, end=end) for name, end in [("a", 500), ("b", 400), ("c", 500), ("d", 400)]])
    add_jobs(connection, [job(job_id=name, end=end) for name, end in [("e", 400), ("a", 500), ("f", 300)]])
    assert [job.submission.job_id for job in _stored(connection)] == ["f", "b", "d", "e", "a", "c"]


def test_reading_can_stop_half_way(engine: Engine) -> None:
    with engine.begin() as connection:
        add_jobs(connection, _numbered(5000))
    with engine.connect() as connection:
        assert next(read_jobs(connection)).submission.job_id == "0.srv"
        assert count_jobs(connection) == 5000


def test_texts_that_postgresql_cannot_hold_are_written_out(connection: Connection) -> None:
    odd = job(user="caf\udce9", job_name="a\0b", job_id="\ud800\\", account="\udce9\tx")
    assert add_jobs(connection, [odd]) == 1
    assert add_jobs(connection, [odd]) == 0
    (stored,) = _stored(connection)
    assert stored.submission.user == r"caf\udce9" == storable_text("caf\udce9")
    assert stored.submission.job_name == r"a\x00b"
    assert stored.submission.job_id == "\\ud800\\"
    assert stored.submission.account == "\\udce9\tx"


def test_the_longest_names_of_a_record_fit_into_the_indexes(connection: Connection) -> None:
    # Four bytes each, and nothing that PostgreSQL could compress.
    name = "".join(random.Random(1).choices([chr(code) for code in range(0x10000, 0x1FFFF)], k=300))
    good = replace(job(user=name, project=name[::-1], job_id=name), server=name[::-1])
    assert add_jobs(connection, [*_numbered(10), good]) == 11
    assert _stored(connection)[0] == good


def test_other_texts_may_be_of_any_length(connection: Connection) -> None:
    long = job(select="1:ncpus=1+" * 100_000, account="x" * 10_000, job_name=os.urandom(5000).hex())
    add_jobs(connection, [long])
    assert _stored(connection) == [long]


def test_what_is_rolled_back_was_never_stored(engine: Engine) -> None:
    with engine.connect() as connection:
        add_jobs(connection, _numbered(10))
        connection.rollback()
        assert count_jobs(connection) == 0


def test_two_that_add_the_same_jobs_at_once_store_each_once(engine: Engine) -> None:
    jobs = _numbered(4000)
    stored: list[int] = []

    def add(ours: list[CompletedJob]) -> None:
        for first in range(0, len(ours), 500):
            with engine.begin() as connection:
                stored.append(add_jobs(connection, ours[first : first + 500]))

    # In opposite orders, which without taking turns would be a deadlock.
    threads = [Thread(target=add, args=[jobs]), Thread(target=add, args=[jobs[::-1]])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        assert sum(stored) == count_jobs(connection) == 4000


def test_ids_are_given_out_in_the_order_of_commits(engine: Engine) -> None:
    first, second = engine.connect(), engine.connect()
    add_jobs(first, [job(job_id="first")])
    waiting = Thread(target=lambda: (add_jobs(second, [job(job_id="second")]), second.commit()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    first.commit()
    waiting.join()
    with engine.connect() as connection:
        ids = connection.execute(text("SELECT job_id FROM softwalltime.completed_jobs ORDER BY id")).scalars().all()
    assert ids == ["first", "second"]
    first.close()
    second.close()


@pytest.mark.parametrize(
    "use", [lambda connection: add_jobs(connection, _numbered(10)), lambda connection: list(read_jobs(connection))]
)
def test_a_lost_connection_is_a_store_error(engine: Engine, use: Callable[[Connection], object]) -> None:
    with engine.connect() as connection:
        number = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with engine.connect() as killer:
            killer.execute(text("SELECT pg_terminate_backend(:number)"), {"number": number})
        with pytest.raises(StoreError, match="try again when it runs"):
            use(connection)


def test_missing_tables_are_a_store_error_with_the_command_to_run(empty_database: str) -> None:
    engine = connect(empty_database)
    with pytest.raises(StoreError, match="run softwalltime db upgrade"), engine.begin() as connection:
        add_jobs(connection, [job()])
    engine.dispose()


def test_every_field_of_a_job_has_its_column() -> None:
    from softwalltime.store.tables import completed_jobs

    # The id and the state are not fields: one is given by the store, the other follows from the fields.
    # Scripts have a table of their own.
    assert len(completed_jobs.columns) - 2 + 1 == len(fields(Submission)) + len(fields(CompletedJob)) - 1


def test_rebuilt_indexes_are_smaller_and_the_same(
    database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each user's jobs come between those of others.
    with engine.begin() as connection:
        add_jobs(connection, [job(f"u{n % 9}", job_id=f"{n}.s", end=5000 + n, runtime=9) for n in range(3000)])
    # An older transaction: this run fails and leaves a second index, which the next one drops.
    monkeypatch.setattr(connections, "LOCK_TIMEOUT", "100ms")
    with engine.connect() as connection:
        count_jobs(connection)
        assert run(["db", "reindex", "--dsn", database]) == 1
    assert "blocked by process" in capsys.readouterr().err
    assert any("_ccold" in line for line in check(engine))
    assert run(["db", "reindex", "--dsn", database]) == 0
    by_user = re.search(r"completed_jobs_by_user +([\d.]+) MB, now ([\d.]+) MB", capsys.readouterr().out)
    assert by_user is not None
    assert float(by_user[2]) < 0.7 * float(by_user[1])
    assert check(engine) == []
    with engine.connect() as connection:
        assert sum(1 for _ in read_jobs(connection)) == 3000
