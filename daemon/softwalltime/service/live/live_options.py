"""The table ``[live]`` of the settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from softwalltime.core.extras import what_to_install
from softwalltime.core.validation import Strict, validate
from softwalltime.predict.policy.presets import PRESETS, guard_of
from softwalltime.predict.policy.site import KEEP, WALLTIME, Rule, SitePolicy, site_policy

SecondsOrOff = Annotated[int | None, BeforeValidator(lambda value: None if value == "off" else value)]


class LiveOptions(Strict):
    """Settings of ``[live]``: what the daemon may alter in PBS, and how often; descriptions are printed to users."""

    mode: Literal["off", "shadow", "on"] = Field(
        default="off", description="off: PBS is not asked; shadow: record what would be altered; on: alter"
    )
    server: str = Field(default="", description="host of the PBS server; empty: as in /etc/pbs.conf")
    agent: Path | None = Field(
        default=None, description="socket of softwalltime-live.socket; default: the daemon starts the agent itself"
    )
    every: int = Field(default=60, ge=1, le=86400, description="seconds between two looks at the queue")
    alters_per_minute: int = Field(default=120, ge=1, le=60000, description="most alters in a minute")
    change_seconds: int = Field(
        default=300, ge=1, description="least change of a soft walltime that is worth an alter, seconds"
    )
    change_share: float = Field(
        default=0.2, ge=0, le=10, description="least change that is worth an alter, as a share of the soft walltime"
    )
    lead: int = Field(
        default=120, ge=0, description="a running job is extended that many seconds before its soft walltime ends"
    )
    guard: SecondsOrOff = Field(
        default=None, ge=0,
        description="seconds; while the top job is later than promised by more, waiting jobs get their walltime; "
        "off: never; default: 3600 with the presets safe, balanced and order, else off",
    )  # fmt: skip
    slack: SecondsOrOff = Field(
        default=None, ge=0,
        description="seconds, at least, from the start that order of arrival and walltimes would give a job at its "
        "submission to its latest start, near which it comes first in the queue; off: never; default: off",
    )  # fmt: skip
    slack_share: float = Field(default=0.25, ge=0, le=100, description="the same, as a share of that planned wait")
    raise_lead: int = Field(
        default=3600, ge=0, description="a job comes first that many seconds before its latest start, at most slack"
    )


def reads_promises(policy: SitePolicy, live: LiveOptions) -> bool:
    """Return whether guard or order reads promised starts."""
    return live.mode == "on" and policy.mode == "on" and (live.guard is not None or policy.ordering is not None)


def plans_ahead(policy: SitePolicy, live: LiveOptions) -> bool:
    """Return whether the policy needs a scheduler that plans jobs ahead: for its waiting values or for promises."""
    values: tuple[SitePolicy | Rule, ...] = (policy, *policy.rules)
    return reads_promises(policy, live) or any(each.waiting not in (None, KEEP, WALLTIME) for each in values)


def unguarded(policy: SitePolicy, live: LiveOptions) -> bool:
    """Return whether a preset that needs the guard has none."""
    return PRESETS[policy.preset].needs_guard and not (live.mode == "on" and live.guard is not None)


def inert(policy: SitePolicy, live: LiveOptions) -> str:
    """Return which settings have no effect because ``[live]`` is off, and how to fix it; empty: none.

    ``guard = "off"`` is an error only if the preset then does nothing.
    """
    if policy.mode != "on":
        return ""
    wanted = ["the guard"] if live.guard is not None else []
    wanted += ["slack"] if live.slack is not None else []
    if wanted and live.mode != "on":
        effect = ", so waiting jobs are planned with their walltimes" if unguarded(policy, live) else ""
        otherwise = ', or guard = "off" where no guard is wanted' if live.guard is not None else ""
        return (
            f"{_named(policy)}: {' and '.join(wanted)} {'need' if len(wanted) > 1 else 'needs'} live values, and they "
            f'are {live.mode}{effect}: set mode = "on" in [live], see deploy/LIVE.md{otherwise}'
        )
    if live.slack is not None and (without := _slack_without(policy)):
        return f'{_named(policy)}: slack in [live] has no effect: {without}, or set slack = "off"'
    if unguarded(policy, live) and PRESETS[policy.preset].order is None:
        return (
            f"{_named(policy)}: the guard is off, so waiting jobs are planned with their walltimes, and nothing "
            'changes: set mode = "on" in [live], without guard = "off"'
        )
    return ""


def _slack_without(policy: SitePolicy) -> str:
    if policy.ordering is None:
        return "jobs keep the order of the queue; choose the preset balanced or order"
    try:
        import numpy  # noqa: F401  # the plan by order of arrival is simulated
    except ImportError as error:
        return what_to_install(error)
    return ""


def without_live(policy: SitePolicy, live: LiveOptions) -> str:
    """Return what does not work because of ``[live]``, and how to fix it; empty: everything works."""
    text = inert(policy, live)
    if not text and policy.mode == "on" and unguarded(policy, live):
        return (
            f"{_named(policy)}: the guard is off, so waiting jobs are planned with their walltimes; with "
            'mode = "on" in [live], without guard = "off", they are not'
        )
    return text


def _named(policy: SitePolicy) -> str:
    return f"preset {policy.preset}" if policy.preset != "custom" else "the policy"


def read_policy(policy: Mapping[str, object], live: Mapping[str, object]) -> tuple[SitePolicy, LiveOptions]:
    """Return the effective policy and the live options.

    Without its guard, a preset that needs one plans waiting jobs with walltimes: with a short waiting value PBS
    backfills jobs that outlive it, and only the guard ends the delay of the top job.

    :raises UsageError: names the key of ``[policy]`` or ``[live]`` and what is wrong with its value.
    """
    site = site_policy(policy)
    options = live_options(live, site.preset)
    if not unguarded(site, options):
        return site, options
    rules = tuple(
        rule if rule.waiting in (None, KEEP) else rule.model_copy(update={"waiting": WALLTIME}) for rule in site.rules
    )
    return site.model_copy(update={"waiting": WALLTIME, "rules": rules}), options


def live_options(values: Mapping[str, object], preset: object = None) -> LiveOptions:
    """Return the validated options of the table ``[live]``.

    :param preset: the policy's preset; safe, balanced and order have a guard.
    :raises UsageError: names the key and what is wrong with its value.
    """
    return validate(LiveOptions, "live", {"guard": guard_of(preset), **values})
