"""Use of the machine in the next 24 h of a simulation: used processors, and windows in which some are idle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwalltime.measure.forecast.queue_model import QueueModel
from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.simulated_jobs import Integers

HORIZON_S = 86400
SLOT_S = 300
"""Resolution of idle windows."""
SLOTS = HORIZON_S // SLOT_S
SURE = 0.9
"""Share of the draws in which the processors of a window are idle in all of it."""
MAX_WINDOWS = 5
MIN_WINDOW_SLOTS = 6
"""Half an hour."""


@dataclass(frozen=True, slots=True)
class IdleWindow:
    """Processors that are idle from one time to another with a probability of 90%; times in epoch seconds."""

    start: int
    """Begin of the window."""
    end: int
    """End of the window, at most 24 h from now."""
    processors: int
    """Idle processors: those of vnodes that are up, without those of reservations."""


def used_processors(model: QueueModel, outcome: ScheduleOutcome, sizes: Sequence[int]) -> float:
    """Return the mean number of processors that jobs of these sizes use in the next 24 h."""
    begin = np.maximum(outcome.start, model.now)
    seconds = np.minimum(outcome.start + outcome.duration, model.now + HORIZON_S) - begin
    return float((np.maximum(seconds, 0) * np.array(sizes, np.float64)).sum() / HORIZON_S)


def free_processors(model: QueueModel, outcome: ScheduleOutcome) -> Integers:
    """Return the processors that are free in the whole of each slot; below 0 where more are held than there are."""
    size = np.array(model.jobs.processors, np.int64)
    # A first change of nothing, before all slots.
    times = np.concatenate([[model.now - 1], outcome.start + outcome.duration, np.maximum(outcome.start, model.now)])
    change = np.concatenate([[0], -size, size])
    # Ends come first at one instant.
    order = np.argsort(times, kind="stable")
    times, used = times[order], np.cumsum(change[order])
    edges = model.now + SLOT_S * np.arange(SLOTS)
    greatest = used[np.searchsorted(times, edges, side="right") - 1]
    slot = (times - model.now) // SLOT_S
    inside = (slot >= 0) & (slot < SLOTS)
    np.maximum.at(greatest, slot[inside], used[inside])
    for window in [] if model.pooling is None else model.pooling.windows:
        greatest[(edges + SLOT_S > window.start) & (edges < window.end)] += window.processors
    return model.processors - greatest


def idle_windows(free: Integers, now: int) -> tuple[IdleWindow, ...]:
    """Return windows that do not overlap, those with most processor hours, by their begin.

    :param free: free processors, a row for each draw, a column for each slot from ``now`` on.
    """
    slots = free.shape[1]
    # Processors that are idle in all slots from the row's to the column's, in the share SURE of the draws.
    idle = np.zeros((slots, slots), np.int64)
    unsure = int((1 - SURE) * (len(free) - 1) + 1e-9)
    for first in range(slots):
        least = np.minimum.accumulate(free[:, first:], axis=1)
        idle[first, first:] = np.partition(least, unsure, axis=0)[unsure]
    length = np.arange(slots) - np.arange(slots)[:, None] + 1
    size = np.where(length >= MIN_WINDOW_SLOTS, idle * length, 0)
    windows: list[IdleWindow] = []
    while len(windows) < MAX_WINDOWS and size.max() > 0:
        first, last = (int(place) for place in np.unravel_index(size.argmax(), size.shape))
        windows.append(IdleWindow(now + first * SLOT_S, now + (last + 1) * SLOT_S, int(idle[first, last])))
        size[: last + 1, first:] = 0
    return tuple(sorted(windows, key=lambda window: window.start))
