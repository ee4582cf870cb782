"""Settings of PBS's fair share: who is counted, what counts as usage, how it decays, and the shares of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

Entity = Literal["euser", "egroup", "Account_Name", "queue", "egroup:euser"]
ENTITIES: dict[Entity, tuple[str, ...]] = {
    "euser": ("user",), "egroup": ("group",), "Account_Name": ("account",), "queue": ("queue",),
    "egroup:euser": ("group", "user"),
}  # fmt: skip
"""The fields of a submission that name its entity, with colons between them."""
ROOT, UNKNOWN = "root", "unknown"
"""The name of the tree's root as a parent, which a user may have too, and the group of all who are not in the file."""


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """A line of resource_group."""

    name: str
    """An entity, or a group of entities."""
    parent: str
    """The group that it belongs to, or root."""
    shares: Annotated[int, Field(ge=0)]
    """Its shares in that group."""


def _tree(groups: tuple[ShareGroup, ...]) -> tuple[ShareGroup, ...]:
    """Refuse groups that are no tree, as PBS does."""
    known = {UNKNOWN}
    for group in groups:
        if group.name in known:
            raise ValueError(f"{group.name!r} is there twice")
        if group.parent not in {*known, ROOT}:
            raise ValueError(f"no group {group.parent!r} comes before {group.name!r}")
        known.add(group.name)
    return groups


@dataclass(frozen=True, slots=True)
class FairShareSettings:
    """The options of sched_config for fair share, and the tree of resource_group; the defaults are equal shares."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    entity: Entity = "euser"
    """Whose usage is counted: fairshare_entity."""
    usage: str = "ncpus*walltime"
    """What counts: fairshare_usage_res."""
    decay_time: Annotated[int, Field(ge=1)] = 86400
    """Seconds between two decays."""
    decay_factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """What is left of the usage after a decay."""
    unknown_shares: Annotated[int, Field(ge=0)] = 1
    """Shares of all who are not in resource_group together."""
    groups: Annotated[tuple[ShareGroup, ...], AfterValidator(_tree)] = ()
    """The lines of resource_group, groups before their members."""
    used: tuple[tuple[str, float], ...] = ()
    """What entities had used at the begin, as pairs; others nothing."""
    decayed: int | None = None
    """When usage decayed last, in epoch seconds; null: at the begin."""


_HEADER, _LAST_DECAY, _USAGE = Struct("9s7xd"), Struct("q"), Struct("50s6xd")
_MAGIC = b"PBS_MAG!"


def recorded_usage(data: bytes) -> tuple[int | None, tuple[tuple[str, float], ...]] | None:
    """Return when usage decayed last (epoch seconds), and what each entity has used, by the scheduler's file ``usage``.

    The time is ``None`` if it never decayed; all is ``None`` for another file or version (OpenPBS,
    src/scheduler/fairshare.cpp: ``write_usage``).
    """
    head = _HEADER.size + _LAST_DECAY.size
    if len(data) < head or _HEADER.unpack_from(data)[0].rstrip(b"\0") != _MAGIC or _HEADER.unpack_from(data)[1] != 2:
        return None
    records = data[head : len(data) - (len(data) - head) % _USAGE.size]
    used = ((name.partition(b"\0")[0].decode(errors="replace"), usage) for name, usage in _USAGE.iter_unpack(records))
    (decayed,) = _LAST_DECAY.unpack_from(data, _HEADER.size)
    return decayed or None, tuple((name, usage) for name, usage in used if 0 <= usage < float("inf"))


def share_groups(text: str) -> Iterator[ShareGroup]:
    """Yield the groups of a resource_group file; as in PBS, lines with an error do not count (``parse_group``).

    >>> list(share_groups("grp1 50 root 10\\nalice 60 grp1 4\\nbob 61 nowhere 4"))
    [ShareGroup(name='grp1', parent='root', shares=10), ShareGroup(name='alice', parent='grp1', shares=4)]
    """
    known = {UNKNOWN}
    for line in text.splitlines():
        name, number, parent, shares, *_ = (*line.split(), "", "", "", "")
        whole = number.lstrip("-").isdecimal() and shares.isdecimal()
        if whole and not name.startswith("#") and name not in known and parent in {*known, ROOT}:
            known.add(name)
            yield ShareGroup(name, parent, int(shares))
