"""Attributes of submissions are joined to jobs, whichever of the two is stored first."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting.tally import Tally
from softwalltime.jobs import CurrentJob, DecisionRecord, Submission
from softwalltime.service.ingest import ingest_logs
from softwalltime.store.attributes import add_attributes
from softwalltime.store.current import read_current, set_current
from softwalltime.store.history import read_history, read_new
from softwalltime.store.jobs import read_jobs
from softwalltime.store.predictions import add_decisions
from softwalltime.store.retention import Retention, prune
from tests.samples import RECORDED_LOG, job
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

DAY = 86400
NOW = 1_790_000_000
KNOWN = {"script": "00ff" * 4, "submit_host": "login1", "depend": "afterok:3.srv"}


def submitted(job_id: str = "7.srv", at: int = NOW, **known: str) -> Submission:
    return replace(job(submitted=at, job_id=job_id).submission, **known)


def said(of: Submission) -> dict[str, str]:
    return {name: getattr(of, name) for name in KNOWN}


def rows(engine: Engine) -> list[tuple[object, ...]]:
    query = text("SELECT job_id, script, submit_host, depend FROM softwalltime.submission_attributes ORDER BY job_id")
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


@pytest.mark.parametrize("first", ["job", "attributes"])
def test_all_readers_of_jobs_join_the_attributes(engine: Engine, first: str) -> None:
    ended = job(submitted=NOW, job_id="7.srv")
    decision = DecisionRecord(NOW, "runjob", submitted(**KNOWN), "on", "v1", 1.0, 60, "set", "")
    for step in ("job", "attributes") if first == "job" else ("attributes", "job"):
        with engine.begin() as connection:
            if step == "job":
                add_jobs(
                    connection, [ended, job(submitted=NOW + 1, job_id="7.srv"), job(submitted=NOW, job_id="8.srv")]
                )
            else:
                add_decisions(connection, [decision, replace(decision, submission=submitted("", **KNOWN))])
    expected = {("7.srv", NOW): KNOWN}
    nothing = dict.fromkeys(KNOWN, "")
    with engine.connect() as connection:
        new = [each for _, each in read_new(connection, 0)]
        for found in (read_jobs(connection), read_history(connection, 5, None, NOW * 2), new):
            of = {(each.submission.job_id, each.submission.submitted): said(each.submission) for each in found}
            assert of == {("7.srv", NOW + 1): nothing, ("8.srv", NOW): nothing, **expected}


def test_a_job_that_waits_has_them_too(engine: Engine) -> None:
    with engine.begin() as connection:
        set_current(connection, [CurrentJob(submitted(), "srv", None)])
        add_attributes(connection, [submitted(**KNOWN)])
    with engine.connect() as connection:
        assert [said(each.submission) for each in read_current(connection)] == [KNOWN]


def test_what_is_empty_or_unknown_later_leaves_what_is_stored(engine: Engine) -> None:
    with engine.begin() as connection:
        add_attributes(connection, [submitted(depend="afterok:3.srv"), submitted()])
        add_attributes(connection, [submitted(script="aa", submit_host="h\0\udce9"), submitted(submit_host="login1")])
        add_attributes(connection, [submitted(depend="x" * 9000), submitted("8.srv")])
    assert rows(engine) == [("7.srv", "aa", "login1", "x" * 512)]


def test_subjobs_share_those_of_their_array(engine: Engine) -> None:
    with engine.begin() as connection:
        add_jobs(connection, [job(submitted=NOW, job_id=f"5[{number}].srv") for number in (1, 2)])
        add_attributes(connection, [submitted("5[].srv", **KNOWN), submitted("5[2].srv", submit_host="login1")])
        found = [said(each.submission) for each in read_jobs(connection)]
    assert (len(rows(engine)), found) == (1, [KNOWN, KNOWN])


def test_dependencies_come_from_the_log(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    log.write_bytes(
        RECORDED_LOG.read_bytes()
        + b"11/20/2026 23:00:00;Q;98.pbs1;user=bob ctime=soon depend=afterok:1.pbs1\n"
        + b"11/20/2026 23:00:00;Q;99.pbs1;queue=short depend=afterok:1.pbs1\n"
    )
    ingest_logs(engine, [log], Tally())
    assert rows(engine) == [("19.pbs1", "", "", "afterok:17.pbs1@pbs1")]
    with engine.connect() as connection:
        of = {each.submission.job_id: each.submission.depend for each in read_jobs(connection)}
    assert {job_id for job_id, depend in of.items() if depend} == {"19.pbs1"}


def test_a_job_id_that_no_index_holds_does_not_stop_ingest(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "20261120"
    # Random, as PostgreSQL compresses what repeats.
    long = Random(1).randbytes(3000).hex().encode()
    record = b"11/20/2026 23:00:00;Q;%b.pbs1;user=bob ctime=1795170000 depend=afterok:1.pbs1\n"
    log.write_bytes(record % long + record % b"98")
    ingest_logs(engine, [log], Tally())
    assert [row[0] for row in rows(engine)] == ["98.pbs1"]


def test_those_of_an_array_are_deleted_with_its_last_subjob(engine: Engine) -> None:
    with engine.begin() as connection:
        subjobs = [job(submitted=NOW, job_id=f"5[{number}].srv", end=NOW + 100 + number) for number in (1, 2)]
        later = [job(submitted=NOW, job_id=f"{number}.srv", end=NOW + 200 + number) for number in (6, 55)]
        add_jobs(connection, [*subjobs, *later])
        add_attributes(connection, [submitted(each, **KNOWN) for each in ("5[].srv", "6.srv", "55.srv")])
    left = []
    for kept in (3, 2, 1):
        deleted = dict(prune(engine, Retention(days=0, jobs_per_user=kept), NOW, force=True))
        assert deleted["completed_jobs"] == 1
        left.append([row[0] for row in rows(engine)])
    assert left == [["55.srv", "5[].srv", "6.srv"], ["55.srv", "6.srv"], ["55.srv"]]


def test_they_are_deleted_with_their_jobs(engine: Engine) -> None:
    old, young, waiting = NOW - 100 * DAY, NOW - DAY, NOW - 100 * DAY + 1
    with engine.begin() as connection:
        add_jobs(connection, [job(submitted=at, job_id=f"{at}.srv") for at in (old, young, young + 1)])
        set_current(connection, [CurrentJob(submitted("w.srv", waiting), "srv", waiting + 5)])
        add_attributes(connection, [submitted(f"{at}.srv", at, **KNOWN) for at in (old, young, young + 1)])
        add_attributes(connection, [submitted("w.srv", waiting, **KNOWN)])
    list(prune(engine, Retention(days=30, jobs_per_user=0), NOW, force=True))
    assert [row[0] for row in rows(engine)] == [f"{young}.srv", f"{young + 1}.srv", "w.srv"]
    deleted = dict(prune(engine, Retention(days=0, jobs_per_user=1), NOW, force=True))
    assert deleted["completed_jobs"] == 1
    assert f"{young}.srv" not in [row[0] for row in rows(engine)]
