"""What PBS needs for each preset of the policy: pure data, with the reason and the change that gives it.

``safe`` keeps the order of the jobs and needs a scheduler that plans ahead and tries each soft walltime.  ``order``
also needs the prediction as a resource and a formula that uses it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from softwalltime.deployment import sched_config
from softwalltime.deployment.pbs import QmgrObject
from softwalltime.policy.site import KEEP, WALLTIME, Rule, SitePolicy
from softwalltime.settings import Settings

Place = Literal["server", "resource", "switch", "member"]
"""Where a change is made: a server attribute, a custom resource, or a switch or a list in a sched_config."""
SETUPS = ("safe", "order")
"""Presets for which PBS can be set up."""
RESOURCE = "predicted"
"""Default name of the custom resource with the prediction for the formula."""
TYPE, FLAG = "long", "r"
"""Users see the resource and cannot set it."""


@dataclass(frozen=True, slots=True)
class PbsSettings:
    """The settings of PBS that matter here.

    ``resources``: type and flag of each custom resource.  ``files``: the text of each scheduler's sched_config by path,
    ``None`` where it cannot be read.  ``schedulers``: the attributes of each scheduler by name.
    """

    server: QmgrObject = field(default_factory=QmgrObject)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    schedulers: Mapping[str, QmgrObject] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one setting; ``before`` and ``after`` are its values, empty where it is not set or does not exist.

    ``file`` is the sched_config of a switch or a list member.  The values of a switch are those of its lines, separated
    by commas.
    """

    place: Place
    name: str
    before: str
    after: str
    why: str
    file: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the setting."""
        return self.place, self.file, self.name

    def __str__(self) -> str:
        """Return the change as text: setting, value before and after."""
        what = {
            "server": f"server {self.name}",
            "resource": f"resource {self.name}",
            "switch": f"{self.file}: {self.name}",
            "member": f"{self.file}: {self.name}",
        }[self.place]
        missing = "no such resource" if self.place == "resource" else "not set"
        before = "without it" if self.place == "member" and not self.before else self.before or missing
        return f"{what}: {before} -> {self.after or missing}"


class Requirement(ABC):
    """A setting that a preset needs: ``name``, and ``why`` in one sentence.

    ``decisive``: without it the preset does not do what it was simulated to do; otherwise the requirement is advice.
    """

    name: str
    why: str
    decisive: bool = True

    @abstractmethod
    def now(self, settings: PbsSettings) -> str:
        """Return the current value as text."""

    @abstractmethod
    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the changes that PBS needs; none if it is as it should be, or if only the site can decide."""

    def by_hand(self, settings: PbsSettings) -> str:
        """Return what only the site can decide, as a sentence with the command; empty: nothing."""
        return ""

    def readable(self, settings: PbsSettings) -> bool:
        """Return whether the setting can be read from here."""
        return True


@dataclass(frozen=True, slots=True)
class ServerAttribute(Requirement):
    """A server attribute.  ``refused``: the values that must be changed, empty for an unset one."""

    name: str
    wanted: str
    refused: frozenset[str]
    why: str
    decisive: bool = True

    def now(self, settings: PbsSettings) -> str:
        """Return the attribute."""
        return settings.server.get(self.name)

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the change of the attribute."""
        now = self.now(settings)
        if now.lower() not in self.refused:
            return ()
        return (Change("server", self.name, now, self.wanted, self.why),)


@dataclass(frozen=True, slots=True)
class Switch(Requirement):
    """A switch of sched_config, in the file of each scheduler."""

    name: str
    on: bool
    why: str

    def readable(self, settings: PbsSettings) -> bool:
        """Return whether a sched_config can be read."""
        return any(text is not None for text in settings.files.values())

    def now(self, settings: PbsSettings) -> str:
        """Return the values in all files."""
        found = (sched_config.values_of(text, self.name) for text in settings.files.values() if text is not None)
        return ", ".join(dict.fromkeys(value for values in found for value in values))

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the change of each file in which the switch has another value."""
        changes = []
        for file, text in settings.files.items():
            if text is not None and sched_config.switched(text, self.name) != {self.on}:
                before = sched_config.values_of(text, self.name)
                after = sched_config.values_of(sched_config.with_switch(text, self.name, on=self.on), self.name)
                changes.append(Change("switch", self.name, ",".join(before), ",".join(after), self.why, file))
        return tuple(changes)


