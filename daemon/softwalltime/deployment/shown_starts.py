"""What PBS needs where the daemon shows expected starts on the jobs: a resource that users see and cannot set."""

from softwalltime.deployment.finding import Finding, ok, problem
from softwalltime.deployment.scheduler_setup import CustomResource, PbsSettings
from softwalltime.live.agent import START_RESOURCE
from softwalltime.settings import Settings

SHOWN_START = CustomResource(
    START_RESOURCE,
    "[starts] shows each waiting job's expected start in it",
    "string",
    otherwise="delete it, or show = false in [starts]",
)


def shows_starts(settings: Settings) -> bool:
    """Return whether the daemon shows expected starts on the jobs; the options are checked elsewhere."""
    return settings.starts.get("mode") == "on" and settings.starts.get("show") is True


def check_shown_starts(settings: PbsSettings) -> Finding:
    now = SHOWN_START.now(settings)
    act = SHOWN_START.by_hand(settings)
    if SHOWN_START.missing(settings):
        act = "softwalltime install --apply"
    if act:
        return problem(SHOWN_START.name, f"{now or 'no such resource'}, but {SHOWN_START.why}", f"root: {act}")
    return ok(SHOWN_START.name, f"{now}, as [starts] needs it")
