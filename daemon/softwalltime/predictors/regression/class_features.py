"""Features of a job from the past jobs of its class (Fan et al. 2017, table III)."""

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.jobs import CompletedJob, Submission
from softwalltime.quantiles import quantile

Floats = NDArray[np.float64]

FEATURES = (
    "t_last1", "t_last2", "t_supplied", "n_supplied", "A_average", "A_max", "t_longest", "t_longest10", "t_average",
    "t_average10", "t_percentile25",
)  # fmt: skip
"""Their names in the paper, in order; t in seconds, n in nodes (or processors), A from 0 to 1."""
SUPPLIED = FEATURES.index("t_supplied")
AVERAGE_ACCURACY = FEATURES.index("A_average")
_LAST = 10
"""Number of last jobs in t_longest10 and t_average10."""
_LOW = 0.25


class ClassJob(NamedTuple):
    """A past job of a class.  Times in epoch seconds, durations in seconds.  Jobs compare by their ends first."""

    end: int
    submitted: int
    runtime: int
    walltime: int
    nodes: int
    accuracy: float


def class_job(job: CompletedJob) -> ClassJob:
    """Return what is kept of a job that ran and had a walltime; ``accuracy`` is its walltime's (eq. 5)."""
    submission, walltime = job.submission, job.submission.walltime or 0
    accuracy = min(job.runtime, walltime) / max(job.runtime, walltime)
    return ClassJob(job.end, submission.submitted, job.runtime, walltime, nodes(submission), accuracy)


def nodes(submission: Submission) -> int:
    """Return the requested number of chunks; of processors where chunks are not known."""
    return submission.nodect or submission.ncpus or 0


def features(past: Sequence[ClassJob], walltime: int, size: int) -> list[float]:
    """Return the features of a job with this walltime and size after these jobs, at least one."""
    runtimes = [job.runtime for job in past]
    accuracies = [job.accuracy for job in past]
    last = runtimes[-_LAST:]
    return [
        runtimes[-1], runtimes[-2] if len(runtimes) > 1 else runtimes[-1], walltime, size,
        sum(accuracies) / len(accuracies), max(accuracies), max(runtimes), max(last), sum(runtimes) / len(runtimes),
        sum(last) / len(last), quantile(sorted(runtimes), _LOW),
    ]  # fmt: skip


def training_rows(past: Sequence[ClassJob]) -> tuple[Floats, Floats]:
    """Return the features of each job but the first from the jobs before it, one row a job, and the runtimes.

    :param past: in order of end, at least two.
    """
    runtimes = np.array([job.runtime for job in past], np.float64)
    accuracies = np.array([job.accuracy for job in past])
    count = np.arange(1, len(past) + 1)
    total = np.cumsum(runtimes)
    before = np.concatenate((np.zeros(min(_LAST, len(past))), total[:-_LAST]))
    padded = np.concatenate((np.full(_LAST - 1, -np.inf), runtimes))
    ascending: list[float] = []
    low: list[float] = []
    for runtime in runtimes.tolist():
        insort(ascending, runtime)
        low.append(quantile(ascending, _LOW))
    known = (
        runtimes, np.concatenate((runtimes[:1], runtimes[:-1])), np.cumsum(accuracies) / count,
        np.maximum.accumulate(accuracies), np.maximum.accumulate(runtimes),
        np.lib.stride_tricks.sliding_window_view(padded, _LAST).max(axis=1), total / count,
        (total - before) / np.minimum(count, _LAST), np.array(low),
    )  # fmt: skip
    supplied = (
        np.array([job.walltime for job in past], np.float64)[1:],
        np.array([job.nodes for job in past], np.float64)[1:],
    )
    after = [row[:-1] for row in known]
    return np.column_stack((*after[:2], *supplied, *after[2:])), runtimes[1:]
