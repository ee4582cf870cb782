"""Queue orders: the priority of each waiting job; the highest comes first, ties go to the earlier submission.

:class:`PlacesFirst` keeps promised starts.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from softwalltime.core.errors import OptionError
from softwalltime.measure.simulation.fair_share import CountedUsage
from softwalltime.measure.simulation.formula import Environment, compiled, names_in
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.shares import FairShareSettings
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs
from softwalltime.predict.policy.power_order import NAME as POWERS
from softwalltime.predict.policy.power_order import OLDEST_FIRST, PowerOrder

CHUNK = 64
"""Number of jobs to sort first, if rarely all are needed."""
BLOCK = 512
"""Number of candidates to test first, if their order is known."""


class Order(ABC):
    """An order other than first come, first served: the highest priority first, ties by earlier submission."""

    changes_on_start: bool = False
    """Whether a start, or a plan for one, changes priorities at that instant."""
    usage: CountedUsage | None = None
    """The usage on which priorities depend; it is told of each cycle, start and end."""
    fixed: bool = False
    """Whether a job's priority stays as at its submission while its values stay."""

    @abstractmethod
    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The priority of each of these jobs at ``now``, in an array of its own."""

    def ranked(self, waiting: Integers, now: int) -> Integers:
        """Return these jobs, the highest priority first; jobs of equal priority keep their order."""
        return waiting[np.argsort(-self.priorities(waiting, now), kind="stable")]


class _OrderWithin(Order):
    """Jobs ordered by something else first, and then by another order."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.changes_on_start, self.usage = order.changes_on_start, order.usage


class Arrival(Order):
    """First come, first served."""

    fixed = True

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return np.zeros(len(waiting))


class QueueByQueue(_OrderWithin):
    """Another order in each queue, one queue after the other, as with PBS's by_queue.

    :param queue_of: the position of each job's queue.
    """

    def __init__(self, order: Order, queue_of: Integers) -> None:
        super().__init__(order)
        self._queue_of = queue_of
        self.fixed = isinstance(order, Arrival)

    def priorities(self, waiting: Integers, now: int) -> Floats:
        queues = self._queue_of[waiting]
        if self.fixed:
            return -queues.astype(np.float64)
        within = self._order.priorities(waiting, now)
        order = np.lexsort((-within, queues))
        queues, within = queues[order], within[order]
        differs = (queues[1:] != queues[:-1]) | (within[1:] != within[:-1])
        ranks = np.empty(len(waiting))
        ranks[order] = np.concatenate(([0], np.cumsum(differs)))[: len(waiting)]
        return -ranks


class PlacesFirst(_OrderWithin):
    """Another order, in which the jobs that have a place come first, of several the one submitted first.

    A job has a place from a planned start on that is the first one or differs from the one before, as in
    :mod:`softwalltime.service.live.alters`, or once its bound is near.

    :param least_age: seconds since the submission before which a planned start does not count; ``None``: none counts.
    """

    def __init__(self, order: Order, jobs: int, least_age: int | None) -> None:
        super().__init__(order)
        self._least_age = least_age
        self._planned: dict[int, int] = {}
        self._placed = np.zeros(jobs, np.bool_)

    def plan(self, job: int, start: int, age: int) -> None:
        """Note that a job that was submitted ``age`` seconds ago is planned to start at ``start``."""
        if self._least_age is not None and self._planned.get(job) != start:
            self._planned[job] = start
            if age >= self._least_age:
                self.take(job)

    def take(self, job: int) -> None:
        self._placed[job] = True

    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The priorities of the other order, infinite for a job that has a place."""
        priorities = self._order.priorities(waiting, now)
        priorities[self._placed[waiting]] = np.inf
        return priorities

    def leave(self, job: int) -> None:
        self._planned.pop(job, None)


def best_first(jobs: Integers, priorities: Floats) -> Iterator[Integers]:
    """The jobs in lazily sorted pieces, the highest priority first; jobs of equal priority keep their order."""
    size = CHUNK
    while len(jobs) > 2 * size:
        bound = np.partition(priorities, -size)[-size]
        # Include all jobs with the piece's lowest priority, so that equal ones keep their order.
        chosen = priorities >= bound
        yield jobs[chosen][np.argsort(-priorities[chosen], kind="stable")]
        jobs, priorities = jobs[~chosen], priorities[~chosen]
        size *= 4
    if len(jobs):
        yield jobs[np.argsort(-priorities, kind="stable")]


def blocks(jobs: Integers, length: int = 0) -> Iterator[Integers]:
    """Split the jobs into blocks, each twice as long as the one before: the first ones often fill the machine."""
    begin, length = 0, length or BLOCK
    while begin < len(jobs):
        yield jobs[begin : begin + length]
        begin, length = begin + length, 2 * length


NAMES = (
    "eligible_time", "walltime", "soft_walltime", "predicted", "ncpus", "nodect", "ngpus", "mem", "queue_priority",
    "job_priority",
)  # fmt: skip
"""Names that a formula may use.

