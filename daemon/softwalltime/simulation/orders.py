"""Queue orders: the priority of each waiting job; the highest comes first, ties go to the earlier submission."""

from collections.abc import Callable
from functools import partial

import numpy as np

from softwalltime.errors import OptionError
from softwalltime.policy.power_order import NAME as POWERS
from softwalltime.policy.power_order import OLDEST_FIRST, PowerOrder
from softwalltime.simulation.fairshare import FairShare
from softwalltime.simulation.formula import Formula
from softwalltime.simulation.jobs import Floats, Integers, Jobs
from softwalltime.simulation.order import Order
from softwalltime.simulation.policies import SchedulerPolicy
from softwalltime.simulation.values import Values


class _ColumnOrder(Order):
    """Input of the orders: columns of all jobs; ``value`` are the ordering values, which change as jobs arrive."""

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        self.submitted = np.array(jobs.submitted, np.int64)
        self.processors = np.array(jobs.processors, np.float64)
        self.value = values.ordering
        self.age = policy.age


class ShortestFirst(_ColumnOrder):
    """Shortest ordering value first (SJF)."""

    fixed = True

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return -self.value[waiting]


class LongestFirst(_ColumnOrder):
    """Longest ordering value first (LJF)."""

    fixed = True

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return self.value[waiting]


class Wfp(_ColumnOrder):
    """(wait / value)^3 x processors (Tang et al. 2013, eq. 5)."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The cube of the relative wait, times the processors."""
        relative = (now - self.submitted[waiting]) / self.value[waiting]
        priorities: Floats = relative * relative * relative * self.processors[waiting]
        return priorities


class ExpansionFactor(_ColumnOrder):
    """(wait + age) / value, with an age of 3600 s by default."""

    def priorities(self, waiting: Integers, now: int) -> Floats:
        priorities: Floats = (now - self.submitted[waiting] + self.age) / self.value[waiting]
        return priorities


class Unicef(_ColumnOrder):
    """wait / (log2(processors) x value): short jobs on few processors soon.

    UNICEF of W. Tang, Z. Lan, N. Desai, D. Buettner: Fault-aware, utility-based job scheduling on Blue Gene/P systems.
    CLUSTER 2009.  The greatest comes first.  A job on one processor comes first as soon as it waits, as the formula
    divides by 0; of several such jobs the one submitted first.
    """

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The quotient; 0 for a job that has not waited."""
        wait = (now - self.submitted[waiting]).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            priorities = wait / (np.log2(self.processors[waiting]) * self.value[waiting])
        return np.where(wait > 0, priorities, 0.0)


class LearnedFormula(_ColumnOrder):
    """F1 to F4, which D. Carastan-Santos & R. Y. de Camargo found by regression over simulated schedules.

    Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning.  SC 2017, table 3.  With value r,
    processors n and submission s.  The least comes first.  The regressions have a coefficient for each term; the
    constants are their quotients, cut to three digits.  The unrounded coefficients are in the simulator that was
    published with the paper (sched-simulator-runtime.c); their quotients are 870.96, 25,673, 6,862,777 and 530,988.

    s is in seconds since the first submission, at least 1.  That simulator starts each sequence of 15 days at 0.  The
    logarithm makes a difference in age count less, the longer the log is.

    :param score: of r, n and log10(s).
    """

    fixed = True

    def __init__(
        self, score: Callable[[Floats, Floats, Floats], Floats], jobs: Jobs, values: Values, policy: SchedulerPolicy
    ) -> None:
        super().__init__(jobs, values, policy)
        first = self.submitted[0] if len(jobs) else 0
        self._score = score
        self._arrival = np.log10(np.maximum(self.submitted - first, 1))

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return -self._score(self.value[waiting], self.processors[waiting], self._arrival[waiting])


class Powers(_ColumnOrder):
    """Powers of wait, length and size (:mod:`softwalltime.policy.power_order`) in PBS's single precision."""

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        """:raises OptionError: if the order's specification is wrong."""
        super().__init__(jobs, values, policy)
        self._powers = PowerOrder.of(policy.order)
        self._walltime = values.limit_array.astype(np.float64)

    def priorities(self, waiting: Integers, now: int) -> Floats:
        of = self._powers
        wait = (now - self.submitted[waiting]).astype(np.float64)
        runtime, limit = self.value[waiting], self._walltime[waiting]
        by_runtime, by_limit, by_size = of.exponents
        priorities = wait + of.age
        if by_runtime == by_limit:
            priorities /= np.power(runtime * limit, by_runtime)
        else:
            priorities = priorities / np.power(runtime, by_runtime) / np.power(limit, by_limit)
        # Not **: numpy takes the square root for **0.5, whose last bit may differ from the formula's power.
        priorities *= np.power(self.processors[waiting], by_size)
        if of.limit is not None:
            priorities = np.where(wait > of.limit, float(OLDEST_FIRST) + wait, priorities)
        single: Floats = priorities.astype(np.float32).astype(np.float64)
        return single


ORDERS: dict[str, Callable[[Jobs, Values, SchedulerPolicy], Order] | None] = {
    "fcfs": None,
    "sjf": ShortestFirst,
    "ljf": LongestFirst,
    "wfp": Wfp,
    "xf": ExpansionFactor,
    "unicef": Unicef,
    "f1": partial(LearnedFormula, lambda r, n, log_s: np.log10(r) * n + 870 * log_s),
    "f2": partial(LearnedFormula, lambda r, n, log_s: np.sqrt(r) * n + 25600 * log_s),
    "f3": partial(LearnedFormula, lambda r, n, log_s: r * n + 6860000 * log_s),
    "f4": partial(LearnedFormula, lambda r, n, log_s: r * np.sqrt(n) + 530000 * log_s),
    "fairshare": FairShare,
    "formula": Formula,
    POWERS: Powers,
}
"""The orders by name; first come, first served needs no priorities."""


def order_of(jobs: Jobs, values: Values, policy: SchedulerPolicy) -> Order | None:
    """Return the order that a policy names, which has options after a colon if it is of the family of powers.

    :raises OptionError: if there is no such order, or its options are wrong.
    """
    name, colon, _ = policy.order.partition(":")
    if name not in ORDERS:
        raise OptionError(f"no order is called {name!r}; there are {', '.join(ORDERS)}")
    if colon and name != POWERS:
        raise OptionError(f"{policy.order!r}: the order {name} has no options")
    make = ORDERS[name]
    return make and make(jobs, values, policy)
