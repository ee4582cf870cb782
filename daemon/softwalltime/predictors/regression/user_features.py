"""Features of a job from its request and its user's past and running jobs (Gaussier et al. 2015, section 4)."""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FEATURES = (
    "requested", "last1", "last2", "last3", "mean2", "mean3", "mean", "processors", "mean processors",
    "processors by mean", "running mean processors", "running", "longest running", "sum running", "running processors",
    "break", "cos day", "sin day", "cos week", "sin week",
)  # fmt: skip
"""Their order; times in seconds.  Those of running jobs are of the same user's; break is the time since the user's
last end."""
_DAY, _TURN = 86400, 2 * math.pi
_LEFT, _RIGHT = np.triu_indices(1 + len(FEATURES))
DIMENSION = len(_LEFT)
"""Terms of the polynomial: the constant, the features, their squares and products."""
MAX_USER_RUNS = 512
"""Jobs of one user kept, the last ones to end."""


class PastRun(NamedTuple):
    """A job that ran; times in epoch seconds, runtime in seconds, at most the walltime."""

    end: int
    submitted: int
    start: int
    runtime: int
    ncpus: int


class Asked(NamedTuple):
    """A job to predict: submission in epoch seconds, walltime in seconds."""

    job_id: str
    submitted: int
    walltime: int
    ncpus: int


_RUNTIME, _NCPUS = attrgetter("runtime"), attrgetter("ncpus")


class UserRuns:
    """One user's completed jobs in order of end, and the running ones."""

    __slots__ = ("_count", "_ncpus", "_runtime", "running", "runs")

    def __init__(self) -> None:
        self.runs: list[PastRun] = []
        """The last ``MAX_USER_RUNS`` to end; equal ends in order of the other fields."""
        self.running: dict[str, tuple[int, int]] = {}
        """Start and processors of running jobs by id."""
        self._count = self._runtime = self._ncpus = 0

    def add(self, run: PastRun) -> None:
        insort(self.runs, run)
        self._count += 1
        self._runtime += run.runtime
        self._ncpus += run.ncpus
        if len(self.runs) > MAX_USER_RUNS:
            del self.runs[0]

    @property
    def count(self) -> int:
        return self._count

    def knows(self, now: int) -> bool:
        """Return whether the jobs that count at ``now`` are still kept."""
        return len(self.runs) == self._count or self.runs[0].end <= now

    def features(self, job: Asked, now: int) -> list[float]:
        """Return the features of a job as they were at ``now``, in the order of :data:`FEATURES`."""
        requested, ncpus, runs = job.walltime, job.ncpus, self.runs
        place = bisect_left(runs, (now + 1,))
        past, later = runs[max(place - 3, 0) : place], runs[place:]
        last = [*map(min, map(_RUNTIME, reversed(past)), repeat(requested))] or [requested]
        count = self._count - len(later)
        runtime = (self._runtime - sum(map(_RUNTIME, later))) / count if count else 0.0
        size = (self._ncpus - sum(map(_NCPUS, later))) / count if count else ncpus
        present = [(now - run.start, run.ncpus) for run in later if run.start < now]
        if self.running:
            others = [run for job_id, run in self.running.items() if job_id != job.job_id]
            present += [(now - start, run) for start, run in others if start < now]
        elapsed, sizes = zip(*present, strict=True) if present else ((0,), (0,))
        idle = now - past[-1].end if past else 0
        times = [requested, *(*last, requested, requested)[:3], sum(last[:2]) / len(last[:2]), sum(last) / len(last)]
        own = [sum(sizes) / len(sizes), len(present), max(elapsed), sum(elapsed), sum(sizes), idle]
        return [*times, runtime, ncpus, size, ncpus / size, *own, *_circle(job.submitted)]


def polynomial(features: Sequence[float]) -> NDArray[np.float64]:
    """Return all terms of degree 0 to 2, the constant and the features first."""
    base = np.array((1.0, *features))
    products: NDArray[np.float64] = base[_LEFT] * base[_RIGHT]
    return products


def _circle(time: int) -> tuple[float, float, float, float]:
    day, week = _TURN * (time % _DAY / _DAY), _TURN * (time % (7 * _DAY) / (7 * _DAY))
    return math.cos(day), math.sin(day), math.cos(week), math.sin(week)
