"""The machine: what is free, and whether a job fits.

The event-driven engine and the reservations of :mod:`planning` ask a machine only what :class:`Machine` offers, so
that a machine with vnodes can take the place of plain processors.  The fast path of EASY reads ``free`` of
:class:`Processors` directly.
"""

from collections.abc import Sequence
from typing import Protocol


class Machine(Protocol):
    """Resources that jobs occupy; jobs are known by their position in the simulated jobs."""

    def fits(self, job: int) -> bool:
        """Whether the job could start now."""

    def allocate(self, job: int) -> None:
        """Give the job its resources, which must fit."""

    def release(self, job: int) -> None:
        """Take back the resources of a job that has them."""

    def copy(self) -> "Machine":
        """A machine in the same state, for trying things out."""


class Processors:
    """A number of interchangeable processors."""

    __slots__ = ("free", "needs", "total")

    def __init__(self, total: int, needs: Sequence[int]) -> None:
        """
        :param total: processors of the machine.
        :param needs: processors of each job.
        """
        self.total = total
        self.free = total
        self.needs = needs

    def fits(self, job: int) -> bool:
        """Whether enough processors are free."""
        return self.needs[job] <= self.free

    def allocate(self, job: int) -> None:
        """Occupy the job's processors."""
        self.free -= self.needs[job]

    def release(self, job: int) -> None:
        """Free the job's processors."""
        self.free += self.needs[job]

    def copy(self) -> "Processors":
        """The same number of processors, as many of them free."""
        other = Processors(self.total, self.needs)
        other.free = self.free
        return other
