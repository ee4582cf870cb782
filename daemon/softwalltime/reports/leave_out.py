"""Exclude users and queues from soft walltimes by rule, from figures over the older half of the jobs.

A user or a queue with at least ``LEAST_JOBS`` jobs there is excluded if the setting underestimates more than
:func:`limit` of these jobs, or is no more accurate than the walltimes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softwalltime.formatting import percent
from softwalltime.replay.workload import Workload
from softwalltime.reports.analysis.groups import Group, group_jobs
from softwalltime.reports.analysis.halves import Halves, evaluate_halves, older_half
from softwalltime.reports.analysis.predictions import evaluate
from softwalltime.reports.columns import UNNAMED, Booleans, Columns, Integers

Kind = Literal["queue", "user"]
LEAST_JOBS = 100
MOST_UNDERESTIMATED = 0.5


@dataclass(frozen=True, slots=True)
class ExcludedGroup:
    """A queue or a user without soft walltimes, its jobs in the older half, and the reason."""

    kind: Kind
    name: str
    jobs: int
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluatedSetting:
    """A setting's figures, with the walltimes for excluded groups.

    ``most_underestimated`` is the limit for exclusion.

    ``users`` and ``queues`` are the recorded names of the excluded groups; ``left_out`` may have pseudonyms.
    """

    halves: Halves
    left_out: tuple[ExcludedGroup, ...]
    most_underestimated: float
    users: tuple[str, ...]
    queues: tuple[str, ...]

    @property
    def spec(self) -> str:
        """The predictor."""
        return self.halves.spec


def limit(underestimated: float, target: float) -> float:
    """The greatest share of underestimated jobs of a user or a queue.

    :param underestimated: share of all jobs that the setting underestimates.
    :param target: the site's limit.

    >>> [limit(share, 0.05) for share in (0.01, 0.1, 0.4)]
    [0.1, 0.2, 0.5]
    """
    return min(MOST_UNDERESTIMATED, 2 * max(underestimated, target))


def select(kind: Kind, groups: Sequence[Group], most: float) -> tuple[ExcludedGroup, ...]:
    """Return the groups to exclude.

    :param groups: figures over the older half.
    :param most: greatest share of underestimated jobs.
    """
    found = []
    for group in groups:
        if group.jobs < LEAST_JOBS or group.name == UNNAMED:
            continue
        if group.underestimated > most:
            reason = f"{percent(group.underestimated)} of the jobs would be underestimated"
        elif group.accuracy <= group.walltime_accuracy:
            reason = (
                f"predictions are no more accurate: {group.accuracy:.3f}, the walltimes {group.walltime_accuracy:.3f}"
            )
        else:
            continue
        found.append(ExcludedGroup(kind, group.name, group.jobs, reason))
    return tuple(found)


def evaluate_setting(workload: Workload, table: Columns, spec: str, soft: Integers, target: float) -> EvaluatedSetting:
    """Determine the groups to exclude, and the figures with their jobs at the walltime.

    :param soft: the soft walltime of each job in seconds, -1 for none.
    """
    judged, half = evaluate(table, spec, soft), older_half(table)
    most = limit(evaluate_halves(table, spec, soft).older.underestimated, target)
    queues = select("queue", group_jobs(table, judged, table.queue, half), most)
    users = select("user", group_jobs(table, judged, table.user, half), most)
    in_queues = _among(table.queue.codes, table.queue.names, queues)
    of_users = _among(table.user.codes, table.user.names, users)
    without = evaluate_halves(table, spec, np.where(in_queues | of_users, -1, soft))
    return EvaluatedSetting(
        without,
        queues + users,
        most,
        _recorded(workload, "user", of_users),
        _recorded(workload, "queue", in_queues),
    )


def _recorded(workload: Workload, field: str, which: Booleans) -> tuple[str, ...]:
    """The recorded names in this field of some of the jobs, sorted."""
    return tuple(sorted({name for name, chosen in zip(workload.values(field), which.tolist(), strict=True) if chosen}))


def _among(codes: Integers, names: Sequence[str], left_out: Sequence[ExcludedGroup]) -> Booleans:
    """Return the mask of the jobs of the excluded groups."""
    wanted = {one.name for one in left_out}
    return np.array([name in wanted for name in names], np.bool_)[codes]
