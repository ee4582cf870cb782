"""Run hooks of a few lines on the emulated server."""

from collections.abc import Callable

from softwalltime.emulation.pbs.hook_runner import HookOutcome
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, queued, started
from tests.hooks.jobs import NOW, submission

Do = Callable[..., HookOutcome]

SET = 'job.Resource_List["soft_walltime"] = pbs.duration({})'
"""A line that sets the soft walltime, to be formatted with the seconds."""


def shown(outcome: HookOutcome) -> list[str]:
    assert not outcome.error, outcome.error
    return [line for _, line in outcome.log]


def all_events(site: Site) -> list[Event]:
    job = submission()
    return [
        queued(job, site=site),
        postqueued(job, site=site),
        altered(job, {"walltime": "00:30:00"}, site=site, now=NOW),
        started(job, site=site, now=NOW),
    ]
