"""Required settings of PBS and its schedulers as data: reason, current value, and necessary change."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from softwalltime.deployment import probes, sched_config
from softwalltime.deployment.qmgr import PbsError, Qmgr, QmgrObject

Place = Literal["server", "resource", "switch", "member"]
"""Place of a change: server attribute, custom resource, or switch or list in a sched_config."""
TYPE, FLAG = "long", "r"
"""Resource flag: users can read but not set it."""


@dataclass(frozen=True, slots=True)
class PbsSettings:
    """The relevant settings of PBS.

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
        return self.place, self.file, self.name

    def __str__(self) -> str:
        what = f"{self.file}: {self.name}" if self.file else f"{self.place} {self.name}"
        missing = "no such resource" if self.place == "resource" else "not set"
        before = "without it" if self.place == "member" and not self.before else self.before or missing
        return f"{what}: {before} -> {self.after or missing}"


@dataclass(frozen=True, slots=True)
class Requirement(ABC):
    """A setting that a preset needs: ``name``, and ``why`` in one sentence.

    ``decisive``: the preset does not work as simulated without it; otherwise the requirement is advice.
    """

    name: str
    why: str
    decisive: bool = field(default=True, kw_only=True)

    @abstractmethod
    def now(self, settings: PbsSettings) -> str:
        """Return the current value as text."""

    @abstractmethod
    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        """Return the necessary changes; empty if the requirement is met, or if only the site can decide."""

    def by_hand(self, settings: PbsSettings) -> str:
        """Return a sentence with the command for a change that only the site can decide; empty: none."""
        return ""


@dataclass(frozen=True, slots=True)
class ServerAttribute(Requirement):
    """A server attribute.  ``refused``: the values that must be changed, empty for an unset one."""

    wanted: str
    refused: frozenset[str]

    def now(self, settings: PbsSettings) -> str:
        return settings.server.get(self.name)

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        now = self.now(settings)
        if now.lower() not in self.refused:
            return ()
        return (Change("server", self.name, now, self.wanted, self.why),)


@dataclass(frozen=True, slots=True)
class Switch(Requirement):
    """A switch of sched_config, in the file of each scheduler."""

    on: bool

    def now(self, settings: PbsSettings) -> str:
        texts = (text for text in settings.files.values() if text is not None)
        return ", ".join(dict.fromkeys(value for text in texts for value in sched_config.values_of(text, self.name)))

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
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

    member: str

    def now(self, settings: PbsSettings) -> str:
        text = next((text for text in settings.files.values() if text is not None), "")
        return ", ".join(sched_config.members(text, self.name))

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        return tuple(
            Change("member", self.name, "", self.member, self.why, file)
            for file, text in settings.files.items()
            if text is not None and self.member not in sched_config.members(text, self.name)
            if sched_config.lines_of(text, self.name)
        )

    def by_hand(self, settings: PbsSettings) -> str:
        # A new list would restrict the resources that are checked.
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

    type: str = TYPE
    otherwise: str = "choose another name"
    """Remedy if a resource with this name and another type exists."""

    def now(self, settings: PbsSettings) -> str:
        found = settings.resources.get(self.name)
        return "" if found is None else definition(found)

    def missing(self, settings: PbsSettings) -> tuple[Change, ...]:
        found = settings.resources.get(self.name)
        if found is None:
            return (Change("resource", self.name, "", definition({"type": self.type, "flag": FLAG}), self.why),)
        if found.get("type") != self.type or FLAG in found.get("flag", ""):
            return ()
        # i is not combined with r, and users may set a resource with m.
        after = {"type": self.type, "flag": "".join(flag for flag in found.get("flag", "") if flag not in "im") + FLAG}
        return (Change("resource", self.name, definition(found), definition(after), self.why),)

    def by_hand(self, settings: PbsSettings) -> str:
        found = settings.resources.get(self.name)
        if found is None or found.get("type") == self.type:
            return ""
        return f"the site's own resource {self.name} has the type {found.get('type')}: {self.otherwise}"


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
        resources_of(pbs.execute("list resource")),
        sched_configs(pbs),
        schedulers,
    )


def resources_of(listed: str) -> Mapping[str, Mapping[str, str]]:
    """Return type and flag of the custom resources that ``list resource`` prints.

    >>> resources_of("Resource ngpus" + chr(10) + "    type = long" + chr(10) + "    flag = hn")
    {'ngpus': {'type': 'long', 'flag': 'hn'}}
    """
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in listed.splitlines():
        if match := re.match(r"Resource (\S+)", line):
            name = match[1]
            found[name] = {}
        elif name and (match := re.match(r"\s+(type|flag) = (\S+)", line)):
            found[name][match[1]] = match[2]
    return found


def sched_configs(pbs: Qmgr) -> dict[str, str | None]:
    """Return the sched_config of each scheduler, ``None`` where it cannot be read."""
    try:
        folders = [thing.get("sched_priv") for (kind, _), thing in pbs.objects("sched").items() if kind == "sched"]
    except PbsError:
        folders = []
    usual = pbs.home / "sched_priv"
    named = [Path(folder) for folder in folders if folder] or [usual]
    found = {str(folder / "sched_config"): probes.read_text(folder / "sched_config") for folder in named}
    # After PBS_HOME was moved, the server still names the old folder, but the scheduler reads the new one.
    if len(found) == 1 and None in found.values() and (text := probes.read_text(usual / "sched_config")) is not None:
        return {str(usual / "sched_config"): text}
    return found
