"""Steering: scale waiting values to keep the share of broken promises at a target."""

import math
from typing import Final

LATE: Final = 60
"""Seconds by which a job must start later than promised to count as late."""
GAIN: Final = 0.05
"""Change of theta per promised start."""
MAX_THETA: Final = 3.0
"""Bound of theta: waiting values are scaled by 0.05 to 20.  Without a bound, theta would take thousands of starts to
come back after a time in which promises did not depend on waiting values."""


class Steering:
    """Multiplies waiting values by e^theta; each promised start moves theta by 0.05 ([late] - target).

    A late start makes later waiting values longer, which makes backfilling more careful.
    """

    __slots__ = ("factor", "target", "theta")

    def __init__(self, target: float, theta: float = 0.0) -> None:
        """:param target: share of promised starts that may be late, between 0 and 1.
        :param theta: where to start from.
        """
        self.target = target
        self._set(theta)

    def started(self, seconds_late: int) -> None:
        """Note the start of a job that had a promise.

        :param seconds_late: start minus promise in seconds; negative if the job started earlier.
        """
        self._set(self.theta + GAIN * ((seconds_late > LATE) - self.target))

    def _set(self, theta: float) -> None:
        self.theta = min(max(theta, -MAX_THETA), MAX_THETA)
        self.factor = math.exp(self.theta)
