"""The job that most tests of the hook are about, the moment, and what tests of its events share."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softwalltime.emulation.pbs.hook import HookOutcome
from softwalltime.jobs import Submission

NOW = 1_795_000_000
AT_QUEUEJOB = {"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True}
NOBODY = {"close": True}
"""How a peer behaves that gives no answer."""

Run = Callable[..., HookOutcome]


def submission(**changes: Any) -> Submission:
    """A job of an hour."""
    job = Submission(
        "7.pbs1", "alice", NOW - 600, 3600, group="staff", project="astro", account="grant", job_name="x", queue="short"
    )
    return replace(job, **changes)
