"""Evaluate the percentile predictor over a grid of keys, percentiles, windows and thresholds."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from softwalltime.formatting import DAY
from softwalltime.policy.clamp import MINIMUM
from softwalltime.predictors.percentile import PercentileOptions
from softwalltime.replay.percentile_grid import drive_percentiles, soft_walltimes
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis.halves import Halves, evaluate_halves, has_both_halves
from softwalltime.reports.columns import Columns

PERCENTILES = (50, 60, 70, 80, 85, 90, 95, 97, 99)
WINDOWS = (7, 30, 90)
"""Days."""
THRESHOLDS = (None, 0.5)
KEYS = (("user",), ("project",), ("user", "project"), ("user", "project", "walltime"))
PASSES = len(KEYS) * len(WINDOWS)
"""Greatest number of passes of the grid through the workload."""


@dataclass(frozen=True, slots=True)
class PercentileSetting:
    """One setting of the percentile predictor, with the window in days, and its figures."""

    keys: tuple[str, ...]
    percentile: int
    window: int
    threshold: float | None
    halves: Halves


def different_keys(columns: Columns) -> tuple[tuple[str, ...], ...]:
    """Return the kinds of keys that differ; with one project for all jobs, keys with the project do not."""
    # The predictor always uses PBS's project.
    if columns.project_field == "project" and len(columns.project.names) > 1:
        return KEYS
    return KEYS[0], KEYS[-1]


def evaluate_settings(
    workload: Workload, columns: Columns, minimum: int = MINIMUM, progress: Callable[[int], None] = lambda _: None
) -> list[PercentileSetting]:
    """Evaluate every setting of the grid; return nothing if there are too few scored jobs.

    :param minimum: least soft walltime in seconds.
    :param progress: called with the number of jobs done, in total ``PASSES`` times the workload.
    """
    if not has_both_halves(columns):
        progress(PASSES * len(workload.jobs))
        return []
    found = []
    passes = list(product(different_keys(columns), WINDOWS))
    for keys, window in passes:
        options = PercentileOptions(keys=keys, window=window * DAY)
        shares = drive_percentiles(workload, options, PERCENTILES, progress)
        for (percentile, row), threshold in product(zip(PERCENTILES, shares, strict=True), THRESHOLDS):
            soft = soft_walltimes(workload, row, threshold, minimum)
            judged = evaluate_halves(columns, spec(keys, percentile, window, threshold), soft)
            found.append(PercentileSetting(keys, percentile, window, threshold, judged))
    progress((PASSES - len(passes)) * len(workload.jobs))
    return found


def spec(keys: tuple[str, ...], percentile: int, window: int, threshold: float | None) -> str:
    """Return the setting as a predictor specification."""
    last = "" if threshold is None else f",threshold={threshold:g}"
    return f"percentile:p={percentile},keys={'+'.join(keys)},window={window}d{last}"


def best_setting(found: list[PercentileSetting], target: float) -> PercentileSetting | None:
    """Return the most accurate setting that underestimates at most the share ``target`` of the older half."""
    within = [setting for setting in found if setting.halves.older.underestimated <= target]
    return max(
        within, key=lambda setting: (setting.halves.older.accuracy, -setting.halves.older.underestimated), default=None
    )
