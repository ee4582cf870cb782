"""The presets of the policy as policies of the simulator, on a PBS that is set up for them."""

from softwalltime.policy.presets import HOUR, PRESETS, PresetName
from softwalltime.simulation.policies import WALLTIME, Policy

FORMULA = "(eligible_time + 3600.0) / (predicted or walltime or 1e9)"
"""Expansion factor over the prediction with an age of one hour: what ``softwalltime install --preset order`` sets."""
TODAY = "today"
_PRESETS: tuple[PresetName, ...] = ("safe", "order")


def preset_policies(minimum: int) -> dict[str, Policy]:
    """Return today's policy (first come, first served, walltimes) and those of the presets, by name.

    Each preset is there without its guard, as while live values are off, and with it.

    :param minimum: least soft walltime in seconds.
    """
    return {
        TODAY: Policy(backfill="pbs", minimum=minimum),
        **{
            f"{name}, guard 1 h" if guard else name: _policy(name, minimum, guard)
            for name in _PRESETS
            for guard in (None, HOUR)
        },
    }


def _policy(name: PresetName, minimum: int, guard: int | None) -> Policy:
    values = PRESETS[name].fixed
    ordering = values.get("ordering")
    return Policy(
        order="formula" if ordering else "fcfs",
        formula=FORMULA if ordering else "",
        backfill="pbs",
        waiting=values.get("waiting") or WALLTIME,
        running=values.get("running") or WALLTIME,
        ordering=ordering or WALLTIME,
        classes_by_value=True,
        minimum=minimum,
        guard=guard,
    )