``eligible_time``: seconds waited.  ``soft_walltime``: the waiting value, 0 where it is the walltime.  ``predicted``:
the ordering value.  ``mem`` in KiB, as in PBS.  Priorities of queues come from the policy; what is not recorded is 0.
"""
FAIR_SHARE_NAMES = ("fairshare_perc", "fair_share_perc", "fairshare_tree_usage", "fairshare_factor")
"""Names of PBS's fair share, which need the usage so far."""
ALL_NAMES = (*NAMES, *FAIR_SHARE_NAMES)


class Formula(Order):
    """The order of a ``job_sort_formula``; the highest result first.

    As in PBS, results are single precision, and a job whose result is not a number, as after a division by 0, has 0.
    """

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        """:raises OptionError: if the policy has no formula, or its formula cannot be evaluated."""
        if not policy.formula:
            raise OptionError("the order formula needs an expression: give --formula, or the key formula")
        self._evaluate = compiled(policy.formula, ALL_NAMES)
        self._names = names_in(policy.formula)
        by_usage = not self._names.isdisjoint(FAIR_SHARE_NAMES)
        self.fixed = "eligible_time" not in self._names and not by_usage
        self._submitted = np.array(jobs.submitted, np.int64)
        self._values = values
        priorities = np.array(jobs.priorities or [(0, 0)] * len(jobs), np.float64).reshape(-1, 2)
        if policy.queue_priorities:
            known = dict(policy.queue_priorities)
            priorities[:, 0] = [known.get(queue or "", 0) for queue in jobs.completed.values("queue")]
        self._columns = {
            "walltime": values.limit_array.astype(np.float64), "ncpus": jobs.requested,
            "queue_priority": priorities[:, 0], "job_priority": priorities[:, 1],
            **{name: jobs.completed.numbers(name, 0).astype(np.float64) for name in ("nodect", "ngpus")},
            "mem": np.ceil(jobs.completed.numbers("mem", 0) / 1024),
        }  # fmt: skip
        if by_usage:
            self.usage = CountedUsage(jobs, values, policy.fair_share or FairShareSettings())
            # An entity comes last in its path.
            self._node = self.usage.paths.max(axis=1, initial=0)[self.usage.leaf]

    def priorities(self, waiting: Integers, now: int) -> Floats:
        names = self._names
        environment: Environment = {name: self._columns[name][waiting] for name in self._columns.keys() & names}
        if "eligible_time" in names:
            environment["eligible_time"] = (now - self._submitted[waiting]).astype(np.float64)
        if "soft_walltime" in names:
            value = self._values.waiting_array[waiting].astype(np.float64)
            environment["soft_walltime"] = np.where(value < self._columns["walltime"][waiting], value, 0.0)
        if "predicted" in names:
            environment["predicted"] = self._values.ordering[waiting]
        if self.usage is not None:
            environment |= self._fair_share(self.usage, waiting)
        with np.errstate(all="ignore"):
            priorities = np.asarray(self._evaluate(environment), np.float64)
            if not (finite := np.isfinite(priorities)).all():
                priorities = np.where(finite, priorities, 0.0)
            single = priorities.astype(np.float32).astype(np.float64)
        return single if single.shape == waiting.shape else np.full(waiting.shape, single)

    def _fair_share(self, counted: CountedUsage, waiting: Integers) -> Environment:
        node = self._node[waiting]
        share, usage = counted.percentage[node], counted.factors()[node]
        with np.errstate(divide="ignore"):
            factor = np.where(share > 0, 2.0 ** -(usage / share), 0.0)
        # PBS hands them to Python with six decimals.
        share, usage, factor = (np.round(column, 6) for column in (share, usage, factor))
        return dict(zip(FAIR_SHARE_NAMES, (share, share, usage, factor), strict=True))


class FairShare(Order):
    """Least usage for its share first, level by level of the tree (``compare_path``); without a share last.

    A job that becomes a top job counts as one that starts.
    """

    changes_on_start = True

    def __init__(self, jobs: Jobs, values: Values, policy: SchedulerPolicy) -> None:
        self.usage = self._counted = CountedUsage(jobs, values, policy.fair_share or FairShareSettings())
        paths = self._counted.paths
        # A level at which all are in one group decides nothing.
        deciding = [level for level in paths.T if len(level) and np.ptp(level)]
        self._paths = np.array(deciding or paths.T[-1:]).T

    def priorities(self, waiting: Integers, now: int) -> Floats:
        counted = self._counted
        with np.errstate(divide="ignore"):
            ratio = np.where(counted.percentage > 0, counted.temporary / counted.percentage, np.inf)
        by_level = np.where(self._paths >= 0, ratio[self._paths], 0.0)
        if by_level.shape[1] == 1:
            rank = by_level[:, 0]
        else:
            rank = np.unique(by_level, axis=0, return_inverse=True)[1].reshape(-1).astype(np.float64)
        return -rank[counted.leaf[waiting]]


AGE = 3600
"""Seconds that the expansion factor adds to a wait."""


