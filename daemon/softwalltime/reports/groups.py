"""Figures of a predictor and of the walltimes by user, project and queue."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.formatting import DAY
from softwalltime.measure.replay.accuracy_metrics import Errors, means_by_code
from softwalltime.measure.simulation.simulated_jobs import Floats
from softwalltime.reports.columns import Columns, Names

MIN_GROUP_JOBS = 10
"""Minimum jobs of a user, project or queue for figures of its own."""
NOTABLE_ERROR_S = 60
"""Seconds by which a mean absolute error must change to count as a gain or a loss."""
MAX_UNDERESTIMATED_SHARE = 0.5
"""Share of underestimated jobs above which no group improves."""


def underestimation_limit(underestimated: float, target: float) -> float:
    """Return the greatest share of underestimated jobs with which a group improves.

    :param underestimated: share of all jobs that the predictor underestimates.

    >>> [underestimation_limit(share, 0.05) for share in (0.01, 0.1, 0.4)]
    [0.1, 0.2, 0.5]
    """
    return min(MAX_UNDERESTIMATED_SHARE, 2 * max(underestimated, target))


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
            self.gain >= NOTABLE_ERROR_S
            and self.accuracy > self.walltime_accuracy
            and self.underestimated <= most_underestimated
        )

    @property
    def deteriorates(self) -> bool:
        return self.gain <= -NOTABLE_ERROR_S


@dataclass(frozen=True, slots=True)
class Shares:
    """Number of users with enough jobs, and the shares that improve and deteriorate."""

    users: int
    better: float
    worse: float
    worst: float
    """Greatest deterioration of a user's mean absolute error, in seconds; 0 if there is none."""


def group_jobs(columns: Columns, errors: Errors, names: Names) -> list[Group]:
    """Return the groups with scored jobs, ordered by number of jobs, descending."""
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
    """Summarize the users with at least ``MIN_GROUP_JOBS`` jobs.

    :param most_underestimated: users with a greater share of underestimated jobs do not improve.
    """
    enough = [user for user in users if user.jobs >= MIN_GROUP_JOBS]
    if not enough:
        return Shares(0, 0.0, 0.0, 0.0)
    better = sum(user.improves(most_underestimated) for user in enough)
    worse = sum(user.deteriorates for user in enough)
    worst = max(0.0, -min(user.gain for user in enough))
    return Shares(len(enough), better / len(enough), worse / len(enough), worst)


def most_deteriorated(users: list[Group]) -> list[Group]:
    """The users whose error grows by at least ``NOTABLE_ERROR_S``, the one that loses most first."""
    return sorted(
        (user for user in users if user.jobs >= MIN_GROUP_JOBS and user.deteriorates),
        key=lambda user: (user.gain, user.name),
    )


MIN_POINT_JOBS = 20
"""Minimum jobs of a week for a rate of underestimation."""
MAX_POINTS = 60
"""Maximum points in the figure; with more weeks, a point is several weeks."""


class WeekRate(NamedTuple):
    """The share of underestimated jobs of those submitted in the weeks that begin at ``start`` (epoch seconds)."""

    start: int
    underestimated: float
    weeks: int = 1


def rates_by_week(submitted: NDArray[np.int64], under: NDArray[np.bool_]) -> tuple[WeekRate, ...]:
    """Return the share of underestimated jobs by week of submission (UTC, from Monday), of weeks with enough jobs.

    More than ``MAX_POINTS`` weeks are joined into periods of several weeks, so that as many periods are left at most.
    """
    if not len(submitted):
        return ()
    # 1970 began on a Thursday.
    week = (submitted + 3 * DAY) // (7 * DAY)
    first = int(week.min())
    together = -(-(int(week.max()) - first + 1) // MAX_POINTS)
    parts, codes = np.unique((week - first) // together, return_inverse=True)
    jobs = np.bincount(codes).tolist()
    shares = means_by_code(codes, under, len(parts))
    return tuple(
        WeekRate((first + part * together) * 7 * DAY - 3 * DAY, share, together)
        for part, share, count in zip(parts.tolist(), shares, jobs, strict=True)
        if count >= MIN_POINT_JOBS
    )


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
