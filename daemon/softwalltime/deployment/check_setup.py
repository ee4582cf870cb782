"""Checks whether PBS is set up for the preset of the policy, and for showing expected starts on the jobs."""

from collections.abc import Iterator, Sequence

from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped, warning
from softwalltime.deployment.scheduler_setup import CustomResource, PbsSettings, Requirement, unreadable
from softwalltime.live.agent import START_RESOURCE
from softwalltime.settings import Settings


def check_setup(
    preset: str, needs: Sequence[Requirement], settings: PbsSettings, *, on: bool, setup: str = ""
) -> Iterator[Finding]:
    """Check each requirement of the preset.

    :param setup: the preset that PBS is set up for under a custom policy; default: the same.
    :param on: whether the policy is on; before that, an unmet requirement is a warning.
    """
    unmet = problem if on else warning
    for file in unreadable(settings, needs):
        yield skipped(f"preset {preset}", f"{file} cannot be read from here")
    for need in needs:
        now = need.now(settings)
        missing = bool(need.missing(settings))
        hand = "" if missing else need.by_hand(settings)
        if not missing and not hand:
            if need.readable(settings):
                yield ok(need.name, f"{now or 'not set'}, as the preset {preset} needs it")
        else:
            act = hand or f"softwalltime install --preset {setup or preset} --apply"
            verdict = unmet if need.decisive else advice
            yield verdict(need.name, f"{now or 'not set'}, but for the preset {preset}: {need.why}", f"root: {act}")


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
