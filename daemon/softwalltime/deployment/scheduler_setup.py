"""Required settings of PBS and its schedulers as data: reason, current value, and necessary change."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from softwalltime.core.sched_config import lines_of, members, switches, values_of
from softwalltime.deployment import probes, sched_config
from softwalltime.deployment.qmgr import Qmgr, QmgrObject

Place = Literal["server", "resource", "switch", "member"]
"""Place of a change: server attribute, custom resource, or switch or list in a sched_config."""
_NEWER = ("clear_topjob_estimates_enable",)
"""Server attributes that OpenPBS 23.06 and earlier releases do not have."""
TYPE, FLAG = "long", "r"
"""Resource flag: users can read but not set it."""


@dataclass(frozen=True, slots=True)
class PbsSettings:
    """The relevant settings of PBS.

    ``resources``: type and flag of each custom resource.  ``files``: the text of each scheduler's sched_config by path,
    ``None`` where it cannot be read.  ``schedulers``: the attributes of each scheduler by name.  ``missing``:
    attributes of newer servers that this one does not know.
    """

    server: QmgrObject = field(default_factory=QmgrObject)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    schedulers: Mapping[str, QmgrObject] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    @property
    def readable(self) -> Mapping[str, str]:
        """The texts of the sched_configs that can be read, by path."""
        return {file: text for file, text in self.files.items() if text is not None}


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
        return self.place, self.file, self.name

    def __str__(self) -> str:
        what = f"{self.file}: {self.name}" if self.file else f"{self.place} {self.name}"
        missing = "no such resource" if self.place == "resource" else "not set"
        before = "without it" if self.place == "member" and not self.before else self.before or missing
        return f"{what}: {before} -> {self.after or missing}"


class RequirementState(NamedTuple):
    """A requirement and PBS's settings.

    ``now``: the current value.  ``changes``: those needed, empty if the requirement is met, or if only the site can
    decide.  ``by_hand``: a sentence with the command for a change that only the site can decide; empty: none.
    """

    now: str
    changes: Sequence[Change] = ()
    by_hand: str = ""


@dataclass(frozen=True, slots=True)
class Requirement(ABC):
    """A setting that a preset needs: ``name``, and ``why`` in one sentence.

    ``decisive``: the preset does not work as simulated without it; otherwise the requirement is advice.
    """

    name: str
    why: str
    decisive: bool = field(default=True, kw_only=True)

    @abstractmethod
    def state(self, settings: PbsSettings) -> RequirementState:
        """Compare the requirement with PBS's settings."""

    def change(self, place: Place, before: str, after: str, file: str = "") -> Change:
        return Change(place, self.name, before, after, self.why, file)


@dataclass(frozen=True, slots=True)
class ServerAttribute(Requirement):
    """A server attribute.  ``refused``: the values that must be changed, empty for an unset one."""

    wanted: str
    refused: frozenset[str]

    def state(self, settings: PbsSettings) -> RequirementState:
        now = settings.server.get(self.name)
        change = now.lower() in self.refused and self.name not in settings.missing
        return RequirementState(now, [self.change("server", now, self.wanted)] if change else [])


@dataclass(frozen=True, slots=True)
class Switch(Requirement):
    """A switch of sched_config, in the file of each scheduler."""

    on: bool

    def state(self, settings: PbsSettings) -> RequirementState:
        now: dict[str, None] = {}
        changes = []
        for file, text in settings.readable.items():
            before = values_of(text, self.name)
            now |= dict.fromkeys(before)
            if switches(text, self.name) != (self.on, self.on):
                after = values_of(sched_config.with_switch(text, self.name, on=self.on), self.name)
                changes.append(self.change("switch", ",".join(before), ",".join(after), file))
        return RequirementState(", ".join(now), changes)


@dataclass(frozen=True, slots=True)
class ListMember(Requirement):
    """A member of a list in sched_config, in the file of each scheduler."""

    member: str

    def state(self, settings: PbsSettings) -> RequirementState:
        lists = {file: members(text, self.name) for file, text in settings.readable.items()}
        # A new list would restrict the resources that are checked.
        without = [file for file, text in settings.readable.items() if not lines_of(text, self.name)]
        missing = [file for file, members in lists.items() if file not in without and self.member not in members]
        by_hand = "".join(
            f"{file} has no line {self.name}: add one that names all resources to check and {self.member}, then send "
            "SIGHUP to the scheduler"
            for file in without[:1]
        )
        now = ", ".join(next(iter(lists.values()), []))
        return RequirementState(now, [self.change("member", "", self.member, file) for file in missing], by_hand)


@dataclass(frozen=True, slots=True)
class CustomResource(Requirement):
    """A custom resource of a type that users see and cannot set."""

    type: str = TYPE
    otherwise: str = "choose another name"
    """Remedy if a resource with this name and another type exists."""

    def state(self, settings: PbsSettings) -> RequirementState:
        found = settings.resources.get(self.name, {})
        now, flags = definition(found), found.get("flag", "")
        if found and found.get("type") != self.type:
            by_hand = f"the site's own resource {self.name} has the type {found.get('type')}: {self.otherwise}"
            return RequirementState(now, by_hand=by_hand)
        if FLAG in flags:
            return RequirementState(now)
        # i is not combined with r, and users may set a resource with m.
        after = {"type": self.type, "flag": "".join(flag for flag in flags if flag not in "im") + FLAG}
        return RequirementState(now, [self.change("resource", now, definition(after))])


def definition(resource: Mapping[str, str]) -> str:
    """Return type and flag of a resource as qmgr takes them.

    >>> definition({"type": "long", "flag": "r"})
    'type=long,flag=r'
    """
    return ",".join(f"{key}={resource[key]}" for key in ("type", "flag") if resource.get(key))


def unreadable(settings: PbsSettings, needs: Iterable[Requirement]) -> list[str]:
    """Return the unreadable sched_configs, if a requirement concerns them."""
    if not any(isinstance(need, Switch | ListMember) for need in needs):
        return []
    return [file for file, text in settings.files.items() if text is None]


def read_settings(pbs: Qmgr) -> PbsSettings:
    """Return the settings of PBS."""
    schedulers = {name: found for (kind, name), found in pbs.objects("sched").items() if kind == "sched"}
    return PbsSettings(
        pbs.objects("server").get(("server", ""), QmgrObject()),
        {
            name: {key: value for key in ("type", "flag") if (value := resource.get(key))}
            for (_, name), resource in pbs.objects("resource").items()
        },
        _sched_configs(pbs.home, schedulers.values()),
        schedulers,
        frozenset(name for name in _NEWER if not pbs.knows(name)),
    )


def _sched_configs(home: Path, schedulers: Iterable[QmgrObject]) -> dict[str, str | None]:
    """Return the sched_config of each scheduler, ``None`` where it cannot be read."""
    usual = home / "sched_priv"
    named = [Path(folder) for scheduler in schedulers if (folder := scheduler.get("sched_priv"))] or [usual]
    found = {str(folder / "sched_config"): probes.read_text(folder / "sched_config") for folder in named}
    # After PBS_HOME was moved, the server still names the old folder, but the scheduler reads the new one.
    if len(found) == 1 and None in found.values() and (text := probes.read_text(usual / "sched_config")) is not None:
        return {str(usual / "sched_config"): text}
    return found
