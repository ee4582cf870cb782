"""Steering: scale waiting values to keep the share of broken promises at a target."""

import math

LATE = 60
"""Seconds by which a job must start later than promised to count as late."""
GAIN = 0.05
"""Change of theta per promised start."""


class Steering:
    """Multiplies waiting values by e^theta; each promised start moves theta by 0.05 ([late] - target).

    A late start makes later waiting values longer, which makes backfilling more careful.
    """

    __slots__ = ("factor", "target", "theta")

    def __init__(self, target: float) -> None:
        """:param target: share of promised starts that may be late, between 0 and 1."""
        self.target = target
        self.theta = 0.0
        self.factor = 1.0

    def started(self, seconds_late: int) -> None:
        """Note the start of a job that had a promise.

        :param seconds_late: start minus promise in seconds; negative if the job started earlier.
        """
        self.theta += GAIN * ((seconds_late > LATE) - self.target)
        # Beyond e^50 nothing changes any more, because values are clamped to the walltime.
        self.theta = min(max(self.theta, -50.0), 50.0)
        self.factor = math.exp(self.theta)