@dataclass(frozen=True, slots=True)
class ListMember(Requirement):
    """A member of a list in sched_config, in the file of each scheduler."""

    name: str
    member: str
    why: str
    decisive: bool = True

    def readable(self, settings: PbsSettings) -> bool:
        """Return whether a sched_config can be read."""
        return any(text is not None for text in settings.files.values())

    def now(self, settings: PbsSettings) -> str:
        """Return the list of the first scheduler."""
        texts = [text for text in settings.files.values() if text is not None]
        return ", ".join(sched_config.members(texts[0], self.name)) if texts else ""

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the change of each file whose list lacks the member."""
        return tuple(
            Change("member", self.name, "", self.member, self.why, file)
            for file, text in settings.files.items()
            if text is not None and self.member not in sched_config.members(text, self.name)
            if sched_config.lines_of(text, self.name)
        )

    def by_hand(self, settings: PbsSettings) -> str:
        """Return what to do in a file without the list: a new one would restrict the resources that are checked."""
        for file, text in settings.files.items():
            if text is not None and not sched_config.lines_of(text, self.name):
                return (
                    f"{file} has no line {self.name}: add one that names all resources to check and {self.member}, "
                    "then send SIGHUP to the scheduler"
                )
        return ""


@dataclass(frozen=True, slots=True)
class CustomResource(Requirement):
    """A custom resource of a type that users see and cannot set."""

    name: str
    why: str
    type: str = TYPE
    otherwise: str = "choose another name"
    """What to do where a resource of that name and another type exists."""

    def now(self, settings: PbsSettings) -> str:
        """Return its type and flag."""
        found = settings.resources.get(self.name)
        return "" if found is None else definition(found)

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return its creation, or the change of its flag."""
        found = settings.resources.get(self.name)
        if found is None:
            return (Change("resource", self.name, "", definition({"type": self.type, "flag": FLAG}), self.why),)
        if found.get("type") != self.type or FLAG in found.get("flag", ""):
            return ()
        # i is not combined with r, and users may set a resource with m.
        after = {"type": self.type, "flag": "".join(each for each in found.get("flag", "") if each not in "im") + FLAG}
        return (Change("resource", self.name, definition(found), definition(after), self.why),)

    def by_hand(self, settings: PbsSettings) -> str:
        """Return what to do where a resource of that name and another type exists."""
        found = settings.resources.get(self.name)
        if found is None or found.get("type") == self.type:
            return ""
        return f"the site's own resource {self.name} has the type {found.get('type')}: {self.otherwise}"


@dataclass(frozen=True, slots=True)
class SortFormula(Requirement):
    """A job_sort_formula that uses the prediction; a formula of the site stays, unless another one is given."""

    resource: str
    chosen: str = ""
    name: str = "job_sort_formula"
    why: str = "jobs with a short predicted runtime start soon, and each job moves up while it waits"

    @property
    def expansion_factor(self) -> str:
        """The expansion factor over the prediction, with an age of one hour."""
        return f"(eligible_time + 3600.0) / ({self.resource} or walltime or 1e9)"

    def now(self, settings: PbsSettings) -> str:
        """Return the formula of the server, else of a scheduler."""
        return settings.server.get(self.name) or next(
            (found.get(self.name) for found in settings.schedulers.values() if found.get(self.name)), ""
        )

    def _holds(self, settings: PbsSettings) -> bool:
        now = self.now(settings)
        return now == self.chosen if self.chosen else bool(re.search(rf"\b{re.escape(self.resource)}\b", now))

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the change where there is no formula, or another one was asked for."""
        now = settings.server.get(self.name)
        if self._holds(settings) or (self.now(settings) and not (self.chosen and now)):
            return ()
        return (Change("server", self.name, now, self.chosen or self.expansion_factor, self.why),)

    def by_hand(self, settings: PbsSettings) -> str:
        """Return how to put the prediction into the site's formula."""
        now = self.now(settings)
        if not now or self._holds(settings) or self.missing(settings):
            return ""
        if not settings.server.get(self.name):
            return (
                f"a scheduler has the formula {now}: multiply it by {self.expansion_factor} with qmgr -c "
                f"'set sched NAME {self.name} = ...'"
            )
        return (
            f"the site's formula is {now} and stays: it does not use {self.resource}. To multiply it by the expansion "
            f"factor: softwalltime install --preset order --formula '({now}) * {self.expansion_factor}'"
        )


