"""How much longer a class of jobs may wait, and how many promises may break, so that others wait less."""

from dataclasses import dataclass

from softwalltime.reports.simulation import TAILS, SettingWaits
from softwalltime.simulation.differences import Interval

_NAMES = dict(zip(TAILS, ("all jobs", "widest tenth", "half the machine", "longest tenth"), strict=True))


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """The greatest growth of waits and broken promises against what the site runs, as shares."""

    tail: float = 0.05
    """Of the 99th percentile of the wait of each class of jobs."""
    longest: float = 0.10
    """Of the longest wait."""
    broken: float = 0.05
    """Of the promised starts, those that a policy breaks more."""


def tail_growths(waits: SettingWaits) -> dict[str, Interval]:
    """Return the change of the 99th percentile of the wait by class: "of the widest tenth"."""
    return {f"of {name}": waits.changes[tail] for tail, name in _NAMES.items()}


def exceeds(growth: Interval, limit: float) -> bool:
    """Return whether a growth is above its limit in the mean, and above none beyond the 95% interval."""
    return growth.mean is not None and growth.mean > limit and (growth.low is None or growth.low > 0)


def longer_tails(waits: SettingWaits, limits: WaitLimits) -> dict[str, tuple[Interval, float]]:
    """Return the growths of tails that exceed their limits, with these, by what they are of."""
    held = {f"99th percentile wait {name}": (growth, limits.tail) for name, growth in tail_growths(waits).items()}
    held["longest wait"] = (waits.changes["wait_max"], limits.longest)
    return {name: each for name, each in held.items() if exceeds(*each)}
