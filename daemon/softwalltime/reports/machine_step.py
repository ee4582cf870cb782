"""A change of the machine within a log, by the processors in use week by week.

Full machines differ from week to week by little.  So there is a change where the weeks before it have one level and
those after it another one: on each side ``SHARE`` of the weeks are within ``NEAR`` of their median, and the medians
differ by ``FACTOR``.  Of several such weeks the one is taken around which most weeks are at their level.  A machine
that is rarely full has no level, and nothing is said of it.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from softwalltime.formatting import DAY, day, plural
from softwalltime.simulation.jobs import Integers, Jobs

WEEK_S = 7 * DAY
MIN_WEEKS = 4
"""Least number of weeks on each side."""
BUSY = 0.95
"""Share of a week in which more processors than its level are never in use: overlapping records are short."""
NEAR, SHARE, FACTOR = 0.05, 0.7, 1.1


@dataclass(frozen=True, slots=True)
class MachineStep:
    """The processors that are in use in a busy week before and after a change."""

    since: int
    """When the first week after the change begins, epoch seconds."""
    before: int
    """Processors in use before it."""
    after: int
    """Processors in use since."""

    def __str__(self) -> str:
        """Return what was seen, and what selects the part that is like today's machine."""
        return (
            f"A busy week had {plural(self.before, 'processor')} in use until {day(self.since)}, and {self.after:,} "
            f"since: the machine changed. --since {day(self.since)} selects the time since then."
        )


def machine_step(jobs: Jobs) -> MachineStep | None:
    """Return the change of the machine in a log; ``None`` if there is none."""
    begin, levels = _weekly_levels(jobs)
    found: tuple[int, MachineStep] | None = None
    for split in range(MIN_WEEKS, len(levels) - MIN_WEEKS + 1):
        sides = levels[:split], levels[split:]
        before, after = (max(1.0, float(np.median(side))) for side in sides)
        near = [np.abs(side / middle - 1) <= NEAR for side, middle in zip(sides, (before, after), strict=True)]
        if min(float(side.mean()) for side in near) < SHARE or max(before, after) < FACTOR * min(before, after):
            continue
        # The later of two: the first week after the change is at its level.
        if found is None or sum(int(side.sum()) for side in near) >= found[0]:
            step = MachineStep(begin + split * WEEK_S, round(before), round(after))
            found = sum(int(side.sum()) for side in near), step
    return None if found is None else found[1]


def _weekly_levels(jobs: Jobs) -> tuple[int, Integers]:
    """Return the first start, and of each whole week since then how many processors are in use when it is busy."""
    times, used = jobs.use()
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
    return int(times[0]), levels
