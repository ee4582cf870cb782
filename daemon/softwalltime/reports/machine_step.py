"""Changes of the machine within a log, by the processors in use week by week."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from softwalltime.core.formatting import day, plural
from softwalltime.measure.simulation.simulated_jobs import Integers
from softwalltime.reports.simulable_jobs import WEEK_S

MIN_WEEKS = 4
"""Least number of weeks on each side."""
BUSY = 0.95
"""Quantile of a week's use that is its level, to ignore short overlaps of records."""
NEAR, SHARE, FACTOR = 0.05, 0.7, 1.1


@dataclass(frozen=True, slots=True)
class MachineStep:
    """A change of the machine: processors in use in busy weeks before and after it."""

    since: int
    """Begin of the first week after the change, epoch seconds."""
    before: int
    """Processors in use before it."""
    after: int
    """Processors in use since."""

    def __str__(self) -> str:
        return (
            f"A busy week had {plural(self.before, 'processor')} in use until {day(self.since)}, and {self.after:,} "
            "since: the machine changed. Only the jobs submitted since then are simulated."
        )


def machine_step(begin: int, use: Iterable[tuple[Integers, Integers]]) -> MachineStep | None:
    """Return the last change of the machine in a log; ``None`` if there is none.

    The use of a full machine varies little between weeks.  A change has different levels on both sides: on each side
    ``SHARE`` of the weeks are within ``NEAR`` of their median, and the medians differ by ``FACTOR``.  Of several such
    weeks the one with most weeks at their level is returned.

    :param begin: the first start, epoch seconds.
    :param use: processors in use since then, as :func:`.simulable_jobs.use` yields them.
    """
    levels = np.concatenate([_weekly_levels(*some) for some in use])
    best: tuple[int, MachineStep] | None = None
    for split in range(MIN_WEEKS, len(levels) - MIN_WEEKS + 1):
        sides = levels[:split], levels[split:]
        before, after = (max(1.0, float(np.median(side))) for side in sides)
        near = [np.abs(side / middle - 1) <= NEAR for side, middle in zip(sides, (before, after), strict=True)]
        if min(float(side.mean()) for side in near) < SHARE or max(before, after) < FACTOR * min(before, after):
            continue
        # The later of two: the first week after the change is at its level.
        count = sum(int(side.sum()) for side in near)
        if best is None or count >= best[0]:
            best = count, MachineStep(begin + split * WEEK_S, round(before), round(after))
    return None if best is None else best[1]


def _weekly_levels(times: Integers, used: Integers) -> Integers:
    """Return for each whole week since the first time the processors in use when busy."""
    weeks = int(times[-1] - times[0]) // WEEK_S
    edges = times[0] + WEEK_S * np.arange(weeks + 1)
    at_edges = used[np.searchsorted(times, edges, side="right") - 1]
    times, used = np.concatenate([times, edges]), np.concatenate([used, at_edges])
    order = np.argsort(times, kind="stable")
    times, used = times[order], used[order]
    bounds = np.searchsorted(times, edges)
    levels = np.zeros(weeks, np.int64)
    for week, (first, last) in enumerate(pairwise(bounds)):
        lengths, level = np.diff(times[first : last + 1]), used[first:last]
        order = np.argsort(level, kind="stable")
        passed = np.cumsum(lengths[order])
        levels[week] = level[order][np.searchsorted(passed, BUSY * passed[-1])]
    return levels
