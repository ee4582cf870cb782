"""Corrections: the new planned end of a running job whose planned end has passed, at most its walltime."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

HOUR = 3600
_FIRST_STEP = 900
_SIMPLE_MARGIN = 59


@dataclass(frozen=True, slots=True)
class Estimates:
    """Columns of the running jobs that a correction reads, by position.

    ``started`` in epoch seconds, ``running`` values and ``walltime`` in seconds.  ``conditional`` (job, now, elapsed)
    predicts the runtime of a running job anew; it returns ``None`` where no predictor is asked for running values.
    ``steps``: the next extension of each job in seconds, of the correction power.
    """

    started: Sequence[int]
    running: Sequence[int]
    walltime: Sequence[int]
    conditional: Callable[[int, int, int], int | None]
    steps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(lambda: _FIRST_STEP))

    def limit(self, job: int) -> int:
        return self.started[job] + self.walltime[job]


class Correction(NamedTuple):
    """Rule for a job that runs longer than its estimate.

    ``planned_end`` (estimates, job, planned, now) returns the new planned end (epoch seconds); the caller raises it to
    now + 1.  ``margin``: how many seconds before its planned end a job is corrected already.
    """

    planned_end: Callable[[Estimates, int, int, int], int]
    margin: int = 0


def _multiples(of: Estimates, job: int, _: int, now: int) -> int:
    """PBS: whole multiples of the soft walltime (OpenPBS, extend_soft_walltime)."""
    start, value = of.started[job], of.running[job]
    return start + min(of.walltime[job], value * ((now - start) // value + 1))


def _hourly(of: Estimates, job: int, planned: int, now: int) -> int:
    """As many hours as leave at least 60 s, from 60 s before the planned end on (Rubio et al. 2021, algorithm 2).

    Their limit of 7 days is the walltime here.
    """
    return min(planned + HOUR * ((now + _SIMPLE_MARGIN - planned) // HOUR + 1), of.limit(job))


def _growing_steps(of: Estimates, job: int, planned: int, now: int) -> int:
    """15 min more, then 30 min, 1 h, 2 h and so on (Tsafrir et al. 2007; Rubio et al. 2021, section 4.4)."""
    while planned <= now:
        planned += of.steps[job]
        of.steps[job] *= 2
    return min(planned, of.limit(job))


def _conditional(of: Estimates, job: int, planned: int, now: int) -> int:
    """A new prediction given the elapsed time; whole multiples if it is not after now."""
    start = of.started[job]
    value = of.conditional(job, now, now - start)
    return start + value if value is not None and start + value > now else _multiples(of, job, planned, now)


CORRECTIONS = {
    "pbs": Correction(_multiples),
    "walltime": Correction(lambda of, job, *_: of.limit(job)),
    "simple": Correction(_hourly, _SIMPLE_MARGIN),
    "power": Correction(_growing_steps),
    "conditional": Correction(_conditional),
    # A job past its planned end counts as about to end: it is never overdue.
    "none": Correction(lambda _of, _job, planned, _now: planned, -(1 << 60)),
}
"""The corrections by name."""
