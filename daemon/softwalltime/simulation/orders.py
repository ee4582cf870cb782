"""Queue orders: the priority of each waiting job; the highest comes first, ties go to the earlier submission."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from softwalltime.simulation.jobs import Floats, Integers, Jobs
from softwalltime.simulation.policies import Policy


class Order(Protocol):
    """An order other than first come, first served."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The priority of each of these jobs at ``now``."""


class _Columns:
    """What the orders read: columns of all jobs; ``value`` are the ordering values, which change as jobs arrive."""

    def __init__(self, jobs: Jobs, value: Floats, policy: Policy) -> None:
        self.submitted = np.array(jobs.submitted, np.int64)
        self.processors = np.array(jobs.processors, np.float64)
        self.value = value
        self.age = policy.age


class ShortestFirst(_Columns):
    """Shortest ordering value first (SJF)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the value."""
        return -self.value[waiting]


class LongestFirst(_Columns):
    """Longest ordering value first (LJF)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The value."""
        return self.value[waiting]


class Wfp(_Columns):
    """(wait / value)^3 x processors (Tang et al. 2013, eq. 5)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The cube of the relative wait, times the processors."""
        relative = (now - self.submitted[waiting]) / self.value[waiting]
        found: Floats = relative * relative * relative * self.processors[waiting]
        return found


class ExpansionFactor(_Columns):
    """(wait + age) / value, with an age of 3600 s by default."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The expansion factor."""
        found: Floats = (now - self.submitted[waiting] + self.age) / self.value[waiting]
        return found


ORDERS: dict[str, Callable[[Jobs, Floats, Policy], Order] | None] = {
    "fcfs": None,
    "sjf": ShortestFirst,
    "ljf": LongestFirst,
    "wfp": Wfp,
    "xf": ExpansionFactor,
}
"""The orders by name; first come, first served needs no priorities."""
