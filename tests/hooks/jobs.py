"""The job and the time of most tests of the hook, and parameters that its tests share."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softwalltime.core.jobs import Submission
from softwalltime.emulation.pbs.hook_runner import HookOutcome
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started

NOW = 1_795_000_000
WALLTIME = 3600
MINIMUM = 60
NO_LIMIT = 5 * 365 * 24 * 3600
"""The longest walltime that the hook tells the daemon of, seconds."""
AT_QUEUEJOB = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
NOBODY = {"close": True}
"""Behaviours of a peer without an answer."""

Run = Callable[..., HookOutcome]


def submission(**changes: Any) -> Submission:
    """Return a submission with a walltime of one hour, with these fields changed."""
    job = Submission(
        "7.pbs1", "alice", NOW - 600, 3600, group="staff", project="astro", account="grant", job_name="x", queue="short"
    )
    return replace(job, **changes)


def events(site: Site) -> list[Event]:
    """Return an event of each kind that sends a request; walltime one hour, soft walltime half an hour."""
    job = submission(walltime=WALLTIME)
    return [
        queued(job, site=site, array_indices="1-3"),
        postqueued(job, site=site),
        altered(job, {"walltime": "01:00:00"}, site=site, now=NOW, soft_walltime=1800),
        started(job, site=site, now=NOW, soft_walltime=1800),
        started(job, site=site, now=NOW),
    ]


def assert_harmless(outcome: HookOutcome) -> None:
    """Assert that the hook accepted the request and set nothing invalid."""
    assert not outcome.error
    assert outcome.accepted
    if "soft_walltime" in outcome.resources:
        value = outcome.resources["soft_walltime"]
        assert isinstance(value, int)
        assert MINIMUM <= value <= WALLTIME
