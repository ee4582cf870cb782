"""Interface of queue orders."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from softwalltime.simulation.jobs import Floats, Integers


class Order(ABC):
    """An order other than first come, first served: the highest priority first, ties by earlier submission."""

    changes_on_start: ClassVar[bool] = False
    """Whether a start changes priorities at that instant; such an order is notified of starts and ends."""

    @abstractmethod
    def priorities(self, waiting: Integers, now: int) -> Floats:
        """The priority of each of these jobs at ``now``."""

    def ranked(self, waiting: Integers, now: int) -> Integers:
        """Return these jobs, the highest priority first; jobs of equal priority keep their order."""
        return waiting[np.argsort(-self.priorities(waiting, now), kind="stable")]

    def started(self, job: int, now: int) -> None:  # noqa: B027  # most orders need not know
        """Note the start of a job."""

    def ended(self, job: int, now: int) -> None:  # noqa: B027  # most orders need not know
        """Note the end of a job."""
