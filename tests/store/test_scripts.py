"""Scripts are joined to jobs, whichever of the two is stored first."""

from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.jobs import CurrentJob, DecisionRecord, Submission
from softwalltime.store.completed_jobs import add_scripts, read_jobs
from softwalltime.store.current import read_current, set_current
from softwalltime.store.learning_jobs import LastJob, read_history, read_new
from softwalltime.store.predictions import add_decisions
from softwalltime.store.retention import RetentionRun
from tests.samples import job
from tests.store.stored import add_jobs

pytestmark = pytest.mark.postgres

DAY = 86400
NOW = 1_790_000_000
SCRIPT = "00ff" * 4


def submitted(job_id: str = "7.srv", at: int = NOW, script: str = SCRIPT) -> Submission:
    return replace(job(submitted=at, job_id=job_id).submission, script=script)


def rows(engine: Engine) -> list[tuple[object, ...]]:
    query = text("SELECT job_id, script FROM softwalltime.job_scripts ORDER BY job_id")
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


@pytest.mark.parametrize("first", ["job", "script"])
def test_all_readers_of_jobs_join_the_scripts(engine: Engine, first: str) -> None:
    ended = job(submitted=NOW, job_id="7.srv")
    decision = DecisionRecord(NOW, "runjob", submitted(), "on", "v1", 1.0, 60, "set", "")
    for step in ("job", "script") if first == "job" else ("script", "job"):
        with engine.begin() as connection:
            if step == "job":
                add_jobs(
                    connection, [ended, job(submitted=NOW + 1, job_id="7.srv"), job(submitted=NOW, job_id="8.srv")]
                )
            else:
                add_decisions(connection, [decision, replace(decision, submission=submitted(""))])
    with engine.connect() as connection:
        new = [each for _, each in read_new(connection, LastJob())]
        for found in (read_jobs(connection), read_history(connection, 5, None, NOW * 2), new):
            of = {(job.submission.job_id, job.submission.submitted): job.submission.script for job in found}
            assert of == {("7.srv", NOW): SCRIPT, ("7.srv", NOW + 1): "", ("8.srv", NOW): ""}


def test_a_job_that_waits_has_its_script_too(engine: Engine) -> None:
    with engine.begin() as connection:
        set_current(connection, [CurrentJob(submitted(script=""), "srv", None)])
        add_scripts(connection, [submitted()])
    with engine.connect() as connection:
        assert [each.submission.script for each in read_current(connection)] == [SCRIPT]


def test_an_unknown_script_leaves_what_is_stored_and_a_new_one_replaces_it(engine: Engine) -> None:
    with engine.begin() as connection:
        for script in (SCRIPT, "", "aa\0\udce9", ""):
            add_scripts(connection, [submitted(script=script), submitted("8.srv", script=""), submitted("")])
        # Random, as PostgreSQL compresses what repeats.
        add_scripts(connection, [submitted(f"{Random(1).randbytes(3000).hex()}.srv")])
    assert rows(engine) == [("7.srv", r"aa\x00\udce9")]


def test_subjobs_share_that_of_their_array(engine: Engine) -> None:
    with engine.begin() as connection:
        add_jobs(connection, [job(submitted=NOW, job_id=f"5[{number}].srv") for number in (1, 2)])
        add_scripts(connection, [submitted("5[].srv", script="old"), submitted("5[2].srv")])
        found = [each.submission.script for each in read_jobs(connection)]
    assert (len(rows(engine)), found) == (1, [SCRIPT, SCRIPT])


def test_they_are_deleted_with_their_jobs(engine: Engine) -> None:
    old, young, waiting = NOW - 100 * DAY, NOW - DAY, NOW - 100 * DAY + 1
    with engine.begin() as connection:
        add_jobs(connection, [job(submitted=at, job_id=f"{at}.srv") for at in (old, young)])
        set_current(connection, [CurrentJob(submitted("w.srv", waiting), "srv", waiting + 5)])
        add_scripts(connection, [submitted(f"{at}.srv", at) for at in (old, young)])
        add_scripts(connection, [submitted("w.srv", waiting)])
    list(RetentionRun(engine, 30, NOW, force=True))
    assert [row[0] for row in rows(engine)] == [f"{young}.srv", "w.srv"]
