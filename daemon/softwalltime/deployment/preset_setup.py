"""PBS settings that each preset of the policy requires.

``safe`` keeps the order of the jobs and needs a scheduler that plans ahead and tries each soft walltime.  ``balanced``
and ``order`` need the prediction as a resource and a formula that uses it, and such a scheduler only if waiting jobs
get short values or promises are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from softwalltime.core.sched_config import switches
from softwalltime.core.settings import Settings
from softwalltime.deployment.finding import Finding, advice, ok, problem, skipped
from softwalltime.deployment.qmgr import QmgrObject
from softwalltime.deployment.scheduler_setup import (
    CustomResource,
    ListMember,
    PbsSettings,
    Requirement,
    RequirementState,
    ServerAttribute,
    Switch,
    unreadable,
)
from softwalltime.predict.policy.presets import PRESETS, RECOMMENDED
from softwalltime.predict.policy.site import KEEP, WALLTIME, Rule, SitePolicy
from softwalltime.service.live.agent import START_RESOURCE
from softwalltime.service.live.live_options import LiveOptions, plans_ahead, reads_promises

SETUPS = ("safe", "balanced", "order")
"""Presets for which PBS can be set up."""
RESOURCE = "predicted"
"""Default name of the custom resource with the prediction for the formula."""
_OFF = frozenset({"", "false"})


@dataclass(frozen=True, slots=True)
class SortFormula(Requirement):
    """A job_sort_formula that uses the prediction; the site's formula is kept, unless another one is given.

    Where fair share orders the jobs, it is a factor: beside a formula PBS's fair share decides only between equal
    values.  Another preset's formula is replaced.  With an empty ``preset`` any formula with the resource is accepted.
    """

    resource: str
    chosen: str = ""
    preset: str = ""

    def state(self, settings: PbsSettings) -> RequirementState:
        now = _first(self.name, (settings.server, *settings.schedulers.values()))
        shared = any(any(switches(text, "fair_share")) for text in settings.readable.values())
        formulas: dict[tuple[str, bool], str] = {
            (name, fair): preset.order.formula(self.resource, fair_share=fair)
            for name, preset in PRESETS.items()
            if preset.order
            for fair in (False, True)
        }
        own = formulas[self.preset or RECOMMENDED, shared]
        another_presets = self.preset and now != own and now in formulas.values()
        if wanted := self.chosen or (own if not now or another_presets else ""):
            return RequirementState(now, [self.change("server", now, wanted)] if wanted != now else [])
        if re.search(rf"\b{re.escape(self.resource)}\b", now):
            return RequirementState(now)
        if not settings.server.get(self.name):
            statement = f"set sched NAME {self.name} = ..."
            by_hand = f"a scheduler has the formula {now}: multiply it by {own} with qmgr -c '{statement}'"
        else:
            both = f"({now}) * " + (f"({own})" if " if " in own else own)
            by_hand = (
                f"the site's formula is {now} and stays: it does not use {self.resource}. To multiply it by that of "
                f"the preset: softwalltime install --preset {self.preset or RECOMMENDED} --formula '{both}'"
            )
        return RequirementState(now, by_hand=by_hand)


def _first(name: str, owners: Iterable[QmgrObject]) -> str:
    return next((value for owner in owners if (value := owner.get(name))), "")


@dataclass(frozen=True, slots=True)
class NoThreshold(Requirement):
    """No job_sort_formula_threshold: a scheduler does not start jobs below it."""

    def state(self, settings: PbsSettings) -> RequirementState:
        now = _first(self.name, settings.schedulers.values())
        text = f"the threshold {now} was chosen for another formula, and {self.why}: check it, or unset it"
        return RequirementState(now, by_hand=text if now else "")


_STRICT = Switch(
    "strict_ordering",
    "without it no job is planned ahead, and soft walltimes have no effect; with it a job that does not fit keeps its "
    "place, and only jobs that do not delay it overtake it",
    on=True,
)


def requirements(
    preset: str, resource: str = RESOURCE, formula: str = "", *,
    effective: tuple[SitePolicy, LiveOptions] | None = None, any_formula: bool = False,
) -> tuple[Requirement, ...]:  # fmt: skip
    """Return the requirements of a preset in the order in which they are changed; may be empty.

    :param resource: name of the custom resource with the prediction.
    :param formula: the job_sort_formula to set in place of the site's, which stays if this is empty.
    :param effective: the policy and the live options in force; ``None``: all that the preset may need.
    :param any_formula: accept any formula with the resource, as under a custom policy.
    """
    promises = effective is not None and reads_promises(*effective)
    lost = "when another job becomes the top job, the former one loses its estimated start time"
    current_promises = ServerAttribute(
        "clear_topjob_estimates_enable",
        lost + (", which the daemon would take for a promise" if promises else ""),
        "True",
        _OFF,
        decisive=False,
    )
    ahead = (
        _STRICT,
        ListMember(
            "resources",
            "after one job that does not fit, the scheduler skips all jobs of the same walltime and resources, "
            "also those with a shorter soft walltime, unless this list names soft_walltime",
            "soft_walltime",
            decisive=False,
        ),
        ServerAttribute("backfill_depth", "with 0 no job is planned ahead", "1", frozenset({"0"})),
    )
    if preset == "safe":
        return (*ahead, current_promises) if promises else ahead
    if preset not in SETUPS:
        return ()
    return (
        CustomResource(resource, "the hook sets the predicted runtime as this resource, which the formula reads"),
        ServerAttribute("eligible_time_enable", "the formula needs the time that a job has waited", "True", _OFF),
        current_promises,
        # strict_ordering stays as it is where nothing is planned ahead.
        *(ahead if effective is None or plans_ahead(*effective) else ()),
        *(
            Switch(name, "the formula must compare the jobs of all queues", on=False)
            for name in ("by_queue", "round_robin")
        ),
        NoThreshold(
            "job_sort_formula_threshold",
            "jobs whose formula gives less than the threshold are not started",
            decisive=False,
        ),
        SortFormula(
            "job_sort_formula",
            "jobs with a short predicted runtime start soon, and each job moves up while it waits",
            resource,
            formula,
            "" if any_formula else preset,
        ),
    )


def stays_off(needs: Iterable[Requirement], settings: PbsSettings) -> str:
    """Return what it means that strict_ordering is off, where the preset does not need it; empty if it is on."""
    if _STRICT.name in {need.name for need in needs} or not _STRICT.state(settings).changes:
        return ""
    return "strict_ordering stays off, as the order alone does not need it; figures simulated with it do not hold here"


def setup_of(policy: SitePolicy | None) -> str:
    """Return the preset for which PBS must be configured under a policy; empty: none.

    A custom policy that is on has the requirements of ``balanced`` if it has an ordering value, else of ``safe``.
    """
    if policy is None or policy.preset in ("off", "shadow"):
        return ""
    if policy.preset != "custom":
        return policy.preset
    values: tuple[SitePolicy | Rule, ...] = (policy, *policy.rules)
    if policy.mode != "on":
        return ""
    if any(spec.ordering not in (None, KEEP) for spec in values):
        return RECOMMENDED
    return "safe" if any(spec.waiting not in (None, KEEP, WALLTIME) for spec in values) else ""


def resource_of(hook: Mapping[str, object] | None) -> str:
    return str((hook or {}).get("ordering") or RESOURCE)


def check_setup(policy: SitePolicy | None, needs: Sequence[Requirement], settings: PbsSettings) -> Iterator[Finding]:
    """Check each requirement, which is advice where the policy needs nothing of PBS."""
    if policy is not None and (setup := setup_of(policy)):
        unmet, what = problem, f"the preset {policy.preset}"
        command = f"softwalltime install --preset {setup} --apply"
    else:
        # strict_ordering also changes the order of the jobs, so it is for the site to decide.
        unmet, what, command = advice, "soft walltimes", "softwalltime install --preset safe --apply, if the site wants"
    hidden = unreadable(settings, needs)
    for file in hidden:
        yield skipped("scheduler", f"{file} cannot be read from here")
    for need in needs:
        # What no readable file has cannot be judged.
        if not isinstance(need, Switch | ListMember) or len(hidden) < len(settings.files):
            yield _check(need, settings, what, command, unmet if need.decisive else advice)


def _check(
    need: Requirement, settings: PbsSettings, what: str, command: str, unmet: Callable[[str, str, str], Finding]
) -> Finding:
    state = need.state(settings)
    act = command if state.changes else state.by_hand
    if not act:
        return ok(need.name, f"{state.now or 'not set'}, as needed for {what}")
    return unmet(need.name, f"{state.now or 'not set'}, but for {what}: {need.why}", f"root: {act}")


SHOWN_START = CustomResource(
    START_RESOURCE,
    "the daemon shows each waiting job's expected start in it",
    "string",
    otherwise="delete it, or show = false in [starts]",
)


def shows_starts(settings: Settings) -> bool:
    """Return whether the daemon shows expected starts on the jobs."""
    return settings.starts.get("mode") == "on" and settings.starts.get("show") is True


def check_shown_starts(settings: PbsSettings) -> Finding:
    return _check(SHOWN_START, settings, "[starts]", "softwalltime install --apply", problem)
