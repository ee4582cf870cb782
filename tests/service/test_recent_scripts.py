"""The script that the hook names reaches the store, and the job that is learnt."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from softwalltime.core.events import Deleted, Submitted
from softwalltime.core.jobs import CompletedJob, CurrentJob, DecisionRecord
from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Event, Site, started
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.new_submissions import RECORD_TIMEOUT_S, NewSubmissions, RecentScripts
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.protocol import script_digest
from softwalltime.store.completed_jobs import read_jobs
from softwalltime.store.current import read_current, set_current
from tests.samples import ROOT, job
from tests.service.running import Daemon, until
from tests.service.test_hook_and_daemon import configured

pytestmark = pytest.mark.postgres

HOOK = HookScript(ROOT / "hooks" / "softwalltime_hook.py")
NOW = 1_700_001_000
DIGEST = script_digest("alice", "/home/alice/secret.sh")


@pytest.fixture
def daemon(tmp_path: Path, database: str) -> Iterator[Daemon]:
    running = Daemon(tmp_path, database).start()
    yield running
    running.end()


def start_of(ended: CompletedJob) -> Event:
    event = started(ended.submission, site=Site(), now=NOW + 5)
    arguments = "<jsdl-hpcpa:Argument>secret.sh</jsdl-hpcpa:Argument>"
    more = {"Submit_arguments": arguments, "Submit_Host": "login1", "Variable_List": "PBS_O_WORKDIR=/home/alice"}
    return replace(event, job={**event.job, **more})


def test_the_completed_job_has_what_the_hook_said_at_its_start_and_the_store_no_path(
    daemon: Daemon, engine: Engine
) -> None:
    ended = job(job_id="7.srv", submitted=NOW, runtime=60)
    assert HOOK.run(start_of(ended), configured(daemon)).accepted
    daemon.append([ended])

    def found() -> list[str]:
        with engine.connect() as connection:
            return [each.submission.script for each in read_jobs(connection) if each.submission.script]

    until(found)
    assert found() == [DIGEST]
    with engine.connect() as connection:
        tables = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'softwalltime'")).scalars()
        for table in tables.all():
            content = connection.execute(text(f"SELECT t::text FROM softwalltime.{table} AS t")).scalars().all()
            assert not [row for row in content if "secret" in row], table
    assert "secret" not in daemon.output.read_text()


def test_a_job_that_ends_before_its_requests_are_stored_is_learnt_with_its_script() -> None:
    recent = RecentScripts()
    recent.note(job(job_id="5[1].srv", submitted=NOW, script=DIGEST).submission)
    recent.note(job(job_id="", submitted=NOW, script="of no job").submission)
    ended = job(job_id="5[2].srv", submitted=NOW)
    assert recent.complete(ended).submission == replace(ended.submission, script=DIGEST)
    other = job(job_id="5[2].srv", submitted=NOW + 1)
    assert recent.complete(other) is other


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softwalltime.service.new_submissions.MAX_SUBMISSIONS", 2)
    recent = RecentScripts()
    jobs = [job(job_id=f"{number}.srv", submitted=NOW) for number in range(3)]
    for each in jobs:
        recent.note(replace(each.submission, script="aa"))
    assert [recent.complete(each).submission.script for each in jobs] == ["", "aa", "aa"]


def queued_decision(at: int, job_name: str, **known: str) -> DecisionRecord:
    of = replace(job(job_id="", submitted=at, job_name=job_name).submission, **known)
    return DecisionRecord(at, "queuejob", of, "on", "v1", 1.0, 60, "set", "")


def waiting(job_id: str, at: int, job_name: str) -> CurrentJob:
    return CurrentJob(job(job_id=job_id, submitted=at, job_name=job_name).submission, "srv", None)


def test_submissions_get_their_ids_from_the_jobs_that_wait(engine: Engine) -> None:
    clock = [0.0]
    new = NewSubmissions(lambda: clock[0])
    asked = [(0, "a", "s0"), (0, "a", "s1"), (1, "a", "s2"), (0, "array", "s3"), (0, "late", "s4"), (0, "a", "")]
    new.note([queued_decision(NOW + at, name, script=script) for at, name, script in asked])
    assert new.resolve(engine) == 0
    jobs = [
        waiting("9.srv", NOW, "a"), waiting("10.srv", NOW, "a"), waiting("11.srv", NOW + 1, "a"),
        waiting("12.srv", NOW, "other"), waiting("13.srv", NOW - 2, "a"), waiting("7[].srv", NOW, "array"),
        waiting("7[1].srv", NOW, "array"),
    ]  # fmt: skip
    with engine.begin() as connection:
        set_current(connection, jobs)
    assert new.resolve(engine) == 4
    with engine.connect() as connection:
        scripts = {each.submission.job_id: each.submission.script for each in read_current(connection)}
    assert {job_id: script for job_id, script in scripts.items() if script} == {
        "9.srv": "s0", "10.srv": "s1", "11.srv": "s2", "7[].srv": "s3", "7[1].srv": "s3",
    }  # fmt: skip
    clock[0] = RECORD_TIMEOUT_S + 1
    assert new.resolve(engine) == 0
    with engine.begin() as connection:
        set_current(connection, [waiting("14.srv", NOW, "late")])
    assert new.resolve(engine) == 0, "its Q record came too late"


def test_later_questions_about_a_job_that_waits_know_its_script() -> None:
    service = PredictionService(SitePolicy(mode="on", waiting="calibrated"), clock=lambda: NOW)
    service.learn(job(job_id=f"{n}.srv", end=NOW - n, walltime=3600, script=DIGEST) for n in range(1, 5))
    service.ready = True
    asked = job(job_id="9.srv", submitted=NOW, walltime=3600).submission

    def basis() -> str:
        return service.revise(asked, None, None, NOW).basis

    assert "same script" not in basis()
    service.observe([Submitted(NOW, replace(asked, script=DIGEST))])
    assert "4 with the same script" in basis()
    service.observe([Deleted(NOW, asked)])
    assert "same script" not in basis()
