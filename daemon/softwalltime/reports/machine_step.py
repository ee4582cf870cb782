"""Changes of the machine within a log, by the processors in use week by week."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from softwalltime.core.formatting import DAY, day, plural
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

WEEK_S = 7 * DAY
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


def since_last_change(jobs: Jobs) -> tuple[Jobs, MachineStep | None]:
    """Return the jobs submitted since the last change of the machine, and this change; all jobs if there is none.

    Without most starts the use of the machine is not known, and no change is found.
    """
    known = int((jobs.completed.numbers("start") != -1).sum())
    step = machine_step(jobs) if 2 * known >= len(jobs) > 0 else None
    if step is None:
        return jobs, None
    return jobs.chosen(range(bisect_left(jobs.submitted, step.since), len(jobs))), step


def machine_step(jobs: Jobs) -> MachineStep | None:
    """Return the last change of the machine in a log; ``None`` if there is none.

    The use of a full machine varies little between weeks.  A change has different levels on both sides: on each side
    ``SHARE`` of the weeks are within ``NEAR`` of their median, and the medians differ by ``FACTOR``.  Of several such
    weeks the one with most weeks at their level is returned.
    """
    begin, levels = _weekly_levels(jobs)
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


def _weekly_levels(jobs: Jobs) -> tuple[int, Integers]:
    """Return the first start, and for each whole week since then the processors in use when busy."""
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
