"""The hook never makes a user's qalter fail."""

from collections.abc import Callable

import pytest

from tests.acceptance.conftest import DEFAULTS, WAITING, Daemon
from tests.acceptance.lab import Lab

Install = Callable[..., None]

both = pytest.mark.parametrize("answers", [True, False], ids=["with the daemon", "without the daemon"])


@pytest.fixture
def job(lab: Lab, hook: None) -> str:
    """A waiting job of 10 minutes with a soft walltime."""
    job = lab.qsub("-h", "-q", "short", "-l", "walltime=600")
    assert lab.soft(job) == WAITING
    return job


@both
@pytest.mark.parametrize(
    ("walltime", "expected"),
    [("1200", WAITING), ("301", WAITING), ("300", 300), ("200", 200), ("60", 60), ("59", None), ("1", None)],
)
def test_a_waiting_job_with_an_altered_walltime_gets_a_valid_soft_walltime(
    answers: bool, walltime: str, expected: int | None, job: str, lab: Lab, daemon: Daemon
) -> None:
    """Without an answer the walltime: what was predicted from another one counts no more."""
    if not answers:
        daemon.stop()
        expected = expected and int(walltime)
    done = lab.qalter(job, "-l", f"walltime={walltime}")
    assert done.ok, done.error
    assert (lab.walltime(job), lab.soft(job)) == (int(walltime), expected)


def test_the_walltime_can_be_lowered_and_raised_again(job: str, lab: Lab) -> None:
    for walltime, expected in (("100", 100), ("30", None), ("600", WAITING), ("250", 250), ("3600", WAITING)):
        assert lab.qalter(job, "-l", f"walltime={walltime}").ok
        assert lab.soft(job) == expected


@both
def test_the_walltime_can_be_unset(
    answers: bool, job: str, lab: Lab, daemon: Daemon, install: Callable[..., None]
) -> None:
    # What root sets is not a manager's here, which would be kept.
    install(daemon_users=["root"])
    lab.qalter(job, "-l", "walltime=01:00:00")
    lab.must("qalter", "-l", "soft_walltime=3000", job)
    if not answers:
        daemon.stop()
    done = lab.qalter(job, "-l", "walltime=")
    assert done.ok, done.error
    assert (lab.walltime(job), lab.soft(job)) == (600, WAITING if answers else 600)


@both
def test_a_job_can_become_shrink_to_fit(answers: bool, job: str, lab: Lab, daemon: Daemon) -> None:
    if not answers:
        daemon.stop()
    done = lab.qalter(job, "-l", "min_walltime=300")
    assert done.ok, done.error
    assert lab.soft(job) is None


def test_other_alters_do_not_change_the_soft_walltime(job: str, lab: Lab) -> None:
    log = lab.server_log()
    assert lab.qalter(job, "-m", "abe").ok
    assert lab.qalter(job, "-p", "100").ok
    assert log.lines() == []
    assert lab.soft(job) == WAITING


@both
def test_an_array(answers: bool, lab: Lab, hook: None, daemon: Daemon) -> None:
    job = lab.qsub("-h", "-J", "1-3", "-q", "short", "-l", "walltime=600")
    assert lab.soft(job) == WAITING
    if not answers:
        daemon.stop()
    done = lab.qalter(job, "-l", "walltime=200")
    assert done.ok, done.error
    assert lab.soft(job) == 200


@both
def test_a_running_job(answers: bool, lab: Lab, hook: None, daemon: Daemon) -> None:
    """A user may lower it, a manager raise it; it was raised to its walltime at its start and stays there."""
    job = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(job, "R")
    if not answers:
        daemon.stop()
    done = lab.qalter(job, "-l", "walltime=400")
    assert done.ok, done.error
    assert (lab.walltime(job), lab.soft(job)) == (400, 400)
    done = lab.qalter(job, "-l", "walltime=500", user="root")
    assert done.ok, done.error
    assert (lab.walltime(job), lab.soft(job)) == (500, 500)


def test_a_running_job_with_a_lower_soft_walltime_can_be_altered(lab: Lab, install: Install) -> None:
    install(events={**DEFAULTS["events"], "runjob": False})
    job = lab.qsub("-q", "short", "-l", "walltime=600")
    lab.wait(job, "R")
    for walltime, expected in (("500", WAITING), ("200", 200)):
        done = lab.qalter(job, "-l", f"walltime={walltime}")
        assert done.ok, done.error
        assert lab.soft(job) == expected
    assert lab.qalter(job, "-l", "walltime=30").ok
    assert lab.soft(job) is None


def test_without_the_hook_at_modifyjob_pbs_refuses_the_alter(job: str, lab: Lab) -> None:
    """The hook needs modifyjob for this reason."""
    lab.qmgr('set hook softwalltime event -= "modifyjob"')
    assert "Illegal attribute or resource value" in lab.qalter(job, "-l", "walltime=200").error
