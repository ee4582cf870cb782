"""Jobs that are submitted, routed, moved and started on a real server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from softwalltime.accounting.conversions import size
from softwalltime.service.protocol import read_request
from tests.acceptance.conftest import DEFAULTS, WAITING, PeerDaemon
from tests.acceptance.lab import HOOK, Lab

AT_QUEUEJOB = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
AT_POSTQUEUEJOB = {**AT_QUEUEJOB, "postqueuejob": True}
Install = Callable[..., None]

both = pytest.mark.parametrize("events", [AT_POSTQUEUEJOB, AT_QUEUEJOB], ids=["postqueuejob", "queuejob"])


@both
def test_a_submitted_job_gets_its_soft_walltime_with_one_request(
    events: dict[str, bool], lab: Lab, install: Install
) -> None:
    install(events=events)
    log = lab.server_log()
    for user in ("alice", "bob"):
        job = lab.qsub("-h", "-q", "short", "-l", "walltime=600", user=user)
        assert lab.soft(job) == WAITING
    assert len(log.lines()) == 2, log.lines()


@both
def test_default_walltimes_are_used(events: dict[str, bool], lab: Lab, install: Install) -> None:
    install(events=events)
    assert lab.soft(lab.qsub("-h", "-q", "short")) == WAITING
    assert lab.soft(lab.qsub("-h", "-q", "nodefault")) is None
    assert lab.soft(lab.qsub("-h", "-q", "nodefault", "-l", "walltime=600")) == WAITING


@pytest.mark.usefixtures("postqueuejob", "unscheduled")
def test_a_routed_job_sends_its_request_in_the_execution_queue(lab: Lab, install: Install) -> None:
    install(events=AT_POSTQUEUEJOB)
    log = lab.server_log()
    for options, queue, walltime in (([], "short", 600), (["-l", "walltime=05:00:00"], "long", 18000)):
        job = lab.qsub(*options)
        assert lab.job(job)["queue"] == queue
        assert (lab.soft(job), lab.walltime(job)) == (WAITING, walltime)
    assert len(log.lines()) == 2, log.lines()


@pytest.mark.usefixtures("unscheduled")
def test_a_routed_job_gets_a_soft_walltime_at_queuejob_only_if_its_walltime_is_known(
    lab: Lab, install: Install
) -> None:
    install(events=AT_QUEUEJOB)
    assert lab.soft(lab.qsub()) is None
    assert lab.soft(lab.qsub("-l", "walltime=05:00:00")) == WAITING


def test_arrays_and_their_subjobs(lab: Lab, hook: None) -> None:
    job = lab.qsub("-J", "1-3:2", "-q", "short", "-l", "walltime=600", "-l", "select=1:ncpus=1")
    assert lab.soft(job) == WAITING
    for index in (1, 3):
        subjob = job.replace("[]", f"[{index}]")
        lab.wait(subjob, "R")
        assert lab.soft(subjob) == 600
    assert lab.soft(job) == WAITING


@both
def test_a_shrink_to_fit_job_gets_no_soft_walltime(events: dict[str, bool], lab: Lab, install: Install) -> None:
    install(events=events)
    job = lab.qsub("-h", "-q", "short", "-l", "min_walltime=00:10:00,max_walltime=00:30:00")
    assert lab.soft(job) is None
    lab.must("qrls", job)
    lab.wait(job, "R")
    assert lab.soft(job) is None


@pytest.mark.usefixtures("postqueuejob", "unscheduled")
def test_a_job_moved_below_its_soft_walltime_gets_a_valid_one(lab: Lab, install: Install) -> None:
    for user, expected in (("softwalltime-live", 600), ("root", WAITING)):
        # A manager's soft walltime is lowered to the walltime; what the daemon's user sets is predicted anew.
        install(events=AT_POSTQUEUEJOB, daemon_users=[user])
        job = lab.qsub("-q", "long")
        lab.must("qalter", "-l", "soft_walltime=7200", job)
        lab.must("qmove", "short", job)
        assert (lab.walltime(job), lab.soft(job)) == (600, expected)


@pytest.mark.usefixtures("unscheduled")
def test_at_queuejob_a_moved_job_can_be_altered_and_has_a_valid_one_when_it_starts(lab: Lab, install: Install) -> None:
    """Without postqueuejob no hook runs at the move; until then a soft walltime above the walltime has no effect."""
    install(events=AT_QUEUEJOB, daemon_users=["root"])
    altered, starts = (lab.qsub("-q", "long") for _ in range(2))
    for job in (altered, starts):
        lab.must("qalter", "-l", "soft_walltime=7200", job)
        lab.must("qmove", "short", job)
        assert (lab.walltime(job), lab.soft(job)) == (600, 7200)
    done = lab.qalter(altered, "-l", "walltime=900")
    assert done.ok, done.error
    assert (lab.walltime(altered), lab.soft(altered)) == (900, WAITING)
    lab.must("qrun", starts)
    lab.wait(starts, "R")
    assert lab.soft(starts) == 600


def test_a_starting_job_is_raised_to_its_walltime(lab: Lab, hook: None) -> None:
    job = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(job, "R")
    assert lab.soft(job) == 600


def test_requests_at_starts_can_be_disabled(lab: Lab, install: Install) -> None:
    install(events={**DEFAULTS["events"], "runjob": False})
    job = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(job, "R")
    assert lab.soft(job) == WAITING


def test_a_rerun_job_starts_with_a_valid_one(lab: Lab, hook: None) -> None:
    job = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(job, "R")
    lab.must("qrerun", job)
    lab.wait(job, "R")
    assert lab.soft(job) == 600


@pytest.mark.usefixtures("postqueuejob")
def test_a_later_hook_that_lowers_the_walltime_fails_no_submission(lab: Lab, install: Install, tmp_path: Path) -> None:
    """It runs after the hook: at queuejob PBS would find the soft walltime above the walltime and refuse the job."""
    install(events=AT_POSTQUEUEJOB)
    file = tmp_path / "lower.py"
    file.write_text("import pbs\npbs.event().job.Resource_List['walltime'] = pbs.duration(100)\n")
    lab.qmgr("create hook zz_lower")
    try:
        lab.qmgr('set hook zz_lower event = "queuejob"')
        lab.qmgr("set hook zz_lower order = 100")
        lab.qmgr(f"import hook zz_lower application/x-python default {file}")
        job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
        assert lab.walltime(job) == 100
        assert lab.soft(job) in (None, 100)
    finally:
        lab.qmgr("delete hook zz_lower")


def test_a_user_cannot_set_a_soft_walltime_with_or_without_the_hook(lab: Lab, hook: None) -> None:
    done = lab.run("qsub", "-q", "short", "-l", "walltime=600,soft_walltime=60", "--", "/bin/true", user="alice")
    assert "Cannot set attribute" in done.error


def test_a_manager_cannot_set_a_soft_walltime_at_qsub(lab: Lab, hook: None) -> None:
    done = lab.run("qsub", "-q", "short", "-l", "walltime=600,soft_walltime=60", "--", "/bin/true")
    assert "Cannot set attribute" in done.error


def test_a_soft_walltime_of_a_manager_is_not_changed(lab: Lab, hook: None) -> None:
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    lab.must("qalter", "-l", "walltime=1200,soft_walltime=900", job)
    assert lab.soft(job) == 900


def test_an_invalid_configuration_fails_no_submission(lab: Lab, install: Install) -> None:
    log = lab.server_log()
    install(minimum="a minute", log=7)
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    assert lab.soft(job) == WAITING
    assert len(log.lines('configuration: minimum: invalid value "a minute"; log: invalid value 7')) >= 1


def test_an_interrupted_hook_accepts(lab: Lab, install: Install, tmp_path: Path) -> None:
    """PBS's alarm raises KeyboardInterrupt at any point of the hook."""
    slow = tmp_path / "slow.py"
    slow.write_text(HOOK.read_text().replace("    value, reason = rule(job)", "    time.sleep(60)"))
    assert "time.sleep(60)" in slow.read_text()
    log = lab.server_log()
    install()
    lab.qmgr(f"import hook softwalltime application/x-python default {slow}")
    lab.qmgr("set hook softwalltime alarm = 1")
    lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    assert log.lines("KeyboardInterrupt: : the request is accepted unchanged")


