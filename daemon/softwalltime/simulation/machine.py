"""The machine: free resources, and whether a job fits.

The engine and PBS's cycle (:mod:`pbs`) ask a machine only what :class:`Machine` offers; a machine with vnodes can
take the place of plain processors there.  EASY and conservative backfilling read ``free`` of :class:`Processors`.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

import numpy as np

from softwalltime.errors import UsageError
from softwalltime.simulation.planning import Calendar, Profile


class Machine(Protocol):
    """Resources that jobs occupy; jobs are known by their position in the simulated jobs."""

    def fits(self, job: int) -> bool:
        """Whether the job could start now."""

    def allocate(self, job: int) -> None:
        """Give the job its resources, which must fit."""

    def release(self, job: int) -> None:
        """Release the resources of a job."""

    def kind(self, job: int) -> Hashable:
        """Return the job's kind of request: jobs of one kind fit at the same times."""

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> Calendar:
        """Return the plan from now on.

        :param ends: planned end and job of each running job, by planned end.
        """


def processors_of(machine: Machine, kind: str) -> "Processors":
    """The machine, which must be plain processors.

    :param kind: the kind of backfilling that can do with nothing else.
    :raises UsageError: if it is another machine.
    """
    if not isinstance(machine, Processors):
        raise UsageError(f"the backfilling {kind} knows processors only: use pbs on a machine of vnodes")
    return machine


class Processors:
    """A number of interchangeable processors."""

    __slots__ = ("_sizes", "free", "needs", "total")

    def __init__(self, total: int, needs: Sequence[int]) -> None:
        """
        :param total: processors of the machine.
        :param needs: processors of each job.
        """
        self.total = total
        self.free = total
        self.needs = needs
        self._sizes = np.array(needs, np.int64)

    def fits(self, job: int) -> bool:
        return self.needs[job] <= self.free

    def allocate(self, job: int) -> None:
        self.free -= self.needs[job]

    def release(self, job: int) -> None:
        self.free += self.needs[job]

    def kind(self, job: int) -> Hashable:
        return self.needs[job]

    def calendar(self, now: int, ends: Iterable[tuple[int, int]]) -> Profile:
        """Free processors as a step function of time."""
        return Profile(now, self.free, ends, self.needs, self._sizes)
