"""Interface of queue orders, and the order that keeps promised starts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

CHUNK = 64
"""Number of jobs to sort first, if rarely all are needed."""
BLOCK = 512
"""Number of candidates to test first, if their order is known."""


class Order(ABC):
    """An order other than first come, first served: the highest priority first, ties by earlier submission."""

    changes_on_start: bool = False
    """Whether a start changes priorities at that instant; such an order is notified of starts and ends."""
    fixed: bool = False
    """Whether a job's priority stays as at its submission while its values stay."""

    @abstractmethod
    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The priority of each of these jobs at ``now``, in an array of its own."""

    def ranked(self, waiting: Integers, now: int) -> Integers:
        """Return these jobs, the highest priority first; jobs of equal priority keep their order."""
        return waiting[np.argsort(-self.priorities(waiting, now), kind="stable")]

    def started(self, job: int, now: int) -> None:  # noqa: B027  # most orders need not know
        """Note the start of a job."""

    def ended(self, job: int, now: int) -> None:  # noqa: B027  # most orders need not know
        """Note the end of a job."""


class PlacesFirst(Order):
    """Another order, in which the jobs that have a place come first, of several the one submitted first.

    A job has a place from a planned start on that is the first one or differs from the one before, as in
    :mod:`softwalltime.service.live.alters`, or once its bound is near.

    :param least_age: seconds since the submission before which a planned start does not count; ``None``: none counts.
    """

    def __init__(self, order: Order, jobs: int, least_age: int | None) -> None:
        self._order = order
        self.changes_on_start = order.changes_on_start
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

    def started(self, job: int, now: int) -> None:
        self._order.started(job, now)

    def leave(self, job: int) -> None:
        self._planned.pop(job, None)

    def ended(self, job: int, now: int) -> None:
        self._order.ended(job, now)


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
