"""Contents of tables about jobs: curves, shares in classes, grids of two attributes, figures by group or predictor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import DAY, HOUR, printable
from softwalltime.measure.experiments.result_tables import Cell, Contents
from softwalltime.measure.experiments.study import ScoredJobs, mean_of

Mask = NDArray[np.bool_]
DURATIONS = {
    "1 min": 60, "10 min": 600, "1 h": HOUR, "2 h": 2 * HOUR, "10 h": 10 * HOUR, "1 d": DAY, "2 d": 2 * DAY,
    "7 d": 7 * DAY, "more": 1 << 60,
}  # fmt: skip
"""Upper ends of classes of runtimes and walltimes, in seconds."""
SIZES = {"1": 1, "2 to 8": 8, "9 to 32": 32, "33 to 128": 128, "129 to 1,024": 1024, "more": 1 << 60}
"""Upper ends of classes of processors."""


def curve(axis: str, points: Mapping[str, float], series: Mapping[str, NDArray[Any]]) -> Contents:
    """Return cumulative distributions: the share of each series' values that is at most each point."""
    rows = [(name, *(mean_of(values <= point) for values in series.values())) for name, point in points.items()]
    return (axis, *series), rows


def classes(values: NDArray[Any], ends: Mapping[str, float]) -> dict[str, Mask]:
    """Return which values are in each class: above the end of the class before, up to its own."""
    above, found = -np.inf, dict[str, Mask]()
    for name, end in ends.items():
        found[name], above = (values > above) & (values <= end), end
    return found


def grid(
    axis: str, rows: Mapping[str, Mask], columns: Mapping[str, Mask], weights: NDArray[Any] | None = None
) -> Contents:
    """Return the share of the jobs, or of their weights, in each pair of classes; empty classes are left out."""
    every = np.logical_or.reduce(list(rows.values()))
    weight = every if weights is None else weights
    total = float(weight.sum()) or 1.0
    shown = {name: mask for name, mask in columns.items() if mask.any()} | {"all": every}
    return (axis, *(f"{name.replace(' ', '_')}|{name}|share" for name in shown)), [
        (name, *(float(weight[row & column].sum()) / total for column in shown.values()))
        for name, row in {**rows, "all": every}.items()
        if row.any()
    ]


def mean_in(values: NDArray[Any]) -> Callable[[Mask], Cell]:
    """Return the figure of a group that is the mean of its values."""
    return lambda chosen: mean_of(values[chosen])


def grouped(axis: str, labels: NDArray[Any], figures: Mapping[str, Callable[[Mask], Cell]]) -> Contents:
    """Return figures of the jobs with each label, in the labels' order, and of all jobs."""
    groups = [(printable(str(label)), labels == label) for label in np.unique(labels)]
    groups.append(("all", np.ones(len(labels), np.bool_)))
    return (axis, *figures), [(name, *(of(chosen) for of in figures.values())) for name, chosen in groups]


def by_predictor(predicted: ScoredJobs, figures: Mapping[str, Callable[[str], Cell]]) -> Contents:
    """Return figures of each predictor, the walltimes first."""
    return ("predictor", *figures), [(spec, *(of(spec) for of in figures.values())) for spec in predicted.estimate]


def quarters_of(times: Sequence[int]) -> NDArray[np.str_]:
    """Return the quarters (UTC) of times in epoch seconds.

    >>> quarters_of([1_400_749_079]).tolist()
    ['2014 Q2']
    """
    quarter = np.array(times, "datetime64[s]").astype("datetime64[M]").astype(np.int64) // 3
    return np.array([f"{1970 + number // 4} Q{number % 4 + 1}" for number in quarter.tolist()])


def weeks_of(times: Sequence[int]) -> NDArray[np.str_]:
    """Return the weeks of times in epoch seconds, counted from the first time, as ``week 001``."""
    first = min(times, default=0)
    return np.array([f"week {(time - first) // (7 * DAY) + 1:03}" for time in times], "U11")
