"""Figures of a predictor and of the walltimes by user, project and queue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softwalltime.replay.metrics import Errors, means_by_code
from softwalltime.reports.columns import Columns, Names

LEAST_JOBS = 10
"""A mean over fewer jobs says nothing about a user, a project or a queue."""
NOTABLE = 60
"""Seconds by which a mean absolute error must change to count as a gain or a loss."""
MOST_UNDERESTIMATED = 0.5
"""Share of underestimated jobs above which no group improves."""


def underestimation_limit(underestimated: float, target: float) -> float:
    """Return the greatest share of underestimated jobs with which a group improves.

    :param underestimated: share of all jobs that the predictor underestimates.
    :param target: the site's limit.

    >>> [underestimation_limit(share, 0.05) for share in (0.01, 0.1, 0.4)]
    [0.1, 0.2, 0.5]
    """
    return min(MOST_UNDERESTIMATED, 2 * max(underestimated, target))


@dataclass(frozen=True, slots=True)
class Group:
    """The scored jobs of one user, project or queue; errors are mean absolute errors in seconds.

    ``walltime_error`` and ``walltime_accuracy`` are of the walltime, ``error`` and ``accuracy`` of the prediction.
    ``underestimated`` and ``adjusted`` are shares of the group's jobs.
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
        """Mean absolute error of the walltime minus that of the prediction, in seconds."""
        return self.walltime_error - self.error

    def improves(self, most_underestimated: float) -> bool:
        """Whether the error falls notably, accuracy rises, and at most this share of the jobs is underestimated."""
        return (
            self.gain >= NOTABLE
            and self.accuracy > self.walltime_accuracy
            and self.underestimated <= most_underestimated
        )

    @property
    def deteriorates(self) -> bool:
        """Whether the error grows notably."""
        return self.gain <= -NOTABLE


@dataclass(frozen=True, slots=True)
class Shares:
    """How many users have enough jobs, and the shares of them that improve and that deteriorate."""

    users: int
    better: float
    worse: float
    worst: float
    """Greatest deterioration of a user's mean absolute error, in seconds; 0 if there is none."""


def group_jobs(columns: Columns, errors: Errors, names: Names) -> list[Group]:
    """Return the groups with scored jobs, ordered by number of jobs, descending.

    :param errors: a predictor's over the scored jobs.
    """
    codes = names.codes[columns.scored]
    size = len(names.names)
    jobs = np.bincount(codes, minlength=size)
    by_walltime = Errors(np.zeros(len(errors), np.bool_), columns.walltime[columns.scored], errors.t)

    def means(values: NDArray[np.generic]) -> list[float]:
        return means_by_code(codes, values, size)

    rows = zip(
        names.names,
        jobs.tolist(),
        means(by_walltime.error),
        means(np.abs(errors.error)),
        means(by_walltime.accuracy),
        means(errors.accuracy),
        means(errors.under),
        means(errors.adjusted),
        strict=True,
    )
    return sorted((Group(*row) for row in rows if row[1]), key=lambda group: (-group.jobs, group.name))


def summarize_users(users: list[Group], most_underestimated: float) -> Shares:
    """Summarize the users with at least ``LEAST_JOBS`` jobs.

    :param most_underestimated: users with a greater share of underestimated jobs do not improve.
    """
    enough = [user for user in users if user.jobs >= LEAST_JOBS]
    if not enough:
        return Shares(0, 0.0, 0.0, 0.0)
    better = sum(user.improves(most_underestimated) for user in enough)
    worse = sum(user.deteriorates for user in enough)
    worst = max(0.0, -min(user.gain for user in enough))
    return Shares(len(enough), better / len(enough), worse / len(enough), worst)


def most_deteriorated(users: list[Group]) -> list[Group]:
    """The users whose error grows by at least ``NOTABLE``, the one that loses most first."""
    return sorted(
        (user for user in users if user.jobs >= LEAST_JOBS and user.deteriorates),
        key=lambda user: (user.gain, user.name),
    )