@dataclass(frozen=True, slots=True)
class NoThreshold(Requirement):
    """No job_sort_formula_threshold: a scheduler does not start jobs below it."""

    name: str = "job_sort_formula_threshold"
    why: str = "jobs whose formula gives less than the threshold are not started"
    decisive: bool = False

    def now(self, settings: PbsSettings) -> str:
        """Return the threshold of the first scheduler that has one."""
        return next((found.get(self.name) for found in settings.schedulers.values() if found.get(self.name)), "")

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return nothing: the site has set it for a reason."""
        return ()

    def by_hand(self, settings: PbsSettings) -> str:
        """Return how to unset it."""
        now = self.now(settings)
        if not now:
            return ""
        return f"the threshold {now} was chosen for another formula, and {self.why}: check it, or unset it"


def requirements(
    preset: str, resource: str = RESOURCE, formula: str = "", *, promises: bool = False
) -> tuple[Requirement, ...]:
    """Return what a preset needs, in the order in which it is changed; nothing for a preset that needs nothing.

    :param resource: name of the custom resource with the prediction.
    :param formula: the job_sort_formula to set in place of the site's, which stays if this is empty.
    :param promises: whether guard or steering is on, which read promised starts.
    """
    current_promises = ServerAttribute(
        "clear_topjob_estimates_enable",
        "True",
        frozenset({"", "false"}),
        "when another job becomes the top job, the former one loses its estimated start time"
        + (", which guard and steering would take for a promise" if promises else ""),
        decisive=False,
    )
    planning = (
        Switch(
            "strict_ordering",
            on=True,
            why="without it no job is planned ahead, and soft walltimes have no effect; "
            "with it a job that does not fit keeps its place, and only jobs that do not delay it overtake it",
        ),
        ListMember(
            "resources",
            "soft_walltime",
            "after one job that does not fit, the scheduler skips all jobs of the same walltime and resources, "
            "also those with a shorter soft walltime, unless this list names soft_walltime",
            decisive=False,
        ),
        ServerAttribute("backfill_depth", "1", frozenset({"0"}), "with 0 no job is planned ahead"),
    )
    if preset == "safe":
        return (*planning, current_promises) if promises else planning
    if preset != "order":
        return ()
    return (
        CustomResource(resource, "the hook sets the predicted runtime as this resource, which the formula reads"),
        ServerAttribute(
            "eligible_time_enable", "True", frozenset({"", "false"}), "the formula needs the time that a job has waited"
        ),
        current_promises,
        *planning,
        Switch("by_queue", on=False, why="the formula must compare the jobs of all queues"),
        Switch("round_robin", on=False, why="the formula must compare the jobs of all queues"),
        NoThreshold(),
        SortFormula(resource, formula),
    )


def preset_of(settings: Settings) -> str:
    """Return the preset in the settings for which PBS can be set up; empty if they name none of these."""
    preset = settings.policy.get("preset")
    return preset if preset in SETUPS else ""


def setup_of(policy: SitePolicy | None) -> str:
    """Return the preset for which PBS must be set up under a policy; empty: for none.

    The values of a custom policy that is on need what ``order`` needs, if one of them is an ordering value, else what
    ``safe`` needs.
    """
    if policy is None or policy.preset in ("off", "shadow"):
        return ""
    if policy.preset != "custom":
        return policy.preset
    values: tuple[SitePolicy | Rule, ...] = (policy, *policy.rules)
    if policy.mode != "on":
        return ""
    if any(each.ordering not in (None, KEEP) for each in values):
        return "order"
    return "safe" if any(each.waiting not in (None, KEEP, WALLTIME) for each in values) else ""


def resource_of(hook: Mapping[str, object] | None) -> str:
    """Return the name of the custom resource with the prediction, from the configuration of the hook."""
    return str((hook or {}).get("ordering") or RESOURCE)


def definition(resource: Mapping[str, str]) -> str:
    """Return type and flag of a resource as qmgr takes them.

    >>> definition({"type": "long", "flag": "r"})
    'type=long,flag=r'
    """
    return ",".join(f"{key}={resource[key]}" for key in ("type", "flag") if resource.get(key))


def unreadable(settings: PbsSettings, needs: Iterable[Requirement]) -> list[str]:
    """Return the sched_configs that cannot be read, if any of the requirements is about them."""
    if not any(isinstance(each, Switch | ListMember) for each in needs):
        return []
    return [file for file, text in settings.files.items() if text is None]
