"""Jobs that wait or run: what is known stays as the newest record has it, and what completed stays away."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from softwalltime.jobs import UNSET, Alter, CurrentJob
from softwalltime.store.current import (
    alter_current,
    forget_completed,
    forget_current,
    read_current,
    requeue_current,
    set_current,
)
from softwalltime.store.history import last_id
from softwalltime.store.jobs import add_jobs
from tests.samples import job

pytestmark = pytest.mark.postgres


def current(
    job_id: str = "1.srv", start: int | None = None, *, ctime: int = 100, server: str = "srv", soft: int | None = None
) -> CurrentJob:
    of = job(job_id=job_id, submitted=ctime, walltime=1000, queue="q", job_name="j", ncpus=4, nodect=2).submission
    return CurrentJob(of, server, start, 110, 120, soft)


def known(connection: Connection) -> dict[str, int | None]:
    return {found.submission.job_id: found.start for found in read_current(connection)}


def test_jobs_come_back_as_they_were_set_by_the_time_of_their_submission(connection: Connection) -> None:
    jobs = [current("2.srv", 150, soft=60), current("1.srv"), current("3[].srv", ctime=50)]
    set_current(connection, jobs)
    assert list(read_current(connection)) == [jobs[2], jobs[1], jobs[0]]


def test_no_jobs_are_no_work(connection: Connection) -> None:
    set_current(connection, [])
    forget_current(connection, [])
    requeue_current(connection, [])
    alter_current(connection, [])
    assert not connection.in_transaction()


def test_what_comes_later_counts_also_within_one_call(connection: Connection) -> None:
    set_current(connection, [current(), current(start=200)])
    assert known(connection) == {"1.srv": 200}
    set_current(connection, [current()])
    assert known(connection) == {"1.srv": None}


def test_servers_have_jobs_of_their_own(connection: Connection) -> None:
    set_current(connection, [current(server=server) for server in ("a", "b")])
    requeue_current(connection, [("1.srv", "a")])
    forget_current(connection, [("1.srv", "a"), ("1.srv", "c"), ("9.srv", "b")])
    assert [found.server for found in read_current(connection)] == ["b"]


def test_a_text_that_postgresql_cannot_hold_is_found_again(connection: Connection) -> None:
    set_current(connection, [current("1\0.srv")])
    alter_current(connection, [Alter("1\0.srv", "srv", 5, None)])
    assert [found.submission.walltime for found in read_current(connection)] == [5]
    forget_current(connection, [("1\0.srv", "srv")])
    assert known(connection) == {}


@pytest.mark.parametrize(
    ("walltime", "soft_walltime", "expected"),
    [
        (None, None, (1000, 60)), (5, None, (5, 60)), (None, 7, (1000, 7)), (UNSET, None, (None, 60)),
        (None, UNSET, (1000, None)), (0, 0, (0, 0)),
    ],
)  # fmt: skip
def test_an_alter_sets_what_it_names_and_takes_away_what_it_unsets(
    connection: Connection, walltime: int | None, soft_walltime: int | None, expected: tuple[int | None, int | None]
) -> None:
    set_current(connection, [current(soft=60)])
    alter_current(connection, [Alter("1.srv", "srv", walltime, soft_walltime), Alter("2.srv", "srv", 1, 1)])
    (found,) = read_current(connection)
    assert (found.submission.walltime, found.soft_walltime) == expected


def test_jobs_that_completed_go_when_they_are_stored_and_do_not_come_back(connection: Connection) -> None:
    set_current(connection, [current("1.srv", 150), current("2.srv", 150), current("3.srv", 150)])
    newest = last_id(connection)
    add_jobs(connection, [job(job_id="1.srv", submitted=100), job(job_id="2.srv", submitted=90)])
    forget_completed(connection, newest)
    # The one that ended was submitted before this one: only the number is the same.
    assert known(connection) == {"2.srv": 150, "3.srv": 150}
    set_current(connection, [current("1.srv"), current("2.srv")])
    assert known(connection) == {"2.srv": None, "3.srv": 150}
    set_current(connection, [current("1.srv", ctime=101), current("1.srv", server="other")])
    assert len(list(read_current(connection))) == 4


def test_only_jobs_that_completed_since_are_looked_at(connection: Connection) -> None:
    add_jobs(connection, [job(job_id="1.srv", submitted=100)])
    set_current(connection, [current("1.srv", ctime=200)])
    add_jobs(connection, [job(job_id="1.srv", submitted=300, start=300)])
    forget_completed(connection, last_id(connection))
    assert known(connection) == {"1.srv": None}
    forget_completed(connection, last_id(connection) - 1)
    assert known(connection) == {}


def test_what_comes_late_changes_nothing_that_is_known_and_adds_only_what_runs(connection: Connection) -> None:
    set_current(connection, [current("1.srv")])
    add_jobs(connection, [job(job_id="5.srv", submitted=100)])
    late = [
        current("1.srv", 150),
        current("2.srv", 150),
        current("3.srv"),
        current("4[].srv", 150),
        current("5.srv", 9),
    ]
    set_current(connection, late, late=True)
    assert known(connection) == {"1.srv": None, "2.srv": 150}


def test_what_comes_late_takes_away_only_what_was_submitted_by_then(connection: Connection) -> None:
    set_current(connection, [current("1.srv"), replace(current("2.srv", ctime=500))])
    forget_current(connection, [("1.srv", "srv"), ("2.srv", "srv")], before=500)
    assert known(connection) == {"2.srv": None}