def test_another_version_of_the_hook_takes_effect_at_the_next_event(lab: Lab, install: Install, tmp_path: Path) -> None:
    """The state that persists between runs must not outlive the hook file."""
    log = lab.server_log()
    install()
    lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    for version in ("one", "two"):
        file = tmp_path / "version.py"
        file.write_text(HOOK.read_text().replace('"softwalltime: " +', f'"version {version}: " +'))
        assert f"version {version}" in file.read_text()
        lab.qmgr(f"import hook softwalltime application/x-python default {file}")
        lab.qsub("-h", "-q", "short", "-l", "walltime=600")
        assert log.lines(f"version {version}: queuejob")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-l", "ncpus=2"],
        ["-l", "select=1:ncpus=2:mem=500mb+2:ncpus=1:mem=250mb"],
        ["-l", "select=2:ncpus=3", "-l", "place=scatter"],
        ["-l", "nodes=1:ppn=2"],
        ["-l", "nodes=2:ppn=2,mem=1gb"],
    ],
    ids=" ".join,
)
def test_the_daemon_knows_the_size_at_queuejob_that_pbs_derives_later(
    options: list[str], lab: Lab, tmp_path: Path
) -> None:
    peer = PeerDaemon(tmp_path)
    peer.start()
    try:
        lab.install({**DEFAULTS, "events": AT_QUEUEJOB, "socket": str(peer.socket)}, tmp_path)
        job = lab.qsub("-h", "-q", "short", *options)
        (asked,) = peer.asked()
    finally:
        peer.stop()
    known = read_request(json.dumps(asked).encode()).job
    requested = lab.job(job)["Resource_List"]
    memory = requested.get("mem")
    assert (known.ncpus, known.nodect) == (requested["ncpus"], requested["nodect"])
    assert known.mem == (None if memory is None else size(memory))
