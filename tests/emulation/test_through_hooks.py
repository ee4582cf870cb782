"""Recorded jobs through the unmodified hook and a real daemon: every soft walltime is that of the fast replay."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from sqlalchemy import Engine, text

from softwalltime.accounting import writer
from softwalltime.accounting.pbs_records import completed_values
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.writer import end_record
from softwalltime.cli import run as command
from softwalltime.core import resources
from softwalltime.core.errors import SourceError
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, job_of
from softwalltime.core.states import TEACHING
from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Site, queued
from softwalltime.emulation.through_hooks.daemon_process import DaemonError
from softwalltime.emulation.through_hooks.emulated_server import EventCounts
from softwalltime.emulation.through_hooks.run import Comparison, EmulationOptions, EmulationResult, compare, run
from softwalltime.emulation.through_hooks.timeline import HOST, Timeline, complete
from softwalltime.measure.replay.fast_replay import ReplayResult, drive, drive_ordering, drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.registry import make
from tests.emulation import faults
from tests.emulation.bad_answers import ANSWERS, BadAnswers
from tests.emulation.faults import (
    FAULTS_PER_KIND,
    KINDS,
    DisturbedResult,
    Postgres,
    compare_disturbed,
    plan,
    run_with_faults,
)
from tests.samples import RECORDED_LOG, ROOT, job, trace
from tests.spy import assert_nothing_was_known_early, file_spy_environment, read_entries

NOW = 1_800_000_000


@contextmanager
def given(dsn: str) -> Iterator[str]:
    """A PostgreSQL that is there anyway."""
    yield dsn


def setting(dsn: str, **more: object) -> EmulationOptions:
    """Options of most tests."""
    return EmulationOptions(lambda _: given(dsn), TEACHING, **more)


def part(name: str, first: int, last: int) -> Workload:
    """Some jobs of a recorded trace; made-up ones where it is not there."""
    try:
        jobs = list(read_jobs([trace(name)], Tally()))
    except pytest.skip.Exception:
        jobs = generate(last, seed=4, users=20)
    return Workload(jobs[first:last])


def passed(workload: Workload, spec: str, chosen: EmulationOptions) -> EmulationResult:
    """Through the hooks, on a server that has postqueuejob."""
    return run(Timeline(workload, now=int(time.time())), spec, chosen)


@pytest.mark.parametrize(
    ("name", "first", "last", "spec"),
    [
        ("KTH-SP2-1996", 0, 1000, "v1"),
        ("KTH-SP2-1996", 9000, 10000, "v4"),
        ("KTH-SP2-1996", 0, 1000, "percentile"),
        ("SDSC-SP2-1998", 0, 1000, "v2"),
        ("SDSC-SP2-1998", 0, 1000, "v3"),
        ("SDSC-SP2-1998", 0, 1000, "percentile"),
    ],
)
def test_every_soft_walltime_is_identical_in_fast_replay_hook_and_daemon_and_sql(
    name: str, first: int, last: int, spec: str, database: str, engine: Engine
) -> None:
    workload = part(name, first, last)
    fast = drive(workload, make(spec))
    lives = Timeline(workload, now=int(time.time()))
    report = run(lives, spec, setting(database))
    comparison = compare(workload, report, fast)
    assert (comparison.differing, comparison.shown, comparison.sound) == (0, (), True)
    assert (report.counts.unanswered, report.counts.timeouts) == (0, 0)
    assert report.replayed.soft_walltimes.tolist() == fast.soft_walltimes.tolist()
    assert (fast.soft_walltimes > 0).sum() > 50, "too little was predicted to prove anything"
    # And by SQL, from what the daemon stored.
    statement = text(
        """
        select job_id, softwalltime.soft_walltime(
            softwalltime.predict(:spec, user_name, project, walltime, ctime), walltime, 60, min_walltime is not null
        )
        from softwalltime.completed_jobs
        """
    )
    with engine.connect() as connection:
        in_sql = dict(connection.execute(statement, {"spec": spec}).all())
    assert in_sql == {
        each.submission.job_id: None if value < 0 else value
        for each, value in zip(lives.jobs, fast.soft_walltimes.tolist(), strict=True)
    }


def test_a_predictor_that_observes_the_queue_answers_as_in_the_fast_replay(database: str) -> None:
    # PBS sets the group after the hook has asked, and a queue and a selection, which traces lack.
    lacking = {"group": "staff", "queue": "", "select": "", "place": "", "project": "", "job_name": ""}
    jobs = [replace(each, submission=replace(each.submission, **lacking)) for each in generate(50, seed=4, users=3)]
    workload, spec = Workload(list(map(complete, jobs))), "calibrated:statistic=median"
    fast = drive(workload, make(spec))
    comparison = compare(workload, passed(workload, spec, setting(database)), fast)
    assert (comparison.differing, comparison.shown, comparison.sound) == (0, (), True)
    assert (fast.soft_walltimes > 0).sum() > 20, "too little was predicted to prove anything"


def test_a_hook_that_asks_the_sql_functions_gets_the_same_and_leaves_the_environment_as_it_was(database: str) -> None:
    before = dict(os.environ)
    workload = part("KTH-SP2-1996", 0, 300)
    report = passed(workload, "usage", setting(database, transport="postgres"))
    fast = drive(workload, make("v3"))
    assert compare(workload, report, fast).sound
    assert report.counts.unanswered == 0
    assert (fast.soft_walltimes > 0).sum() > 20
    assert dict(os.environ) == before


@pytest.mark.parametrize("transport", ["daemon", "postgres"])
@pytest.mark.parametrize("running", ["v3", "v1", "keep"])
def test_the_prediction_at_start_is_that_of_the_fast_replay_too(database: str, transport: str, running: str) -> None:
    if transport == "postgres" and running == "keep":
        pytest.skip("the SQL functions know no policy")
    workload = part("SDSC-SP2-1998", 0, 300)
    fast = drive_specs(workload, ["v1"], running)["v1"]
    report = passed(workload, "v1", setting(database, transport=transport, running=running))
    assert compare(workload, report, fast) == Comparison(0, (), True)
    assert (fast.at_start >= 0).sum() > 20
    assert ((fast.at_start != fast.soft_walltimes) & (workload.started >= 0)).any() == (running != "keep")
    report.replayed.at_start[0] += 1
    assert compare(workload, report, fast).differing == 1


@pytest.mark.parametrize("postqueuejob", [True, False])
def test_every_ordering_value_is_that_of_the_fast_replay(database: str, postqueuejob: bool) -> None:
    workload = part("SDSC-SP2-1998", 0, 300)
    fast = drive_specs(workload, ["factor:0.5"])["factor:0.5"]
    ordering = drive_ordering(workload, "v1")
    lives = Timeline(workload, now=int(time.time()))
    lives.site = replace(lives.site, postqueuejob=postqueuejob)
    report = run(lives, "factor:0.5", setting(database, ordering="v1"))
    assert compare(workload, report, fast, ordering=ordering) == Comparison(0, (), True)
    walltimes = workload.walltime
    assert ((ordering == walltimes) & (walltimes > 0)).sum() > 20, "cold starts"
    assert ((ordering > 0) & (ordering < walltimes)).sum() > 20
    report.ordering[0] += 1
    assert compare(workload, report, fast, ordering=ordering).differing == 1


def test_a_fault_leaves_new_jobs_without_ordering_values(database: str) -> None:
    workload = part("SDSC-SP2-1998", 0, 600)
    fast = drive_specs(workload, ["factor:0.5"])["factor:0.5"]
    ordering = drive_ordering(workload, "v1")
    timeline = Timeline(workload, now=int(time.time()))
    report = run_with_faults(timeline, "factor:0.5", setting(database, ordering="v1"), ("garbage",))
    comparison, lost = compare_disturbed(workload, report, fast, ordering)
    assert (comparison.sound, comparison.shown) == (True, ())
    missing = report.run.ordering != ordering
    assert 0 < missing.sum() <= lost
    assert (report.run.ordering[missing] == -1).all(), "the formula takes the walltime then"


def test_the_daemon_tells_a_predictor_exactly_what_has_ended_when_the_hook_asks(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in file_spy_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    lives = Timeline(part("SDSC-SP2-1998", 0, 150), now=int(time.time()))
    report = run(lives, "file-spy", setting(database, running="file-spy"))
    assert (report.counts.accepted, report.counts.unanswered) == (report.counts.events, 0)
    entries = read_entries(tmp_path / "spied")
    # Of the daemon's first life only: at its end it has learnt what the log held ahead.
    assert_nothing_was_known_early(entries, Workload(lives.jobs))
    assert sum(entry.did == "predict" for entry in entries) > 250


def test_a_server_without_postqueuejob_gives_the_same(database: str) -> None:
    workload = part("SDSC-SP2-1998", 0, 400)
    timeline = Timeline(workload, now=int(time.time()))
    timeline.site = replace(timeline.site, postqueuejob=False)
    report = run(timeline, "v1", setting(database))
    assert compare(workload, report, drive(workload, make("v1"))).sound
    assert report.counts.events == len(timeline.events), "one for each submission, one for each start"


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_fails_every_job_is_accepted_and_what_follows_is_as_if_it_had_not(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "FAULTS_PER_KIND", 1)
    workload = Workload(generate(800, seed=seed, users=10))
    chosen = EmulationOptions(Postgres(), TEACHING)
    report = run_with_faults(Timeline(workload, now=int(time.time())), "v1", chosen, KINDS, seed)
    comparison, lost = compare_disturbed(workload, report, drive(workload, make("v1")))
    assert (comparison.shown, comparison.sound) == ((), True)
    assert report.faults == len(KINDS)
    assert 0 < lost < len(workload.jobs) / 2
    assert report.run.counts.unanswered >= lost


def test_a_difference_is_seen(database: str) -> None:
    workload = Workload(generate(200, seed=6, users=5))
    report = passed(workload, "v1", setting(database))
    fast = drive(workload, make("v1"))
    assert compare(workload, report, fast).sound
    other = compare(workload, report, drive(workload, make("v3")))
    assert other.differing > 10
    assert not other.sound
    assert "in the fast replay" in other.shown[0]
    for wrong in ({"invalid": 1}, {"accepted": report.counts.events - 1}):
        changed = replace(report, counts=replace(report.counts, **wrong))
        assert not compare(workload, changed, fast).sound


def test_a_fault_excuses_a_job_that_got_none_and_nothing_else() -> None:
    workload = Workload([job(job_id=f"{number}.srv", submitted=number) for number in range(4)])
    none = np.array([-1, -1, -1, -1])
    disturbed = np.array([True, False, True, True])
    expected = ReplayResult(np.array([100, 100, 100, -1]), none, 1.0)
    found = ReplayResult(np.array([-1, -1, 200, 100]), none, 1.0)
    ordering = np.array([1000, 1000, 300, -1])
    report = DisturbedResult(EmulationResult(found, EventCounts(12, 12), ordering), disturbed, ~disturbed, 1)
    comparison, lost = compare_disturbed(workload, report, expected)
    assert (lost, comparison.differing) == (1, 3)
    assert comparison.shown[0] == "job 1.srv: none through the hooks, 100 s in the fast replay"
    # A job that the daemon did not answer about has no ordering value; another value is no fault's.
    ordered, lost = compare_disturbed(workload, report, expected, np.array([200, 200, 200, 200]))
    assert (lost, ordered.differing) == (2, 6)


def test_the_recorded_log_goes_through_with_its_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["replay", str(RECORDED_LOG), "--through-hooks", "--predictors", "v1", "--format", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)["through_hooks"]["v1"]
    workload = Workload(list(read_jobs([RECORDED_LOG], Tally())))
    timeline = Timeline(workload, now=NOW)
    assert figures["events"] == len(timeline.events) + len(timeline.submissions)
    assert (figures["accepted"], figures["invalid"], figures["differing"]) == (figures["events"], 0, 0)


def test_a_daemon_that_cannot_read_the_log_ends_the_replay(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(writer._MESSAGES, "E", lambda _: "user=alice")
    with pytest.raises(DaemonError, match="read 20 records as malformed"):
        passed(Workload(generate(20, seed=1)), "v1", setting(database))


def test_a_daemon_that_does_not_start_ends_the_replay(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="cannot connect to PostgreSQL"):
        passed(Workload(generate(20, seed=1)), "v1", setting(f"host={tmp_path} dbname=none"))


# ---- The timeline -------------------------------------------------------------------------------------------------


def timeline(jobs: list[CompletedJob]) -> Timeline:
    return Timeline(Workload(jobs), now=NOW)


def test_jobs_are_learnt_in_the_order_of_the_fast_replay_and_all_lies_in_the_future() -> None:
    jobs = [
        job(f"user{n % 3}", job_id=f"{n}.srv", submitted=n // 4 * 50, end=n // 4 * 50 + 50 * (n % 4), runtime=n % 5)
        for n in range(200)
    ]
    found = timeline(jobs)
    assert min(each.time for each in found.events) > NOW
    assert all(one.time <= other.time for one, other in pairwise(found.events))
    learnt = [int(each.submission.job_id.partition(".")[0]) for each in found.ends if each.state in TEACHING]
    assert learnt == [number for number in found.workload.ends().tolist() if found.workload.teaches[number]]
    assert len(found.ends) == len(jobs)
    for each in found.ends:
        assert each.end > each.submission.submitted


def test_the_accounting_log_tells_all_of_a_job() -> None:
    for each in timeline(generate(200, seed=2)).ends:
        assert job_of(completed_values(each.submission.job_id, end_record(each))) == each


def test_an_array_is_submitted_once_and_each_of_its_subjobs_starts() -> None:
    jobs = [job(job_id=f"7[{index}].srv", submitted=100, end=200 + index) for index in (1, 2, 5)]
    found = timeline([job(job_id="6.srv", submitted=90), *jobs, job(job_id="8.srv", submitted=300)])
    assert [each.job_id for each in found.submissions] == [f"0.{HOST}", f"1[].{HOST}", f"2.{HOST}"]
    assert found.indices == {1: "1,2,5"}
    assert found.of_job == [0, 1, 1, 1, 2]
    assert [each.job_id for each in (each.submission for each in found.jobs)][1:4] == [
        f"1[{index}].{HOST}" for index in (1, 2, 5)
    ]
    assert sum(each.kind is Kind.STARTED for each in found.events) == 5


def test_a_job_without_user_or_project_has_what_pbs_would_give_it() -> None:
    (submission,) = timeline([job("", project="")]).submissions
    assert (submission.user, submission.project) == ("user-1", "_pbs_project_default")


def test_a_workload_that_would_last_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(SourceError, match="too far apart"):
        timeline([job(submitted=1), job(submitted=999_999_999_999)])


# ---- Faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [0, 1, 10, 5000, 123_456])
def test_a_plan_covers_everything_once_and_comes_again(events: int) -> None:
    intervals = plan(KINDS, events, Random(3))
    covered = [number for each in intervals for number in range(each.begin, each.end)]
    assert covered == list(range(events))
    assert intervals == plan(KINDS, events, Random(3))
    if events > 1000:
        kinds = [each.kind for each in intervals if each.kind]
        assert sorted(kinds) == sorted(KINDS * FAULTS_PER_KIND)
        assert intervals != plan(KINDS, events, Random(4))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: repr(answer[:50]))
def test_the_hook_ignores_invalid_answers(answer: bytes, tmp_path: Path) -> None:
    class Always(Random):
        def choice(self, _: object) -> bytes:
            return answer

    answers = BadAnswers(tmp_path / "sock", Always(1))
    answers.start()
    try:
        configuration = tmp_path / "hook.json"
        configuration.write_text(json.dumps({"socket": str(tmp_path / "sock"), "deadline_ms": 200}))
        submission = timeline([job()]).submissions[0]
        outcome = HookScript(resources.hook()).run(queued(submission, site=Site()), configuration)
    finally:
        answers.stop()
        os.environ.pop("SOFTWALLTIME_HOOK_TIMEOUTS", None)
    assert (outcome.accepted, outcome.soft_walltime) == (True, None)
    assert "no answer" in outcome.log[0][1]


# ---- The command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--transport", "postgres"], "need --through-hooks"),
        (["--through-hooks", "--min-soft-walltime", "10"], "--min-soft-walltime 10: the hook sets none below 60 s"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay", "/nowhere", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_hook_is_found_in_the_checkout() -> None:
    assert resources.hook() == ROOT / "hooks" / "softwalltime_hook.py"
