"""What the policies set on a real server: the ordering value, exclusive placement, managers' values, requeued jobs."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import WAITING, Daemon, ServedDaemon, running, served
from tests.acceptance.lab import Lab, seconds, until

NAME = "predicted"
ORDERING = WAITING + 900
"""The ordering value in seconds that the daemon predicts for each job: v2 is v1 and 900 s."""
AT_QUEUEJOB = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
EVENTS = [AT_QUEUEJOB, {**AT_QUEUEJOB, "postqueuejob": True}]


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    """``softwalltime serve`` with an ordering value."""
    daemon = served(tmp_path, request)
    assert isinstance(daemon, ServedDaemon)
    daemon.configure('mode = "on"\nwaiting = "v1"\nordering = "v2"\n')
    with running(daemon):
        yield daemon


@pytest.fixture
def resource(lab: Lab) -> None:
    """The custom resource, as ``softwalltime install --preset order`` creates it."""
    lab.create_resource(NAME)


def values(lab: Lab, job: str) -> tuple[int | None, int | None]:
    """Soft walltime and ordering value."""
    resources = lab.job(job)["Resource_List"]
    return seconds(resources.get("soft_walltime")), resources.get(NAME)


@pytest.mark.usefixtures("resource")
@pytest.mark.parametrize("events", EVENTS, ids=["queuejob", "both"])
def test_a_job_is_ordered_from_its_submission_on_and_anew_with_its_walltime(
    events: dict[str, bool], lab: Lab, install: Callable[..., None], daemon: Daemon
) -> None:
    install(events=events)
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=3600")
    assert values(lab, job) == (WAITING, ORDERING)
    for walltime in (700, 7200, 100):
        done = lab.qalter(job, "-l", f"walltime={walltime}")
        assert done.ok, done.error
        assert values(lab, job) == (min(WAITING, walltime), min(ORDERING, walltime))
    assert not lab.qalter(job, "-l", f"{NAME}=1").ok, "users cannot set it"
    daemon.stop()
    assert lab.qalter(job, "-l", "walltime=90").ok
    assert values(lab, job) == (90, 90)
    assert values(lab, lab.qsub("-h", "-q", "short", "-l", "walltime=3600")) == (None, None), "a new job gets none"


@pytest.mark.usefixtures("resource", "hook")
def test_an_array_is_ordered_and_running_jobs_can_be_altered(lab: Lab) -> None:
    array = lab.qsub("-J", "1-2", "-q", "short", "-l", "walltime=3600")
    assert values(lab, array) == (WAITING, ORDERING)
    subjob = array.replace("[]", "[1]")
    lab.wait(subjob, "R")
    assert values(lab, subjob) == (3600, ORDERING)
    assert lab.job(array)["job_state"] == "B"
    done = lab.qalter(array, "-l", "walltime=1800")
    assert done.ok, done.error
    job = lab.qsub("-q", "short", "-l", "walltime=3600")
    lab.wait(job, "R")
    done = lab.qalter(job, "-l", "walltime=600")
    assert done.ok, done.error
    assert values(lab, job) == (600, ORDERING), "PBS refuses to alter it on a running job"


def test_without_the_resource_jobs_are_accepted_with_one_warning(lab: Lab, install: Callable[..., None]) -> None:
    install(ordering="missing")
    log = lab.server_log()
    for _ in range(3):
        assert values(lab, lab.qsub("-h", "-q", "short", "-l", "walltime=3600"))[0] == WAITING
    (line,) = log.lines("resource missing: cannot be set")
    assert "UnsetResourceNameError" in line or "not found" in line


@pytest.mark.usefixtures("resource")
def reserve(lab: Lab, begin: float) -> str:
    """Reserve the whole machine for an hour, from that time on; the name of the confirmed reservation."""
    ncpus = sum(
        int(vnode["resources_available"]["ncpus"])
        for vnode in lab.json("pbsnodes", "-a", "-F", "json")["nodes"].values()
    )
    start = time.strftime("%H%M.%S", time.localtime(begin))
    name = lab.must("pbs_rsub", "-R", start, "-D", "3600", "-l", f"select=1:ncpus={ncpus}", user="alice").split()[0]
    until(lambda: "RESV_CONFIRMED" in lab.must("pbs_rstat", "-f", name), 30, f"{name} is confirmed")
    return name


def cycle(lab: Lab) -> None:
    """Let the scheduler run at least one whole cycle."""
    for _ in range(2):
        lab.qmgr("set server scheduling = True")
        time.sleep(2)


def test_a_waiting_job_with_exclusive_placement_is_kept_out_of_a_reservation(
    lab: Lab, install: Callable[..., None], daemon: Any
) -> None:
    """PBS holds only the soft walltime of such a job against a confirmed reservation; so the policy gives it none."""
    assert not lab.must("qselect", "-s", "EHQRTW"), "the reservation needs a server without jobs"
    daemon.configure('mode = "on"\nwaiting = "constant:60"\n')
    daemon.reload(lambda policy: policy["waiting"] == "constant:60")
    install()
    reservation = reserve(lab, time.time() + 8 * 60)
    try:
        options = ("-q", "workq", "-l", "select=1:ncpus=1", "-l", "walltime=3600")
        job = lab.qsub("-l", "place=excl", *options)
        assert lab.soft(job) is None
        cycle(lab)
        assert lab.job(job)["job_state"] == "Q"
        altered = lab.qsub("-h", *options)
        assert lab.soft(altered) == 60
        assert lab.qalter(altered, "-l", "place=excl").ok
        assert lab.soft(altered) == 3600, "the job became exclusive"
        # What the site would get without it.
        daemon.configure('mode = "on"\nwaiting = "constant:60"\nexclusive = "waiting"\n')
        daemon.reload(lambda policy: policy["exclusive"] == "waiting")
        # The scheduler skips jobs like one that cannot run, whatever their soft walltimes.
        lab.must("qdel", job)
        lab.qmgr("set server scheduling = False")
        bold = lab.qsub("-l", "place=excl", *options)
        assert lab.soft(bold) == 60
        cycle(lab)
        lab.wait(bold, "R")
    finally:
        lab.must("pbs_rdel", reservation)


@pytest.mark.parametrize("answers", [True, False], ids=["with the daemon", "without the daemon"])
def test_a_managers_soft_walltime_is_kept_at_the_start(answers: bool, lab: Lab, hook: None, daemon: Daemon) -> None:
    jobs = [lab.qsub("-h", "-q", "short", "-l", "walltime=3600") for _ in range(2)]
    array = lab.qsub("-h", "-J", "1-2", "-q", "short", "-l", "walltime=3600")
    for job in (jobs[0], array):
        lab.must("qalter", "-l", "soft_walltime=500", job)
    assert not lab.qalter(jobs[1], "-l", f"soft_walltime={WAITING}").ok, "users may not"
    if not answers:
        daemon.stop()
    assert lab.qalter(jobs[0], "-l", "walltime=1800").ok
    lab.must("qrls", *jobs, array)
    for job in jobs:
        lab.wait(job, "R")
    assert [lab.soft(job) for job in jobs] == [500, 3600]
    subjob = array.replace("[]", "[1]")
    lab.wait(subjob, "R")
    assert lab.soft(subjob) == 500
    lab.must("qrerun", jobs[0])
    lab.wait(jobs[0], "R")
    assert lab.soft(jobs[0]) == 500, "at the next start too"


def test_a_soft_walltime_of_0_is_raised_on_waiting_and_running_jobs_and_the_scheduler_lives(
    lab: Lab, hook: None
) -> None:
    waiting = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    running = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(running, "R")
    scheduler = (lab.home / "sched_priv" / "sched.lock").read_text()
    for job in (waiting, running):
        for given in ("0", "59"):
            lab.must("qalter", "-l", f"soft_walltime={given}", job)
            assert lab.soft(job) == 60
    cycle(lab)
    lab.wait(lab.qsub("-q", "short", "-l", "walltime=600"), "R")
    assert (lab.home / "sched_priv" / "sched.lock").read_text() == scheduler
    short = lab.qsub("-h", "-q", "short", "-l", "walltime=30")
    lab.must("qalter", "-l", "soft_walltime=0", short)
    assert lab.soft(short) is None


@pytest.mark.usefixtures("resource", "hook")
def test_a_requeued_job_waits_with_the_value_of_its_start_until_it_is_altered(lab: Lab) -> None:
    job = lab.qsub("-q", "short", "-l", "walltime=3600")
    lab.wait(job, "R")
    lab.qmgr("set server scheduling = False")
    lab.must("qrerun", job)
    lab.wait(job, "Q")
    assert values(lab, job) == (3600, ORDERING), "PBS runs no hook that could change it"
    done = lab.qalter(job, "-l", "walltime=3600")
    assert done.ok, done.error
    assert values(lab, job) == (WAITING, ORDERING), "the waiting value is back"
    lab.qmgr("set server scheduling = True")
    lab.wait(job, "R")
    assert values(lab, job) == (3600, ORDERING)
