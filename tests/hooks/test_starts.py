"""The hook at starts of jobs (runjob)."""

from typing import Any

import pytest

from softwalltime.emulation.pbs.pbs_events import Event, Site, started
from tests.hooks.jobs import NOBODY, NOW, Run, submission
from tests.hooks.peer import Peer


def start(site: Site, soft: int | None = 1800, now: int = NOW, **changes: Any) -> Event:
    """Return the start of a job with a walltime of one hour, submitted ten minutes ago."""
    return started(submission(**changes), site=site, now=now, soft_walltime=soft)


@pytest.mark.parametrize("job_id", ["7.pbs1", "7[3].pbs1"])
def test_a_starting_job_gets_a_new_soft_walltime(job_id: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=2400)
    assert run(start(site, job_id=job_id)).soft_walltime == 2400
    assert [(request["event"], request["job"]["job_id"]) for request in peer.asked()] == [("runjob", job_id)]


def test_the_policy_may_raise_a_starting_job_to_its_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=1)
    assert run(start(site)).soft_walltime == 3600


def test_a_starting_job_without_soft_walltime_can_get_one(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=2400)
    assert run(start(site, soft=None)).soft_walltime == 2400


@pytest.mark.parametrize("answer", [{"none": True}, {"set": 1800}], ids=["none", "the same"])
def test_an_unchanged_soft_walltime_is_not_set_at_a_start(
    answer: dict[str, Any], run: Run, peer: Peer, site: Site
) -> None:
    """PBS would write another record into the accounting log."""
    peer.behave(**answer)
    assert run(start(site)).resources == {}


@pytest.mark.parametrize(
    ("soft", "fallback", "expected"),
    [
        pytest.param(1800, "walltime", 3600, id="raised to the walltime"),
        pytest.param(3600, "walltime", 3600, id="there already"),
        pytest.param(None, "walltime", None, id="one without is left without"),
        pytest.param(1800, "keep", 1800, id="kept"),
        pytest.param(4000, "keep", 3600, id="kept only if valid"),
        pytest.param(0, "keep", 3600, id="and never at 0, which kills the scheduler"),
    ],
)
def test_at_a_start_without_an_answer_the_fallback_applies(
    soft: int | None, fallback: str, expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(**NOBODY)
    assert run(start(site, soft), runjob_fallback=fallback).soft_walltime == expected


@pytest.mark.parametrize("soft", [0, 4000])
def test_a_job_never_starts_with_an_invalid_soft_walltime(soft: int, run: Run, site: Site) -> None:
    """It does not matter who set it: 0 on a running job kills the scheduler."""
    assert run(start(site, soft)).soft_walltime == 3600


@pytest.mark.parametrize(
    ("soft", "walltime", "expected"), [(1, 3600, 1), (30, 30, 30), (31, 30, None), (0, 60, 60), (0, 59, None)]
)
def test_a_soft_walltime_is_valid_from_1_second_to_the_walltime_and_set_from_the_minimum(
    soft: int, walltime: int, expected: int | None, run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(**NOBODY)
    assert run(start(site, soft, walltime=walltime), runjob_fallback="keep").soft_walltime == expected


def test_the_fallback_without_walltime_is_no_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(**NOBODY)
    outcome = run(start(site, queue="nodefault", walltime=None), jobs_without_walltime=True)
    assert outcome.soft_walltime is None


@pytest.mark.parametrize("soft", [1800, None])
def test_the_configuration_disables_requests_at_starts(soft: int | None, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=2400)
    events = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": False}
    assert run(start(site, soft), events=events).soft_walltime == soft
    assert peer.asked() == []
