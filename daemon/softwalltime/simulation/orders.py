"""Queue orders: the priority of each waiting job; the highest comes first, ties go to the earlier submission."""

from collections.abc import Callable

import numpy as np

from softwalltime.simulation.fairshare import FairShare
from softwalltime.simulation.formula import Formula
from softwalltime.simulation.jobs import Floats, Integers, Jobs
from softwalltime.simulation.order import Order
from softwalltime.simulation.policies import Policy
from softwalltime.simulation.values import Values


class _ColumnOrder(Order):
    """What the orders read: columns of all jobs; ``value`` are the ordering values, which change as jobs arrive."""

    def __init__(self, jobs: Jobs, values: Values, policy: Policy) -> None:
        self.submitted = np.array(jobs.submitted, np.int64)
        self.processors = np.array(jobs.processors, np.float64)
        self.value = values.ordering
        self.age = policy.age


class ShortestFirst(_ColumnOrder):
    """Shortest ordering value first (SJF)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the value."""
        return -self.value[waiting]


class LongestFirst(_ColumnOrder):
    """Longest ordering value first (LJF)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The value."""
        return self.value[waiting]


class Wfp(_ColumnOrder):
    """(wait / value)^3 x processors (Tang et al. 2013, eq. 5)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The cube of the relative wait, times the processors."""
        relative = (now - self.submitted[waiting]) / self.value[waiting]
        found: Floats = relative * relative * relative * self.processors[waiting]
        return found


class ExpansionFactor(_ColumnOrder):
    """(wait + age) / value, with an age of 3600 s by default."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The expansion factor."""
        found: Floats = (now - self.submitted[waiting] + self.age) / self.value[waiting]
        return found


class Unicef(_ColumnOrder):
    """wait / (log2(processors) x value) (Tang et al. 2009): short jobs on few processors soon.

    A job on one processor comes first as soon as it waits, as the formula divides by 0.
    """

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The quotient; 0 for a job that has not waited."""
        wait = (now - self.submitted[waiting]).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = wait / (np.log2(self.processors[waiting]) * self.value[waiting])
        return np.where(wait > 0, found, 0.0)


class _LearnedFormula(_ColumnOrder):
    """The orders that Carastan-Santos & de Camargo (SC 2017, table 3) found by machine learning.

    With value r, processors n and the submission s in seconds since the first one, at least 1.  The least comes first.
    """

    def __init__(self, jobs: Jobs, values: Values, policy: Policy) -> None:
        super().__init__(jobs, values, policy)
        first = self.submitted[0] if len(jobs) else 0
        self.arrival = np.log10(np.maximum(self.submitted - first, 1))


class F1(_LearnedFormula):
    """log10(r) n + 870 log10(s)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the score."""
        score: Floats = np.log10(self.value[waiting]) * self.processors[waiting] + 870 * self.arrival[waiting]
        return -score


class F2(_LearnedFormula):
    """sqrt(r) n + 25600 log10(s)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the score."""
        score: Floats = np.sqrt(self.value[waiting]) * self.processors[waiting] + 25600 * self.arrival[waiting]
        return -score


class F3(_LearnedFormula):
    """r n + 6860000 log10(s)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the score."""
        score: Floats = self.value[waiting] * self.processors[waiting] + 6860000 * self.arrival[waiting]
        return -score


class F4(_LearnedFormula):
    """r sqrt(n) + 530000 log10(s)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """Minus the score."""
        score: Floats = self.value[waiting] * np.sqrt(self.processors[waiting]) + 530000 * self.arrival[waiting]
        return -score


ORDERS: dict[str, Callable[[Jobs, Values, Policy], Order] | None] = {
    "fcfs": None,
    "sjf": ShortestFirst,
    "ljf": LongestFirst,
    "wfp": Wfp,
    "xf": ExpansionFactor,
    "unicef": Unicef,
    "f1": F1,
    "f2": F2,
    "f3": F3,
    "f4": F4,
    "fairshare": FairShare,
    "formula": Formula,
}
"""The orders by name; first come, first served needs no priorities."""
