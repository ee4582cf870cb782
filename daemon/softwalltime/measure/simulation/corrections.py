"""Corrections: the new planned end of a running job whose planned end has passed.

No correction plans beyond the walltime, at which the job is killed.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class Correction(NamedTuple):
    """Rule for a job that runs longer than its estimate.

    ``planned_end`` (job, planned, now) returns the new planned end (epoch seconds) of a job planned to end at
    ``planned``, at most now + margin; the caller raises it to now + 1.  ``margin``: how many seconds before its planned
    end a job is corrected already.
    """

    planned_end: Callable[[int, int, int], int]
    margin: int = 0


def _multiples(of: Estimates) -> Correction:
    """PBS: whole multiples of the soft walltime (OpenPBS, extend_soft_walltime)."""

    def planned_end(job: int, _: int, now: int) -> int:
        start, value = of.started[job], of.running[job]
        return start + min(of.walltime[job], value * ((now - start) // value + 1))

    return Correction(planned_end)


def _doubling(of: Estimates) -> Correction:
    """The estimate, doubled until it exceeds the elapsed time."""

    def planned_end(job: int, _: int, now: int) -> int:
        start, value = of.started[job], of.running[job]
        while start + value <= now:
            value *= 2
        return start + min(of.walltime[job], value)

    return Correction(planned_end)


def _hourly(of: Estimates) -> Correction:
    """As many hours as leave at least 60 s, from 60 s before the planned end on (Rubio et al. 2021, algorithm 2).

    Their limit of 7 days is the walltime here.
    """
    margin = 59

    def planned_end(job: int, planned: int, now: int) -> int:
        hours = (now + margin - planned) // HOUR + 1
        return min(planned + HOUR * hours, of.started[job] + of.walltime[job])

    return Correction(planned_end, margin)


def _growing_steps(of: Estimates) -> Correction:
    """15 min more, then 30 min, 1 h, 2 h and so on (Tsafrir et al. 2007; Rubio et al. 2021, section 4.4)."""
    steps: defaultdict[int, int] = defaultdict(lambda: _FIRST_STEP)

    def planned_end(job: int, planned: int, now: int) -> int:
        while planned <= now:
            planned += steps[job]
            steps[job] *= 2
        return min(planned, of.started[job] + of.walltime[job])

    return Correction(planned_end)


def _conditional(of: Estimates) -> Correction:
    """A new prediction given the elapsed time; whole multiples if it is not after now."""
    multiples, _ = _multiples(of)

    def planned_end(job: int, planned: int, now: int) -> int:
        start = of.started[job]
        value = of.conditional(job, now, now - start)
        return start + value if value is not None and start + value > now else multiples(job, planned, now)

    return Correction(planned_end)


CORRECTIONS: dict[str, Callable[[Estimates], Correction]] = {
    "pbs": _multiples,
    "walltime": lambda of: Correction(lambda job, *_: of.started[job] + of.walltime[job]),
    "simple": _hourly,
    "power": _growing_steps,
    "doubling": _doubling,
    "conditional": _conditional,
}
"""The corrections by name."""
