"""How much of their requested walltimes jobs use."""

from dataclasses import dataclass

import numpy as np

from softwalltime.measure.replay.accuracy_metrics import score
from softwalltime.measure.replay.workload import SCORED, Recorded
from softwalltime.measure.simulation.simulated_jobs import Floats

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


def analyze_walltimes(workload: Recorded) -> Walltimes | None:
    """Return the figures over the scored jobs; ``None`` without scored jobs.

    It needs 8 bytes of memory for each job, because the median is exact.
    """
    # Without soft walltimes the accuracy is R.
    overall = score(workload, np.broadcast_to(np.int64(-1), len(workload)))
    if not overall.jobs or overall.accuracy_mean is None or overall.accuracy_median is None:
        return None
    r_jobs, r_cpu, counts, seconds = np.zeros(BINS, np.int64), np.zeros(BINS), np.zeros(3, np.int64), np.zeros(3)
    for part in workload.parts((*SCORED, "ncpus")):
        scored = np.flatnonzero(part.scored)
        walltime, runtime, ncpus = part.walltime[scored], part.runtime[scored], part.jobs.numbers("ncpus", 0)[scored]
        t, size = np.minimum(runtime, walltime), np.maximum(ncpus, 1).astype(np.float64)
        r, cpu = t / walltime, size * runtime
        bins = np.minimum((r * BINS).astype(np.int64), BINS - 1)
        r_jobs += np.bincount(bins, minlength=BINS)
        r_cpu += np.bincount(bins, cpu, BINS)
        counts += [(r >= 1).sum(), (r < 0.1).sum(), (ncpus > 0).sum()]
        # These sums are exact below 2**53 processor-seconds, whatever the parts.
        seconds += [(size * t).sum(), (size * walltime).sum(), cpu.sum()]
    killed, small, known = (counts / overall.jobs).tolist()
    used, asked, ran = seconds.tolist()
    return Walltimes(
        mean_r=overall.accuracy_mean,
        median_r=overall.accuracy_median,
        killed=killed,
        small=small,
        wasted=1 - used / asked,
        r_jobs=r_jobs / overall.jobs,
        r_cpu=r_cpu / max(ran, 1.0),
        processors_known=known >= 0.5,
    )
