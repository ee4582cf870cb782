"""Jobs that wait or run: what is known stays as the newest record has it, and what completed stays away."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import UNSET, Alter, CompletedJob, CurrentJob, Prediction, Submission
from softwalltime.predict.predictors.keys import KEYS
from softwalltime.predict.predictors.registry import make
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.current import (
    alter_current,
    delete_completed,
    delete_current,
    read_current,
    requeue_current,
    set_current,
)
from softwalltime.store.learning_jobs import last_id
from tests.samples import completed_jobs, job
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres


def current(
    job_id: str = "1.srv", start: int | None = None, *, ctime: int = 100, server: str = "srv", soft: int | None = None
) -> CurrentJob:
    of = job(job_id=job_id, submitted=ctime, walltime=1000, queue="q", job_name="j", ncpus=4, nodect=2).submission
    return CurrentJob(of, server, start, 110, 120, soft)


full = Submission(
    "5.srv", "alice", 100, 3600, group="staff", project="p", account="grant", job_name="j", queue="q", min_walltime=600,
    max_walltime=7200, ncpus=4, nodect=2, ngpus=1, mem=2**34, select="2:ncpus=2:ngpus=1", place="scatter",
    interactive=True,
)  # fmt: skip


def known(connection: Connection) -> dict[str, int | None]:
    return {found.submission.job_id: found.start for found in read_current(connection)}


def test_jobs_come_back_as_they_were_set_by_the_time_of_their_submission(connection: Connection) -> None:
    jobs = [current("2.srv", 150, soft=60), current("1.srv"), current("3[].srv", ctime=50)]
    set_current(connection, jobs)
    assert list(read_current(connection)) == [jobs[2], jobs[1], jobs[0]]


@given(submitted=st.lists(completed_jobs(), min_size=1, max_size=3, unique_by=lambda job: job.submission.job_id))
@settings(max_examples=30)
def test_the_whole_submission_comes_back(module_engine: Engine, submitted: list[CompletedJob]) -> None:
    jobs = [
        CurrentJob(each.submission, each.server, each.start, each.qtime, each.etime, each.soft_walltime)
        for each in submitted
    ]
    with module_engine.connect() as connection:
        set_current(connection, jobs)
        stored = list(read_current(connection))
        connection.rollback()
    assert sorted(stored, key=str) == sorted(jobs, key=str)


@pytest.mark.parametrize("spec", ["last2", "usage", *(f"percentile:keys={key},least=1" for key in KEYS)])
def test_a_current_job_is_predicted_like_its_submission(connection: Connection, spec: str) -> None:
    submission = replace(full, job_id="9.srv")
    predictor = make(spec)
    # One like job, and one that differs in what this predictor looks at.
    others = {
        name: f"other {value}" if isinstance(value, str) else value + 1
        for name, value in asdict(submission).items()
        if name in KEYS
    }
    like = job(job_id="1.srv", end=900, runtime=300)
    for each, runtime in ((submission, 300), (replace(submission, **others), 600)):
        predictor.learn(replace(like, submission=replace(each, job_id="1.srv"), runtime=runtime))
    set_current(connection, [CurrentJob(submission, "srv", None)])
    (current,) = read_current(connection)
    expected = predictor.predict(submission, 1000)
    assert predictor.predict(current.submission, 1000) == expected
    assert isinstance(expected, Prediction)
    assert predictor.predict(replace(submission, **others), 1000) != expected


def test_a_shrink_to_fit_job_is_known_as_one(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    fields = "user=u group=g project=p jobname=j queue=q ctime=100 qtime=100 etime=100"
    limits = {"1.srv": "walltime=01:00:00", "2.srv": "max_walltime=02:00:00 Resource_List.min_walltime=00:10:00"}
    stamp = "11/20/2026 10:00:00"
    log.write_text("".join(f"{stamp};Q;{job_id};{fields} Resource_List.{limit}\n" for job_id, limit in limits.items()))
    ingest_logs(engine, [log], Tally())
    with engine.connect() as connection:
        known = {found.submission.job_id: found.submission for found in read_current(connection)}
    assert {job_id: submission.shrink_to_fit for job_id, submission in known.items()} == {"1.srv": False, "2.srv": True}
    assert (known["2.srv"].min_walltime, known["2.srv"].max_walltime) == (600, 7200)


def test_a_daemon_of_the_version_before_may_still_write(connection: Connection) -> None:
    connection.execute(
        text("INSERT INTO softwalltime.current_jobs (ctime, is_array, server, job_id) VALUES (1, false, 's', '1.s')")
    )
    (found,) = read_current(connection)
    assert found.submission == Submission("1.s", "", 1, None)


def test_no_jobs_are_no_work(connection: Connection) -> None:
    set_current(connection, [])
    delete_current(connection, [])
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
    delete_current(connection, [("1.srv", "a"), ("1.srv", "c"), ("9.srv", "b")])
    assert [found.server for found in read_current(connection)] == ["b"]


def test_a_text_that_postgresql_cannot_hold_is_found_again(connection: Connection) -> None:
    set_current(connection, [current("1\0.srv")])
    alter_current(connection, [Alter("1\0.srv", "srv", 5, None)])
    assert [found.submission.walltime for found in read_current(connection)] == [5]
    delete_current(connection, [("1\0.srv", "srv")])
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
    delete_completed(connection, newest)
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
    delete_completed(connection, last_id(connection))
    assert known(connection) == {"1.srv": None}
    delete_completed(connection, last_id(connection) - 1)
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
    delete_current(connection, [("1.srv", "srv"), ("2.srv", "srv")], before=500)
    assert known(connection) == {"2.srv": None}
