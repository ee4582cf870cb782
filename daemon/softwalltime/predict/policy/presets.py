"""Presets: named sets of values for ``[policy]``; deploy/POLICIES.md describes each.

A preset ignores settings that it does not use, so a site can switch back and forth by changing one word.  ``safe`` and
``balanced`` use short waiting values only while the guard is active.  Without live values waiting jobs are planned with
their walltimes: ``safe`` then changes nothing, and ``balanced`` only the order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from softwalltime.predict.policy.power_order import BALANCED, EXPANSION_FACTOR, PowerOrder

PresetName = Literal["off", "shadow", "safe", "balanced", "order", "custom"]
RECOMMENDED: Final = "balanced"
"""The preset that shortens waits without making a class of jobs wait much longer."""
HALF: Final = "factor:0.5"
"""Waiting value of half the walltime, which needs no history."""
BALANCED_WAITING: Final = "factor:0.7"
"""Waiting value of balanced: fewer broken promises than with half the walltime, and most of its gain."""
HOUR: Final = 3600
"""Guard of the presets: maximum seconds by which the top job may be late."""
UNDO: Final = "softwalltime policy set off --apply"
"""Command that switches a policy off."""
MEDIAN: Final = "percentile:p=50,keys=user+project+walltime,threshold=0.125"
"""Predictor of the ordering value: the median, and at least an eighth of the walltime, so that fakes gain little."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of values of the policy, and its effect in a few words.

    ``fixed``: values that override the settings.  ``defaults``: values where the settings give none.  ``most``:
    strongest mode that a rule can give to a job.  ``guard``: default guard of live values in seconds.
    ``needs_guard``: without guard, waiting values are walltimes.  ``order``: defines the ``job_sort_formula``;
    ``None``: the order of the queue is unchanged.
    """

    name: PresetName
    summary: str
    fixed: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, str | None] = field(default_factory=dict)
    most: Literal["off", "shadow", "on"] = "on"
    guard: int | None = None
    needs_guard: bool = False
    order: PowerOrder | None = None


_ORDER: Final = {"mode": "on", "waiting": HALF, "running": "walltime", "ordering": MEDIAN}
_BALANCED: Final = {**_ORDER, "waiting": BALANCED_WAITING}
_SAFE: Final = {**_ORDER, "ordering": None}
PRESETS: Final[Mapping[PresetName, Preset]] = {
    preset.name: preset
    for preset in (
        Preset("off", "predict nothing, set nothing", {"mode": "off"}, most="off"),
        Preset("shadow", "predict and record, set nothing", {"mode": "shadow"}, _BALANCED, most="shadow"),
        Preset(
            "safe", "half the walltime while a job waits; the order is unchanged", _SAFE, guard=HOUR, needs_guard=True
        ),
        Preset(
            "balanced", "0.7 of the walltime while a job waits, and an order in which short, wide and old jobs come "
            "earlier", _BALANCED, guard=HOUR, needs_guard=True, order=BALANCED,
        ),
        Preset(
            "order", "safe, and the expansion factor over a predicted median as order of the queue", _ORDER, guard=HOUR,
            order=EXPANSION_FACTOR,
        ),
        Preset("custom", "the values of the settings"),
    )
}  # fmt: skip
"""All presets, from the weakest to the strongest."""


def resolved(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of ``[policy]`` with their preset applied; an unknown preset changes nothing."""
    name = values.get("preset", "custom")
    preset = next((preset for preset in PRESETS.values() if preset.name == name), None)
    return dict(values) if preset is None else {**preset.defaults, **values, **preset.fixed}


def guard_of(name: object) -> int | None:
    """Return the guard of a preset by name, in seconds; ``None`` for one without, and for an unknown preset."""
    return next((preset.guard for preset in PRESETS.values() if preset.name == name), None)


def unused(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keys of ``[policy]`` whose values the preset overrides with other values."""
    fixed = resolved(values)
    return tuple(key for key, value in values.items() if fixed[key] != value)
