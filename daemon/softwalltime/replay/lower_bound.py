"""The least mean absolute error of any prediction from a job's attributes at submission."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwalltime.predictors.keys import SIGNATURE
from softwalltime.replay.workload import Workload


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The least mean absolute error over the scored jobs, where jobs with equal keys get one prediction."""

    keys: tuple[str, ...]
    """The keys: attributes of a job at its submission."""
    mean_absolute_error: float
    """The least mean absolute error in seconds."""
    jobs: int
    """Number of jobs."""
    signatures: int
    """Number of different values of the keys."""
    alone: float
    """Share of the jobs whose signature no other job has: the bound does not constrain them."""


def find_lower_bound(workload: Workload, keys: Sequence[str] = SIGNATURE) -> LowerBound | None:
    """Return the error of each signature's median runtime over the scored jobs themselves.

    The median needs the future: this is a bound, not a predictor.  Runtimes are capped at the walltime, as in all
    scores.  Source: hpc-oda-commons 2026, error ceilings.

    :returns: ``None`` without scored jobs.
    """
    index = np.flatnonzero(workload.scored)
    if not len(index):
        return None
    codes: dict[tuple[object, ...], int] = {}
    signatures = zip(*(workload.values(key) for key in keys), strict=True)
    signature = np.array([codes.setdefault(values, len(codes)) for values in signatures])[index]
    runtime = np.minimum(workload.runtime, workload.walltime)[index]
    order = np.lexsort((runtime, signature))
    signature, runtime = signature[order], runtime[order]
    first = np.flatnonzero(np.concatenate(([True], signature[1:] != signature[:-1])))
    count = np.diff(np.concatenate((first, [len(signature)])))
    # Any number between the two middle runtimes has the same error.
    median = np.repeat(runtime[first + count // 2], count)
    error = float(np.abs(runtime - median).mean())
    return LowerBound(tuple(keys), error, len(index), len(first), float((count == 1).sum() / len(index)))
