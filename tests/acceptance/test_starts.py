"""The state of a real server as a snapshot, and start times against what pbs_sched promises itself."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from softwalltime.measure.forecast.queue_model import model_of
from softwalltime.measure.forecast.snapshot import ServerSnapshot, load_snapshot
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.snapshot_source import SnapshotSource
from tests.acceptance.lab import Lab, until
from tests.samples import ROOT

LONG = ("/bin/sleep", "600")
DEPTH = 6
"""So many jobs get an estimated start from pbs_sched."""


@pytest.fixture
def depth(lab: Lab, strict: None) -> Iterator[int]:
    """Top jobs of the server."""
    before = lab.run("qmgr", "-c", "list server backfill_depth").output
    lab.qmgr(f"set server backfill_depth = {DEPTH}")
    yield DEPTH
    restored = before.rpartition("=")[2].strip()
    lab.qmgr(f"set server backfill_depth = {restored}" if restored.isdecimal() else "unset server backfill_depth")


def taken(lab: Lab, folder: Path) -> ServerSnapshot:
    """The state of the server as ``softwalltime snapshot`` prints it."""
    done = lab.run(sys.executable, "-m", "softwalltime", "snapshot")
    assert done.ok, done.error
    path = folder / "queue.json"
    path.write_text(done.output)
    return load_snapshot(path)


def test_expected_starts_by_walltimes_are_those_that_pbs_promises(lab: Lab, depth: int, tmp_path: Path) -> None:
    found = taken(lab, tmp_path)
    (processors,) = {node.ncpus for node in found.vnodes}
    half = processors // 2
    shapes = [(half, 1200), (half, 2400), (processors, 1800), (half, 3600), (half + 1, 600), (1, 900), (processors, 60)]
    lab.qmgr("set server scheduling = False")
    for number, (ncpus, walltime) in enumerate(shapes):
        lab.qsub(
            "-q", "workq", "-l", f"select=1:ncpus={ncpus}", "-l", f"walltime={walltime}", "-N", f"00{number}",
            "-v", 'PROMPT=say "hello" \\ there', "-A", 'chem "grant"', command=LONG,
        )  # fmt: skip
    held = lab.qsub("-q", "workq", "-h")
    lab.qmgr("set server scheduling = True")

    def promises() -> ServerSnapshot | None:
        seen = taken(lab, tmp_path)
        return seen if sum(job.estimated_start is not None for job in seen.jobs) >= 4 else None

    estimated = until(promises, 60, "estimated starts")
    assert not estimated.remarks
    assert sum(job.occupies for job in estimated.jobs) == 2
    assert {job.submission.account for job in estimated.jobs if job.occupies} == {'chem "grant"'}
    config = tmp_path / "softwalltime.toml"
    config.write_text("")
    arguments = ("starts", "--runs", "0", "--format", "json", "--config", str(config))
    done = lab.run(sys.executable, "-m", "softwalltime", *arguments)
    assert done.ok, done.error
    rows = {row["job"]: row for row in json.loads(done.output)["jobs"]}
    assert rows[held]["waits_for"].startswith("it is held")
    promised = {name: row for name, row in rows.items() if row["pbs_estimate"] is not None}
    assert len(promised) >= 4
    for name, row in promised.items():
        assert row["expected"] == pytest.approx(row["pbs_estimate"], abs=5), name


def test_expected_starts_on_vnodes_are_those_that_pbs_promises(lab: Lab, depth: int, tmp_path: Path) -> None:
    with lab.vnodes(4, [""] * 3, "default_shared"):
        for walltime in (600, 900, 1200):
            lab.wait(lab.qsub("-q", "workq", "-l", f"select=1:ncpus=3,walltime={walltime}", command=LONG), "R")
        lab.qmgr("set server scheduling = False")
        selects = ["1:ncpus=2", "2:ncpus=4", "1:ncpus=1", "1:ncpus=4", "1:ncpus=5", "1:ncpus=2+1:ncpus=1"]
        jobs = [lab.qsub("-q", "workq", "-l", f"select={select},walltime=1000", command=LONG) for select in selects]
        lab.qmgr("set server scheduling = True")
        until(lambda: sum("estimated" in lab.job(job) for job in jobs) == 4, 60, "estimated starts")
        snapshot = taken(lab, tmp_path)
        lab.delete_jobs()
    queue = model_of(snapshot)
    assert queue.remarks == ()
    reasons = {each.job.submission.job_id: each.reason for each in queue.impossible}
    assert reasons == {jobs[4]: "the vnodes that are up are too small for its chunks"}
    starts = queue.model.run(queue.model.jobs.walltime).start.tolist()
    expected = dict(zip(queue.ids, starts, strict=True))
    estimated = {job.submission.job_id: job.estimated_start for job in snapshot.jobs if not job.occupies}
    assert jobs[2] not in estimated, "it has started"
    assert estimated.pop(jobs[4]) is None
    assert {job: expected[job] for job in estimated} == pytest.approx(estimated, abs=5)
    pool = replace(queue.model, vnodes=())
    assert pool.run(queue.model.jobs.walltime).start.tolist() != pytest.approx(starts, abs=60)


def test_expected_starts_around_a_dedicated_time_are_those_that_pbs_promises(
    lab: Lab, depth: int, tmp_path: Path
) -> None:
    start = (int(time.time()) // 60 + 12) * 60
    lab.qmgr("create queue dedicated_q queue_type=execution, enabled=true, started=true")
    try:
        with lab.virtual_processors(4), lab.dedicated_time(start, start + 600):
            lab.wait(lab.qsub("-q", "workq", "-l", "select=1:ncpus=3,walltime=300", command=LONG), "R")
            lab.qmgr("set server scheduling = False")
            shapes = [(4, 200), (4, 900), (3, 1500), (1, 250), (1, 3000)]
            jobs = [lab.qsub("-q", "workq", "-l", f"select=1:ncpus={ncpus},walltime={s}") for ncpus, s in shapes]
            inside = lab.qsub("-q", "dedicated_q", "-l", "walltime=60")
            lab.qmgr("set server scheduling = True")
            until(lambda: sum("estimated" in lab.job(job) for job in jobs) == 4, 60, "estimated starts")
            snapshot = taken(lab, tmp_path)
            lab.delete_jobs()
    finally:
        lab.delete_jobs()
        lab.qmgr("delete queue dedicated_q")
    queue = model_of(snapshot)
    assert queue.remarks == ()
    assert {each.job.submission.job_id: each.reason for each in queue.impossible} == {
        inside: "queue dedicated_q runs jobs in dedicated time only"
    }
    expected = dict(zip(queue.ids, queue.model.run(queue.model.jobs.walltime).start.tolist(), strict=True))
    estimated = {job.submission.job_id: job.estimated_start for job in snapshot.jobs if job.estimated_start}
    assert estimated.keys() >= {jobs[0], jobs[1], jobs[2], jobs[4]}
    assert {job: expected[job] for job in estimated} == pytest.approx(estimated, abs=5)
    assert expected[jobs[0]] < start < start + 600 <= expected[jobs[1]]


def test_a_soft_limit_changes_no_start_that_pbs_promises(lab: Lab, depth: int, tmp_path: Path) -> None:
    lab.qmgr("set server max_run_soft = '[u:PBS_GENERIC=1]'")
    try:
        with lab.virtual_processors(4):
            whole = ("-q", "workq", "-l", "select=1:ncpus=4,walltime=300")
            lab.wait(lab.qsub("-q", "workq", "-l", "select=1:ncpus=3,walltime=600", command=LONG), "R")
            lab.qmgr("set server scheduling = False")
            jobs = [lab.qsub(*whole, user=user) for user in ("alice", "bob", "alice")]
            backfilled = lab.qsub("-q", "workq", "-l", "select=1:ncpus=1,walltime=200", command=LONG)
            lab.qmgr("set server scheduling = True")
            until(lambda: all("estimated" in lab.job(job) for job in jobs), 60, "estimated starts")
            lab.wait(backfilled, "R")
            snapshot = taken(lab, tmp_path)
            lab.delete_jobs()
    finally:
        lab.qmgr("unset server max_run_soft")
    queue = model_of(snapshot)
    assert queue.remarks == ()
    expected = dict(zip(queue.ids, queue.model.run(queue.model.jobs.walltime).start.tolist(), strict=True))
    estimated = {job.submission.job_id: job.estimated_start for job in snapshot.jobs if job.submission.job_id in jobs}
    assert {job: expected[job] for job in jobs} == pytest.approx(estimated, abs=5)
    assert expected[jobs[0]] < expected[jobs[1]] < expected[jobs[2]]


def test_expected_starts_under_fair_share_are_those_that_pbs_promises(lab: Lab, depth: int, tmp_path: Path) -> None:
    groups = {"alice": "10 root 10", "bob": "11 root 10"}
    with lab.fair_share(groups, {"alice": 1_000_000, "bob": 1}), lab.virtual_processors(4):
        whole = ("-q", "workq", "-l", "select=1:ncpus=4", "-l", "walltime=600")
        lab.wait(lab.qsub(*whole, user="carol", command=LONG), "R")
        lab.qmgr("set server scheduling = False")
        jobs = [lab.qsub(*whole, user=user) for user in ("alice", "alice", "bob", "bob")]
        lab.qmgr("set server scheduling = True")
        until(lambda: all(lab.job(job).get("estimated") for job in jobs), 60, "estimated starts")
        snapshot = taken(lab, tmp_path)
        assert snapshot.scheduler.shares is not None
        assert dict(snapshot.scheduler.shares.used)["alice"] >= 1_000_000
        queue = model_of(snapshot)
        expected = queue.model.run(queue.model.jobs.walltime).start
    found = {job.submission.job_id: (job, start) for job, start in zip(queue.live, expected.tolist(), strict=True)}
    assert [found[job][1] for job in jobs] == pytest.approx([found[job][0].estimated_start for job in jobs], abs=5)
    assert max(found[job][1] for job in jobs[2:]) < min(found[job][1] for job in jobs[:2]), "bob has used less"


def test_a_job_that_waits_for_a_resource_that_is_not_modelled_has_no_forecast(lab: Lab, tmp_path: Path) -> None:
    lab.create_resource("test_lic", flag="q")
    lab.qmgr("set server resources_available.test_lic = 1")
    try:
        with lab.sched_config() as replaced:
            replaced(r'resources: "', 'resources: "test_lic, ')
            first, second = (lab.qsub("-q", "workq", "-l", "test_lic=1") for _ in range(2))
            until(lambda: "test_lic" in lab.job(second).get("comment", ""), 60, "comment")
            jobs = {job.submission.job_id: job for job in taken(lab, tmp_path).jobs}
            assert not jobs[first].lacks
            assert jobs[second].lacks.startswith("Insufficient amount of server resource: test_lic (")
    finally:
        lab.delete_jobs()
        lab.qmgr("unset server resources_available.test_lic")


def test_what_an_ordinary_user_sees_is_enough(lab: Lab, tmp_path: Path) -> None:
    lab.qsub("-q", "workq")
    # Others may not read the folder in which this Python is.
    agent = ("env", f"PYTHONPATH={ROOT / 'daemon'}", "/usr/bin/python3", "-m", "softwalltime.service.live.agent")
    with closing(PbsConnection(command=(*lab.runner, "-u", "bob", *agent))) as connection:
        found = SnapshotSource(connection).take(0)
    assert found.remarks == ("sched_config: not read, strict_ordering is assumed",)
    whole = taken(lab, tmp_path)
    # PBS hides the group from other users.
    assert [job.submission for job in found.jobs] == [replace(job.submission, group="") for job in whole.jobs]
    assert (found.vnodes, found.queues) == (whole.vnodes, whole.queues)
