"""Which settings of the percentile predictor: accuracy and underestimation over keys, percentile, window, threshold."""

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
"""How often the grid goes through the workload at most."""


@dataclass(frozen=True, slots=True)
class PercentileSetting:
    """One setting of the percentile predictor, its window in days, and its figures."""

    keys: tuple[str, ...]
    percentile: int
    window: int
    threshold: float | None
    halves: Halves


def different_keys(columns: Columns) -> tuple[tuple[str, ...], ...]:
    """The kinds of keys that tell jobs apart differently: where all jobs are of one project, it says nothing."""
    # The predictor looks at PBS's project, whatever stands for it elsewhere in the report.
    if columns.project_field == "project" and len(columns.project.names) > 1:
        return KEYS
    return KEYS[0], KEYS[-1]


def evaluate_settings(
    workload: Workload, columns: Columns, minimum: int = MINIMUM, progress: Callable[[int], None] = lambda _: None
) -> list[PercentileSetting]:
    """Every setting of the grid, judged; empty where too few jobs can be judged.

    :param minimum: least soft walltime in seconds.
    :param progress: told the number of jobs done, ``PASSES`` times the workload in all.
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
    """The setting as the registry of predictors takes it."""
    last = "" if threshold is None else f",threshold={threshold:g}"
    return f"percentile:p={percentile},keys={'+'.join(keys)},window={window}d{last}"


def best_setting(found: list[PercentileSetting], target: float) -> PercentileSetting | None:
    """The most accurate setting that underestimates at most the share ``target`` of all jobs."""
    within = [setting for setting in found if setting.halves.whole.underestimated <= target]
    return max(
        within, key=lambda setting: (setting.halves.whole.accuracy, -setting.halves.whole.underestimated), default=None
    )
