"""The presets of the policy as policies of the simulator, on a PBS that is set up for them."""

from collections.abc import Callable
from dataclasses import replace

from softwalltime.policy.clamp import MINIMUM
from softwalltime.policy.power_order import EXPANSION_FACTOR
from softwalltime.policy.presets import HOUR, PRESETS, PresetName
from softwalltime.policy.site import WALLTIME
from softwalltime.simulation.policies import Policy

RESOURCE = "predicted"
"""Name of the ordering value in the simulator's formulas."""
FORMULA = EXPANSION_FACTOR.formula(RESOURCE)
"""Expansion factor over the prediction with an age of one hour: what ``softwalltime install --preset order`` sets."""
TODAY = "today"
WITHOUT_LIVE = ", live values off"
_CHANGING: tuple[PresetName, ...] = ("safe", "balanced", "order")


def preset_policies(minimum: int, baseline: str = TODAY) -> dict[str, Policy]:
    """Return what sites run today and the presets, by name; the baseline comes first.

    A preset has its guard; another policy is the preset while live values are off.  safe is today's policy then, and
    is left out.

    :param minimum: least soft walltime in seconds.
    :param baseline: one of :data:`BASELINES`.
    """
    policies = {name: make(minimum) for name, make in BASELINES.items()}
    first = {baseline: policies[baseline]}
    presets = {
        name if guard else f"{name}{WITHOUT_LIVE}": preset_policy(name, minimum, guard)
        for name in _CHANGING
        for guard in (HOUR, None)
        if guard or PRESETS[name].order
    }
    return first | policies | presets


def preset_policy(name: PresetName, minimum: int = MINIMUM, guard: int | None = HOUR) -> Policy:
    """Return a preset as a policy of the simulator: order, backfilling and predictors on a PBS set up for it.

    Presets that set nothing, and ``custom``, are today's policy.

    :param minimum: least soft walltime in seconds.
    :param guard: seconds; ``None``: live values are off, so a preset that needs the guard plans with walltimes.
    """
    preset = PRESETS[name]
    if preset.fixed.get("mode") != "on":
        return BASELINES[TODAY](minimum)
    values = preset.fixed
    order = preset.order
    waiting = WALLTIME if guard is None and preset.needs_guard else values.get("waiting") or WALLTIME
    return Policy(
        order="fcfs" if order is None else "formula",
        formula="" if order is None else order.formula(RESOURCE),
        backfill="pbs",
        waiting=waiting,
        running=values.get("running") or WALLTIME,
        ordering=values.get("ordering") or WALLTIME,
        classes_by_value=True,
        minimum=minimum,
        guard=guard if waiting != WALLTIME else None,
    )


def _today(minimum: int) -> Policy:
    return Policy(backfill="pbs", minimum=minimum)


BASELINES: dict[str, Callable[[int], Policy]] = {
    TODAY: _today,
    "as delivered": lambda minimum: replace(_today(minimum), strict_ordering=False),
    "WFP": lambda minimum: replace(_today(minimum), order="wfp"),
}
"""What sites run, by name: PBS with strict ordering in order of arrival, PBS as delivered (it reserves nothing, so
every job that fits starts), and WFP, which is usual on machines for wide jobs; all with walltimes."""
