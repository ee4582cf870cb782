"""Live values on a real server: jobs that wait and run are altered, and the scheduler plans by it."""

import sysconfig
import time
from collections.abc import Callable, Iterator

import pytest

from softwalltime.core.jobs import DecisionRecord
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.live.connection import PbsConnection
from softwalltime.service.live.ifl import NO_JOB, NO_PERMISSION, IflError
from softwalltime.service.live.live_options import LiveOptions
from softwalltime.service.live.watch import server_jobs
from softwalltime.service.live_values import LiveValues
from softwalltime.service.prediction_service import PredictionService
from softwalltime.service.promise_watch import PromiseWatch
from softwalltime.service.status import LiveStatus
from tests.acceptance.lab import PROCESSORS, WHOLE, Lab, until
from tests.live.remembered import remembering
from tests.samples import ROOT
from tests.samples import job as completed


def connected(lab: Lab, user: str | None = None) -> PbsConnection:
    """A connection to the server from its own host, as root or as a user."""
    # The host's own Python: a user may not be allowed to run that of the tests.  The package's version is metadata.
    path = f"{ROOT / 'daemon'}:{sysconfig.get_path('purelib')}"
    run = [*lab.runner, *(["-u", user] if user else []), "env", f"PYTHONPATH={path}", "python3"]
    return PbsConnection(command=[*run, "-m", "softwalltime.service.live.agent"])


@pytest.fixture
def connection(lab: Lab) -> Iterator[PbsConnection]:
    lab.uninstall()
    made = connected(lab)
    yield made
    made.close()


class Live:
    """Live values with a predictor that says what alice's last two jobs took."""

    def __init__(self, connection: PbsConnection, **options: object) -> None:
        self.predictions = PredictionService(SitePolicy(mode="on", waiting="v1", running="v1"))
        self.predictions.ready = True
        self.records: list[DecisionRecord] = []
        self.counts = LiveStatus()
        self.promises = PromiseWatch(remembering())
        self.ended = int(time.time()) - 1000
        self.values = LiveValues(
            LiveOptions.model_validate({"mode": "on", "change_seconds": 10, "lead": 20} | options), connection,
            lambda: self.predictions, self.records.append, self.counts, self.promises,
        )  # fmt: skip

    def learn(self, runtime: int) -> None:
        """Let the next prediction be this runtime."""
        for _ in range(2):
            self.ended += 1
            self.predictions.learn([completed(end=self.ended, runtime=runtime)])

    def look(self) -> None:
        """Look once, now."""
        self.values.look(int(time.time()))

    def look_until(self, reached: Callable[[], bool], timeout: float, what: str) -> None:
        """Look again and again until the condition holds."""

        def probe() -> bool:
            self.look()
            return reached()

        until(probe, timeout, what)


def test_the_manager_right_is_tried_without_a_job(lab: Lab) -> None:
    def manager(user: str | None = None) -> tuple[bool, str]:
        connection = connected(lab, user)
        try:
            return connection.manager()
        finally:
            connection.close()

    assert manager() == (True, "root")
    assert manager("alice") == (False, "alice")
    lab.qmgr("set server managers = alice@*")
    try:
        assert manager("alice") == (True, "alice")
        lab.qmgr("set server operators = alice@*")
        lab.qmgr("unset server managers")
        # An operator may not set soft walltimes either.
        assert manager("alice") == (False, "alice")
    finally:
        lab.qmgr("unset server managers")
        lab.qmgr("unset server operators")


def test_waiting_and_running_jobs_and_arrays_are_altered(lab: Lab, strict: None, connection: PbsConnection) -> None:
    options = ("-q", "short", "-l", "walltime=600")
    running = lab.qsub(*options, "-l", WHOLE)
    lab.wait(running, "R")
    waiting = lab.qsub(*options, "-l", WHOLE)
    array = lab.qsub(*options, "-l", WHOLE, "-J", "1-3")
    live = Live(connection)
    live.learn(200)
    live.look()
    assert [lab.soft(job) for job in (running, waiting, array)] == [200, 200, 200]
    promise = until(lambda: lab.job(waiting).get("estimated", {}).get("start_time"), 30, "a promise")
    live.learn(400)
    live.look()
    assert [lab.soft(job) for job in (running, waiting, array)] == [400, 400, 400]
    lab.qmgr("set server scheduling = True")
    # The waiting job is promised the planned end of the running one, which has moved.
    until(lambda: lab.job(waiting)["estimated"]["start_time"] not in ("", promise), 30, "another promise")
    assert {record.event for record in live.records} == {"live", "live_run"}
    live.look()
    assert live.counts.altered == 6


