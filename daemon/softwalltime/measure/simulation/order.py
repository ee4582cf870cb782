"""Interface of queue orders, and the order that keeps promised starts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from softwalltime.measure.simulation.fair_share import CountedUsage
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

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
