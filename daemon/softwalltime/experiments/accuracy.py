"""Accuracy of estimates by replay: estimates of each job at its submission, and their errors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.experiments.study import Study
from softwalltime.predictors.registry import BASELINE, make
from softwalltime.replay.fast_replay import drive
from softwalltime.replay.workload import Workload

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScoredJobs:
    """The scored jobs of a workload, in order of submission.

    ``runtime`` is capped at the ``walltime``, ``recorded`` is not; ``estimate`` by predictor is the soft walltime, or
    the walltime where there is none.  ``index`` is each job's place in the workload.
    """

    workload: Workload
    index: Integers
    walltime: Integers
    runtime: Integers
    recorded: Integers
    estimate: dict[str, Integers]

    def errors(self, spec: str) -> Integers:
        """Estimate minus runtime of each job, in seconds: negative where underestimated."""
        return self.estimate[spec] - self.runtime


def estimates(study: Study, specs: list[str]) -> ScoredJobs:
    """Replay the trace through each predictor; ``request``, the walltime, comes first."""
    workload = study.workload
    index = np.flatnonzero(workload.scored)
    walltime = workload.walltime[index]
    predicted = {BASELINE: walltime}
    with study.bar("replaying", len(specs) * len(workload.jobs)) as progress:
        for spec in specs:
            soft = drive(workload, make(spec), study.minimum, progress).soft_walltimes[index]
            predicted[spec] = np.where(soft < 0, walltime, soft)
    recorded = workload.runtime[index]
    return ScoredJobs(workload, index, walltime, np.minimum(recorded, walltime), recorded, predicted)