def test_a_look_reads_what_qstat_says(lab: Lab, connection: PbsConnection) -> None:
    select = f"2:ncpus={PROCESSORS // 2 + 1}:mem=1gb"
    job = lab.qsub(
        "-q", "short", "-l", "walltime=600", "-l", f"select={select}",
        "-A", "grant 7", "-N", "name", "-P", "plan",
    )  # fmt: skip
    (found,) = server_jobs(connection).look(int(time.time()))
    submission = found.submission
    assert (submission.job_id, submission.user, submission.group, submission.queue) == (job, "alice", "alice", "short")
    assert (submission.account, submission.job_name, submission.project) == ("grant 7", "name", "plan")
    assert (submission.walltime, submission.ncpus, submission.mem) == (600, PROCESSORS + 2, 2 * 2**30)
    assert (submission.select, found.waits, found.soft_walltime) == (select, True, None)


def test_what_pbs_refuses_has_its_code(lab: Lab, connection: PbsConnection) -> None:
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    with pytest.raises(IflError) as refused:
        connection.alter(job, 601)
    assert refused.value.code not in NO_JOB | NO_PERMISSION | {0}
    with pytest.raises(IflError) as refused:
        connection.alter(job.replace(job.split(".")[0], "99999999"), 60)
    assert refused.value.code in NO_JOB
    connection.alter(job, 60)
    assert lab.soft(job) == 60


def test_an_account_needs_to_be_a_manager(lab: Lab, connection: PbsConnection) -> None:
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600", user="bob")
    account = connected(lab, user="carol")
    try:
        assert job in account.jobs(["job_state"])
        with pytest.raises(IflError) as refused:
            account.alter(job, 60)
        assert refused.value.code in NO_PERMISSION
        lab.qmgr("set server managers += carol@*")
        account.alter(job, 60)
    finally:
        # Not -=: the removal of the last entry is not saved, and undone when the server is restarted.
        lab.qmgr("unset server managers")
        account.close()
    assert lab.soft(job) == 60


def test_the_guard_stops_short_values_while_the_top_job_is_late(
    lab: Lab, strict: None, connection: PbsConnection
) -> None:
    options = ("-q", "short", "-l", "walltime=600")
    running = lab.qsub(*options, "-l", f"select=1:ncpus={PROCESSORS - 1}", command=("/bin/sleep", "90"))
    lab.wait(running, "R")
    live = Live(connection, guard=0, change_seconds=1)
    live.learn(60)
    live.look()
    assert lab.soft(running) == 60
    top = lab.qsub(*options, "-l", WHOLE)
    until(lambda: lab.job(top).get("estimated", {}).get("start_time"), 30, "a promise")
    live.look()
    small = lab.qsub("-h", *options, "-l", "select=1:ncpus=1")
    lab.must("qrls", small)
    live.look_until(lambda: live.promises.late_job == top, 120, "the guard")
    assert {lab.soft(job) for job in (top, small) if lab.job(job)["job_state"] == "Q"} <= {600}


def test_a_server_that_was_restarted_is_asked_again(lab: Lab, connection: PbsConnection) -> None:
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    live = Live(connection)
    live.learn(200)
    live.look()
    lab.must("qterm", "-t", "quick")
    until(lambda: not lab.run("qstat", "-B").ok, 60, "the server has ended")
    with pytest.raises(IflError):
        live.look()
    lab.must("pbs_server")
    until(lambda: lab.run("qstat", "-B").ok, 60, "the server answers")
    lab.must("qrls", job)
    # The host of the jobs comes back after the server's first scheduling cycle.
    until(lambda: "state = free" in lab.must("pbsnodes", "-a"), 120, "the node is free")
    lab.qmgr("set server scheduling = True")
    lab.wait(job, "R")
    # PBS alters no job that is just being started.
    live.look_until(lambda: lab.soft(job) == 200, 30, "the value is set")
