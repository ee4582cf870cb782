"""Figures of the users' walltimes: R = runtime / walltime, popular walltimes, jobs by size and time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.formatting import DAY, HOUR, MINUTE, moment
from softwalltime.reports.columns import Columns

Floats = NDArray[np.float64]
BINS = 20
"""Bins of R between 0 and 1."""
POPULAR = 12
"""Number of popular walltimes in the report."""
_EDGES = np.array(
    [0, 10, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR,
     8 * HOUR, 16 * HOUR, DAY, 2 * DAY, 4 * DAY, 8 * DAY, 16 * DAY, 32 * DAY], np.int64,
)  # fmt: skip
"""Edges of the heat maps' time bins in seconds; the last bin is open."""


@dataclass(frozen=True, slots=True)
class PopularWalltime:
    """A popular walltime; ``share`` of the scored jobs, ``killed`` of the jobs that request it."""

    walltime: int
    jobs: int
    share: float
    mean_r: float
    killed: float


@dataclass(frozen=True, slots=True)
class PeriodUsage:
    """R of the jobs submitted in one month or quarter."""

    label: str
    jobs: int
    mean_r: float
    quartiles: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Shares by processors (rows) and time (columns); ``cpus`` and ``times`` are lower edges of bins."""

    cpus: tuple[int, ...]
    times: tuple[int, ...]
    shares: Floats


@dataclass(frozen=True, slots=True)
class Walltimes:
    """Figures of the requested walltimes over the scored jobs.

    R is capped at 1, because PBS kills late.  ``r_jobs`` and ``r_cpu`` are the shares of the jobs and of the CPU hours
    in each bin of R.  ``killed``: share of jobs that reached their walltime; ``small``: that used less than a tenth of
    it. ``wasted``: the share of all CPU hours asked for (processors x walltime) that was not used.
    ``processors_known``: whether most jobs have a number of processors; without one a job counts as one processor.
    """

    jobs: int
    mean_r: float
    median_r: float
    killed: float
    small: float
    wasted: float
    r_jobs: Floats
    r_cpu: Floats
    grid: Floats
    runtimes: Floats
    walltimes: Floats
    periods: tuple[PeriodUsage, ...]
    period: str
    popular: tuple[PopularWalltime, ...]
    different: int
    by_runtime: HeatMap
    by_walltime: HeatMap
    cpu_hours: HeatMap
    processors_known: bool = True


def analyze_walltimes(columns: Columns) -> Walltimes | None:
    """Return the figures over the scored jobs; ``None`` without scored jobs."""
    scored = np.flatnonzero(columns.scored)
    if not len(scored):
        return None
    walltime, t = columns.walltime[scored], columns.t[scored]
    r = t / walltime
    cpu = columns.cpu_seconds[scored].astype(np.float64)
    ncpus = np.maximum(columns.ncpus[scored], 1)
    bins = np.minimum((r * BINS).astype(np.int64), BINS - 1)
    # A few walltimes of years would compress the scale.
    grid = np.geomspace(1, max(float(np.percentile(walltime, 99.9)), 10.0), 200)
    period, periods = _periods(columns.submitted[scored], r)
    popular, different = _popular(walltime, r)
    asked = float((ncpus * walltime.astype(np.float64)).sum())
    return Walltimes(
        jobs=len(scored),
        mean_r=float(r.mean()),
        median_r=float(np.median(r)),
        killed=float((r >= 1).mean()),
        small=float((r < 0.1).mean()),
        wasted=1 - float((ncpus * t.astype(np.float64)).sum()) / asked,
        r_jobs=np.bincount(bins, minlength=BINS) / len(scored),
        r_cpu=np.bincount(bins, cpu, BINS) / max(float(cpu.sum()), 1.0),
        grid=grid,
        runtimes=np.searchsorted(np.sort(t), grid, side="right") / len(scored),
        walltimes=np.searchsorted(np.sort(walltime), grid, side="right") / len(scored),
        periods=periods,
        period=period,
        popular=popular,
        different=different,
        by_runtime=_heat_map(ncpus, columns.runtime[scored], np.ones(len(scored))),
        by_walltime=_heat_map(ncpus, walltime, np.ones(len(scored))),
        cpu_hours=_heat_map(ncpus, columns.runtime[scored], cpu),
        processors_known=bool((columns.ncpus[scored] > 0).mean() >= 0.5),
    )


def _periods(submitted: NDArray[np.int64], r: Floats) -> tuple[str, tuple[PeriodUsage, ...]]:
    """Return R by quarter, or by month if there are fewer than five quarters."""
    days, which = np.unique(submitted // DAY, return_inverse=True)
    months = np.array([_month(day * DAY) for day in days], np.int64)[which]
    by_quarter = len(np.unique(months // 3)) > 4
    numbers = months // 3 if by_quarter else months
    found = []
    for value in np.unique(numbers).tolist():
        chosen = r[numbers == value]
        label = f"{value // 4} Q{value % 4 + 1}" if by_quarter else f"{value // 12}-{value % 12 + 1:02}"
        low, middle, high = np.percentile(chosen, (25, 50, 75)).tolist()
        found.append(PeriodUsage(label, len(chosen), float(chosen.mean()), (low, middle, high)))
    return "quarter" if by_quarter else "month", tuple(found)


def _month(epoch: int) -> int:
    date = moment(epoch)
    return date.year * 12 + date.month - 1


def _popular(walltime: NDArray[np.int64], r: Floats) -> tuple[tuple[PopularWalltime, ...], int]:
    values, codes, counts = np.unique(walltime, return_inverse=True, return_counts=True)
    sums = np.bincount(codes, r)
    killed = np.bincount(codes, r >= 1)
    # Most popular first; among equals the shorter first.
    first = np.lexsort((values, -counts))[:POPULAR].tolist()
    return tuple(
        PopularWalltime(
            int(values[i]), int(counts[i]), float(counts[i] / len(walltime)), float(sums[i] / counts[i]),
            float(killed[i] / counts[i]),
        )
        for i in first
    ), len(values)  # fmt: skip


def _heat_map(ncpus: NDArray[np.int64], seconds: NDArray[np.int64], weights: Floats) -> HeatMap:
    """Return shares of the weights by processors, in powers of two, and time; omit empty bins at the ends."""
    rows = np.floor(np.log2(ncpus) + 1e-9).astype(np.int64)
    columns = np.searchsorted(_EDGES, seconds, side="right") - 1
    first, last = int(columns.min()), int(columns.max())
    low, high = int(rows.min()), int(rows.max())
    shape = (high - low + 1, last - first + 1)
    flat = np.bincount((rows - low) * shape[1] + columns - first, weights, shape[0] * shape[1])
    return HeatMap(
        tuple(2**exponent for exponent in range(low, high + 1)),
        tuple(_EDGES[first : last + 1].tolist()),
        flat.reshape(shape) / max(float(weights.sum()), 1.0),
    )
