"""For whom a predictor is better or worse than the walltime: by user, by project, by queue."""

from dataclasses import dataclass

import numpy as np

from softwalltime.formatting import DAY
from softwalltime.reports.analysis.predictions import Evaluation
from softwalltime.reports.columns import Columns, Names


@dataclass(frozen=True, slots=True)
class Group:
    """The scored jobs of one user, project or queue; errors are mean absolute errors in seconds.

    ``walltime_error`` is of the walltime, ``error`` of the prediction; so with the mean accuracies.  ``underestimated``
    is a share of the group's jobs.
    """

    name: str
    jobs: int
    walltime_error: float
    error: float
    walltime_accuracy: float
    accuracy: float
    underestimated: float
    adjusted: float

    @property
    def gain(self) -> float:
        """Seconds by which the prediction is nearer to the runtime than the walltime, on average; below 0: farther."""
        return self.walltime_error - self.error


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the users: who is better off with the predictions, by mean absolute error."""

    users: int
    better: float
    same: float
    worse: float
    better_by_a_day: float
    worst: float
    """The greatest deterioration of a user's mean absolute error, in seconds; 0 if nobody is worse off."""


def group_jobs(columns: Columns, judged: Evaluation, names: Names, part: slice = slice(None)) -> list[Group]:
    """The groups that have scored jobs, the one with the most jobs first.

    :param part: which of the scored jobs count.
    """
    codes = names.codes[columns.scored][part]
    size = len(names.names)
    jobs = np.bincount(codes, minlength=size)
    walltime, t = columns.walltime[columns.scored][part], judged.t[part]
    error, accuracy = judged.error[part], judged.accuracy[part]

    def means(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> list[float]:
        sums = np.bincount(codes, values, size)
        found: list[float] = (sums / np.maximum(jobs, 1)).tolist()
        return found

    rows = zip(
        names.names,
        jobs.tolist(),
        means(walltime - t),
        means(np.abs(error)),
        means(t / walltime),
        means(accuracy),
        means(error < 0),
        means(judged.adjusted[part]),
        strict=True,
    )
    found = [Group(*row) for row in rows if row[1]]
    return sorted(found, key=lambda group: (-group.jobs, group.name))


def summarize_users(users: list[Group]) -> Shares:
    """Who is better off; of at least one user."""
    gains = np.array([user.gain for user in users])
    return Shares(
        len(users),
        float((gains > 0).mean()),
        float((gains == 0).mean()),
        float((gains < 0).mean()),
        float((gains > DAY).mean()),
        max(0.0, float(-gains.min())),
    )
