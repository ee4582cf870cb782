"""The policies by name: the values that ``preset`` in ``[policy]`` stands for.  deploy/POLICIES.md describes each.

A site goes from one to another by changing one word, and back by the same word: values in the settings that a preset
does not use stay there unused.  ``safe`` and ``balanced`` have short waiting values only while the guard acts.  Without
live values waiting jobs are planned with their walltimes: ``safe`` then changes nothing, and ``balanced`` the order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from softwalltime.predict.policy.power_order import BALANCED, EXPANSION_FACTOR, PowerOrder

PresetName = Literal["off", "shadow", "safe", "balanced", "order", "custom"]
RECOMMENDED: Final = "balanced"
"""The preset that shortens waits without making a class of jobs wait much longer."""
HALF: Final = "factor:0.5"
"""The waiting value that needs no history: half the walltime."""
BALANCED_WAITING: Final = "factor:0.7"
"""The waiting value of balanced: fewer promises break than with half the walltime, and most of the gain stays."""
HOUR: Final = 3600
"""The guard of the presets: seconds that the top job may be later than promised."""
UNDO: Final = "softwalltime policy set off --apply"
"""The command that undoes what was switched on."""
MEDIAN: Final = "percentile:p=50,keys=user+project+walltime,bound=8"
"""The ordering value: a predicted median."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of values of the policy.

    ``fixed`` are the values that hold whatever the settings say, ``defaults`` those that hold where the settings give
    none.  ``most`` is the strongest mode that a rule can give to a job.  ``guard`` is that of live values in seconds,
    where the settings give none.  ``needs_guard``: waiting values are walltimes where no guard acts.  ``order`` gives
    the ``job_sort_formula``; ``None``: the order of the queue stays.
    """

    name: PresetName
    summary: str
    fixed: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, str | None] = field(default_factory=dict)
    most: Literal["off", "shadow", "on"] = "on"
    guard: int | None = None
    needs_guard: bool = False
    order: PowerOrder | None = None


_ORDER: Final = {"waiting": HALF, "running": "walltime", "ordering": MEDIAN}
_BALANCED: Final = {**_ORDER, "waiting": BALANCED_WAITING}
_SAFE: Final = {"waiting": HALF, "running": "walltime", "ordering": None}
PRESETS: Final[Mapping[PresetName, Preset]] = {
    preset.name: preset
    for preset in (
        Preset("off", "predict nothing, set nothing", {"mode": "off"}, most="off"),
        Preset("shadow", "predict and record, set nothing", {"mode": "shadow"}, _BALANCED, most="shadow"),
        Preset(
            "safe",
            "half the walltime while a job waits; the order is unchanged",
            {"mode": "on", **_SAFE},
            guard=HOUR,
            needs_guard=True,
        ),
        Preset(
            "balanced",
            "0.7 of the walltime while a job waits, and an order in which short, wide and old jobs come earlier",
            {"mode": "on", **_BALANCED},
            guard=HOUR,
            needs_guard=True,
            order=BALANCED,
        ),
        Preset(
            "order",
            "safe, and the expansion factor over a predicted median as order of the queue",
            {"mode": "on", **_ORDER},
            guard=HOUR,
            order=EXPANSION_FACTOR,
        ),
        Preset("custom", "the values of the settings"),
    )
}
"""All presets, from the one that does nothing to the one that does most."""


def resolved(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of ``[policy]`` with those that their preset gives; an unknown preset gives none."""
    name = values.get("preset", "custom")
    preset = next((preset for preset in PRESETS.values() if preset.name == name), None)
    return dict(values) if preset is None else {**preset.defaults, **values, **preset.fixed}


def guard_of(name: object) -> int | None:
    """Return the guard of a preset by name, in seconds; ``None`` for one without, and for an unknown preset."""
    return next((preset.guard for preset in PRESETS.values() if preset.name == name), None)


def unused(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keys of ``[policy]`` whose values differ from those that the preset fixes, and do not count."""
    fixed = resolved(values)
    return tuple(key for key, value in values.items() if fixed[key] != value)
