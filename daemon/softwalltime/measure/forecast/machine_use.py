"""Use of the machine in the next 24 h of a simulation: used processors, and windows in which some are idle."""

from dataclasses import dataclass

import numpy as np

from softwalltime.measure.forecast.queue_model import QueueModel
from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers

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


def used_processors(model: QueueModel, outcome: ScheduleOutcome) -> float:
    """Return the mean number of processors that jobs use in the next 24 h."""
    begin = np.maximum(outcome.start, model.now)
    seconds = np.minimum(outcome.start + outcome.duration, model.now + HORIZON_S) - begin
    return float((np.maximum(seconds, 0) * np.array(model.jobs.processors, np.float64)).sum() / HORIZON_S)


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
    free: Integers = model.processors - greatest
    return free


def idle_windows(free: Integers, now: int) -> tuple[IdleWindow, ...]:
    """Return windows that do not overlap, those with most processor hours, by their begin.

    :param free: free processors, a row for each draw, a column for each slot from ``now`` on.
    """
    sure = _sure(free)
    spans = {_span(sure, slot) for slot in np.flatnonzero(sure > 0).tolist()}
    spans = {(first, last) for first, last in spans if last - first >= MIN_WINDOW_SLOTS}
    # The processors that are idle all the time may be fewer than in each slot alone.
    found = [(first, last, int(_sure(free[:, first:last].min(axis=1)))) for first, last in spans]
    found.sort(key=lambda window: (-window[2] * (window[1] - window[0]), window))
    chosen: list[tuple[int, int, int]] = []
    for first, last, processors in found:
        apart = all(last <= begin or end <= first for begin, end, _ in chosen)
        if processors > 0 and apart and len(chosen) < MAX_WINDOWS:
            chosen.append((first, last, processors))
    return tuple(
        IdleWindow(now + first * SLOT_S, now + last * SLOT_S, processors) for first, last, processors in sorted(chosen)
    )


def _sure(free: Integers) -> Floats:
    quantiles: Floats = np.quantile(free, 1 - SURE, axis=0, method="lower")
    return quantiles


def _span(values: Floats, slot: int) -> tuple[int, int]:
    """Return the longest span around a slot in which no value is below the slot's."""
    lower = np.flatnonzero(values < values[slot])
    place = int(np.searchsorted(lower, slot))
    return int(lower[place - 1]) + 1 if place else 0, int(lower[place]) if place < len(lower) else len(values)