class ColumnOrder(Order):
    """An order by a function of columns; ``arrival``: log10 of the seconds since the first submission, at least 1."""

    def __init__(
        self, score: "Score", jobs: Jobs, values: Values, policy: SchedulerPolicy, *, fixed: bool = False
    ) -> None:
        self.fixed = fixed
        self.submitted = np.array(jobs.submitted, np.int64)
        # As in a formula: those requested, where a job takes whole vnodes.
        self.processors = jobs.requested
        self.value = values.ordering
        self.arrival = np.log10(np.maximum(self.submitted - (self.submitted[0] if len(jobs) else 0), 1))
        self._score = score

    def priorities(self, waiting: Integers, now: int) -> Floats:
        return self._score(self, waiting, now)


Score = Callable[[ColumnOrder, Integers, int], Floats]
"""Returns the priorities of some jobs at a time."""
Learned = Callable[[Floats, Floats, Floats], Floats]


def _wfp(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
    """(wait / value)^3 x processors (Tang et al. 2013, eq. 5)."""
    relative: Floats = (now - of.submitted[waiting]) / of.value[waiting]
    return relative * relative * relative * of.processors[waiting]


def _learned(score: Learned) -> Callable[[Jobs, Values, SchedulerPolicy], ColumnOrder]:
    """F1 to F4, which D. Carastan-Santos & R. Y. de Camargo found by regression over simulated schedules.

    Obtaining Dynamic Scheduling Policies with Simulation and Machine Learning.  SC 2017, table 3.  The least comes
    first.  The constants are quotients of two coefficients, cut to three digits; unrounded ones are in the published
    simulator (sched-simulator-runtime.c): 870.96, 25,673, 6,862,777 and 530,988.  It starts each 15 days at 0.

    :param score: of value, processors and arrival.
    """

    def priorities(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
        return -score(of.value[waiting], of.processors[waiting], of.arrival[waiting])

    return partial(ColumnOrder, priorities, fixed=True)


def powers(jobs: Jobs, values: Values, policy: SchedulerPolicy) -> ColumnOrder:
    """Return the order by powers of wait, length and size, as PBS rounds it."""
    order = PowerOrder.of(policy.order)
    by_runtime, by_limit, by_size = order.exponents
    longest = np.inf if order.longest is None else order.longest
    walltime = np.minimum(values.limit_array.astype(np.float64), longest)

    def priorities(of: ColumnOrder, waiting: Integers, now: int) -> Floats:
        wait = (now - of.submitted[waiting]).astype(np.float64)
        runtime, limit = np.minimum(of.value[waiting], longest), walltime[waiting]
        priorities = wait + order.age
        if by_runtime == by_limit:
            priorities /= np.power(runtime * limit, by_runtime)
        else:
            priorities = priorities / np.power(runtime, by_runtime) / np.power(limit, by_limit)
        # Not **: numpy takes the square root for **0.5, whose last bit may differ from the formula's power.
        priorities *= np.power(of.processors[waiting], by_size)
        if order.limit is not None:
            priorities = np.where(wait > order.limit, float(OLDEST_FIRST) + wait, priorities)
        return priorities.astype(np.float32).astype(np.float64)

    return ColumnOrder(priorities, jobs, values, policy)


ORDERS: dict[str, Callable[[Jobs, Values, SchedulerPolicy], Order] | None] = {
    "fcfs": None,
    "sjf": partial(ColumnOrder, lambda of, waiting, _: -of.value[waiting], fixed=True),
    "ljf": partial(ColumnOrder, lambda of, waiting, _: of.value[waiting], fixed=True),
    "wfp": partial(ColumnOrder, _wfp),
    "xf": partial(ColumnOrder, lambda of, waiting, now: (now - of.submitted[waiting] + AGE) / of.value[waiting]),
    "f1": _learned(lambda r, n, log_s: np.log10(r) * n + 870 * log_s),
    "f2": _learned(lambda r, n, log_s: np.sqrt(r) * n + 25600 * log_s),
    "f3": _learned(lambda r, n, log_s: r * n + 6860000 * log_s),
    "f4": _learned(lambda r, n, log_s: r * np.sqrt(n) + 530000 * log_s),
    "fairshare": FairShare,
    "formula": Formula,
    POWERS: powers,
}
"""The orders by name; first come, first served needs no priorities."""


def order_of(jobs: Jobs, values: Values, policy: SchedulerPolicy) -> Order | None:
    """Return the order that a policy names; :class:`OptionError` if there is none, or its options are wrong."""
    name, colon, _ = policy.order.partition(":")
    if name not in ORDERS:
        raise OptionError(f"no order is called {name!r}; there are {', '.join(ORDERS)}")
    if colon and name != POWERS:
        raise OptionError(f"{policy.order!r}: the order {name} has no options")
    make = ORDERS[name]
    order = make and make(jobs, values, policy)
    if not policy.queues:
        return order
    positions = {queue: position for position, queue in enumerate(policy.queues)}
    queue_of = [positions.get(queue or "", len(positions)) for queue in jobs.completed.values("queue")]
    return QueueByQueue(order or Arrival(), np.array(queue_of, np.int64))
