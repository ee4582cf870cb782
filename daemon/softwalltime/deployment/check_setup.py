"""Checks whether PBS is set up for the preset of the policy."""

from collections.abc import Iterator, Sequence

from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped, warning
from softwalltime.deployment.scheduler_setup import PbsSettings, Requirement, unreadable


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
