"""Waits of classes of jobs under each simulated setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softwalltime.core.formatting import printable
from softwalltime.measure.simulation.differences import Interval, differences, means, relative_changes
from softwalltime.measure.simulation.names import CLASSES
from softwalltime.measure.simulation.schedule_metrics import NAMELESS, OTHERS, Metrics, classes
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs

Rename = Callable[[str, str], str]
"""Maps the kind of a name (user, project, queue) and the name to the name to print."""
UNNAMED = "(none)"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
MAX_CLASSES = 10
"""Maximum users and queues with a class of their own; the others form one class."""
MIN_CLASS_JOBS = 50
"""Minimum jobs of a class; in smaller ones a few jobs determine the mean wait."""
NOTABLE_WAIT_S = 60
"""Seconds by which a class's wait must change to count as longer or shorter."""

CLASS_FACTOR = 1.5
"""Factor of the 95% interval for a class: about twenty classes are compared, and chance must not mark one of them."""

Members = Mapping[str, Mapping[str, Integers]]
"""Indexes of jobs by kind of class, then by class."""
ByClass = Mapping[str, Mapping[str, Metrics]]
"""Metrics by kind of class, then by class."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of the simulated jobs; ``metrics`` in today's setting are means over the workloads.

    ``jobs`` is the number of jobs as recorded, ``use`` their share of the processor time of all simulated jobs.
    """

    name: str
    jobs: int
    use: float
    metrics: Metrics

    @property
    def small(self) -> bool:
        return self.jobs < MIN_CLASS_JOBS


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """The waits of one class under a setting: ``metrics`` are means over the workloads.

    ``changes`` are relative to today's, ``differences`` in the metric's unit: both by metric, workload by workload.
    """

    name: str
    metrics: Metrics
    changes: Mapping[str, Interval]
    differences: Mapping[str, Interval]

    @property
    def longer(self) -> bool:
        """Whether the mean wait grows notably and significantly (95%)."""
        return (self.differences["wait_mean"].mean or 0) >= NOTABLE_WAIT_S and self.changes["wait_mean"].above

    @property
    def shorter(self) -> bool:
        """Whether the mean wait falls notably and significantly (95%)."""
        return (self.differences["wait_mean"].mean or 0) <= -NOTABLE_WAIT_S and self.changes["wait_mean"].below


def surely_longer(growth: Interval) -> bool:
    """Return whether the wait of one of about twenty classes grows by more than chance."""
    if growth.mean is None or growth.low is None:
        return False
    return growth.mean - CLASS_FACTOR * (growth.mean - growth.low) > 0


def members_of(jobs: Jobs, processors: int) -> Members:
    return {kind: classes(jobs, kind, processors, MAX_CLASSES) for kind in CLASSES}


def classes_today(
    jobs: Jobs, members: Members, baseline: Sequence[ByClass], rename: Rename
) -> dict[str, tuple[JobClass, ...]]:
    """The classes with their waits in today's setting."""
    # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
    used = np.array(jobs.processors, np.float64) * np.array(jobs.runtime, np.float64)
    return {
        kind: tuple(
            JobClass(
                _shown(kind, name, rename), len(jobs_of), float(used[jobs_of].sum() / used.sum()),
                means([metrics[kind][name] for metrics in baseline if name in metrics[kind]]),
            )
            for name, jobs_of in each.items()
        )
        for kind, each in members.items()
    }  # fmt: skip


def compare_classes(
    members: Members, setting: Sequence[ByClass], baseline: Sequence[ByClass], rename: Rename
) -> dict[str, tuple[ClassWaits, ...]]:
    """The waits of the same classes under a setting, compared with today's workload by workload."""
    waits: dict[str, tuple[ClassWaits, ...]] = {}
    for kind, each in members.items():
        waits[kind] = ()
        for name in each:
            # Shaking by weeks may remove all jobs from the first and last month.
            new, today = ([run[kind][name] for run in runs if name in run[kind]] for runs in (setting, baseline))
            changes, absolute = relative_changes(new, today), differences(new, today)
            waits[kind] += (ClassWaits(_shown(kind, name, rename), means(new), changes, absolute),)
    return waits


def _shown(kind: str, name: str, rename: Rename) -> str:
    if kind not in ("user", "queue"):
        return name
    if name == OTHERS:
        return "all others"
    return UNNAMED if name == NAMELESS else printable(rename(kind, name), UNPRINTABLE)
