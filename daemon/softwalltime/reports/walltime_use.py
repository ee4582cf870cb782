"""How much of their requested walltimes jobs use."""

from dataclasses import dataclass

import numpy as np

from softwalltime.measure.simulation.simulated_jobs import Floats
from softwalltime.reports.columns import Columns

BINS = 20
"""Bins of R between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Walltimes:
    """Figures of the requested walltimes over the scored jobs.

    R is capped at 1, because PBS kills late.  ``r_jobs`` and ``r_cpu`` are the shares of the jobs and of the CPU hours
    in each bin of R.  ``killed``: share of jobs that reached their walltime; ``small``: that used less than a tenth of
    it. ``wasted``: the share of all CPU hours asked for (processors x walltime) that was not used.
    ``processors_known``: whether most jobs have a number of processors; without one a job counts as one processor.
    """

    mean_r: float
    median_r: float
    killed: float
    small: float
    wasted: float
    r_jobs: Floats
    r_cpu: Floats
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
    asked = float((ncpus * walltime.astype(np.float64)).sum())
    return Walltimes(
        mean_r=float(r.mean()),
        median_r=float(np.median(r)),
        killed=float((r >= 1).mean()),
        small=float((r < 0.1).mean()),
        wasted=1 - float((ncpus * t.astype(np.float64)).sum()) / asked,
        r_jobs=np.bincount(bins, minlength=BINS) / len(scored),
        r_cpu=np.bincount(bins, cpu, BINS) / max(float(cpu.sum()), 1.0),
        processors_known=bool((columns.ncpus[scored] > 0).mean() >= 0.5),
    )
