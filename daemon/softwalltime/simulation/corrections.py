"""Corrections: the new planned end of a running job whose planned end has passed.

No correction plans beyond the walltime, at which the job is killed.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

HOUR = 3600
_FIRST_STEP = 900


@dataclass(frozen=True, slots=True)
class Estimates:
    """Columns of the running jobs that a correction reads, by position.

    ``started`` in epoch seconds, ``running`` values and ``walltime`` in seconds.  ``conditional`` (job, now, elapsed)
    predicts the runtime of a running job anew; it returns ``None`` where no predictor is asked for running values.
    """

    started: Sequence[int]
    running: Sequence[int]
    walltime: Sequence[int]
    conditional: Callable[[int, int, int], int | None]


class Correction(ABC):
    """Rule for a job that runs longer than its estimate.

    ``margin``: how many seconds before its planned end a job is corrected already.
    """

    margin: ClassVar[int] = 0

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates

    @abstractmethod
    def planned_end(self, job: int, planned: int, now: int) -> int:
        """The new planned end (epoch seconds) of a job planned to end at ``planned``, which is at most now + margin.

        The caller raises the result to now + 1.
        """


class MultiplesCorrection(Correction):
    """PBS: whole multiples of the soft walltime (OpenPBS, extend_soft_walltime)."""

    def planned_end(self, job: int, planned: int, now: int) -> int:
        """Start + min(walltime, R x (floor(elapsed / R) + 1))."""
        estimates = self._estimates
        start, value = estimates.started[job], estimates.running[job]
        return start + min(estimates.walltime[job], value * ((now - start) // value + 1))


class WalltimeCorrection(Correction):
    """The walltime, from the first correction on."""

    def planned_end(self, job: int, planned: int, now: int) -> int:
        return self._estimates.started[job] + self._estimates.walltime[job]


class DoublingCorrection(Correction):
    """The estimate, doubled until it exceeds the elapsed time."""

    def planned_end(self, job: int, planned: int, now: int) -> int:
        """Start + min(walltime, R x 2^k), with the least k that gives a time after ``now``."""
        estimates = self._estimates
        start, value = estimates.started[job], estimates.running[job]
        while start + value <= now:
            value *= 2
        return start + min(estimates.walltime[job], value)


class HourlyCorrection(Correction):
    """Add one hour from 60 s before the planned end on (Rubio et al. 2021, algorithm 2).

    Their limit of 7 days is the walltime here.
    """

    margin: ClassVar[int] = 59

    def planned_end(self, job: int, planned: int, now: int) -> int:
        """The planned end plus as many hours as leave at least 60 s, at most start + walltime."""
        estimates = self._estimates
        hours = (now + self.margin - planned) // HOUR + 1
        return min(planned + HOUR * hours, estimates.started[job] + estimates.walltime[job])


class GrowingStepsCorrection(Correction):
    """15 min more, then 30 min, 1 h, 2 h and so on (Tsafrir et al. 2007; Rubio et al. 2021, section 4.4)."""

    def __init__(self, estimates: Estimates) -> None:
        super().__init__(estimates)
        self._steps: defaultdict[int, int] = defaultdict(lambda: _FIRST_STEP)

    def planned_end(self, job: int, planned: int, now: int) -> int:
        """The planned end plus the job's next steps until it is after ``now``, at most start + walltime."""
        estimates = self._estimates
        while planned <= now:
            planned += self._steps[job]
            self._steps[job] *= 2
        return min(planned, estimates.started[job] + estimates.walltime[job])


class ConditionalCorrection(MultiplesCorrection):
    """A new prediction given the elapsed time; whole multiples if it is not after now."""

    def planned_end(self, job: int, planned: int, now: int) -> int:
        """Start + the new prediction, if that is after ``now``."""
        start = self._estimates.started[job]
        value = self._estimates.conditional(job, now, now - start)
        if value is not None and start + value > now:
            return start + value
        return super().planned_end(job, planned, now)


CORRECTIONS: dict[str, Callable[[Estimates], Correction]] = {
    "pbs": MultiplesCorrection,
    "walltime": WalltimeCorrection,
    "simple": HourlyCorrection,
    "power": GrowingStepsCorrection,
    "doubling": DoublingCorrection,
    "conditional": ConditionalCorrection,
}
"""The corrections by name."""
