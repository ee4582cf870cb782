"""Waits of classes of jobs under each simulated setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from softwalltime.core.formatting import printable
from softwalltime.measure.simulation.differences import Interval, differences, interval, means, relative_changes
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
    """A class of the simulated jobs and its waits in today's setting, in seconds: means over the workloads.

    ``jobs`` is the number of jobs as recorded, ``use`` their share of the processor time of all simulated jobs.
    """

    name: str
    jobs: int
    use: float
    wait_mean: float | None
    wait_p95: float | None

    @property
    def small(self) -> bool:
        return self.jobs < MIN_CLASS_JOBS


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """The waits of one class under a setting, in seconds: means over the workloads.

    ``change`` of the mean wait, ``change_p99`` of the 99th percentile and ``change_bsld10`` of the mean bounded
    slowdown are relative to today's, ``difference`` and ``difference_p99`` are in seconds, each workload by workload;
    ``worse`` and ``better`` are the shares of the class's jobs that wait at least 1 h more or less than today.
    """

    name: str
    wait_mean: float | None
    change: Interval
    difference: Interval
    worse: Interval
    better: Interval
    change_p99: Interval
    difference_p99: Interval
    bsld10_mean: float | None
    change_bsld10: Interval

    @property
    def longer(self) -> bool:
        """Whether the mean wait grows notably and significantly (95%)."""
        return (self.difference.mean or 0) >= NOTABLE_WAIT_S and self.change.above

    @property
    def shorter(self) -> bool:
        """Whether the mean wait falls notably and significantly (95%)."""
        return (self.difference.mean or 0) <= -NOTABLE_WAIT_S and self.change.below


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
    classes = {}
    for kind, each in members.items():
        today = {name: means([metrics[kind][name] for metrics in baseline if name in metrics[kind]]) for name in each}
        classes[kind] = tuple(
            JobClass(
                _shown(kind, name, rename), len(each[name]), float(used[each[name]].sum() / used.sum()),
                waits.wait_mean, waits.wait_p95,
            )
            for name, waits in today.items()
        )  # fmt: skip
    return classes


def compare_classes(
    members: Members, setting: Sequence[ByClass], baseline: Sequence[ByClass], rename: Rename
) -> dict[str, tuple[ClassWaits, ...]]:
    """The waits of the same classes under a setting, compared with today's workload by workload."""
    return {
        kind: tuple(
            _compared(
                _shown(kind, name, rename),
                # Shaking by weeks may remove all jobs from the first and last month.
                *([run[kind][name] for run in runs if name in run[kind]] for runs in (setting, baseline)),
            )
            for name in each
        )
        for kind, each in members.items()
    }


def _compared(name: str, new: Sequence[Metrics], today: Sequence[Metrics]) -> ClassWaits:
    relative, absolute, mean = relative_changes(new, today), differences(new, today), means(new)
    return ClassWaits(
        name,
        mean.wait_mean,
        relative["wait_mean"],
        absolute["wait_mean"],
        interval([metrics.worse_1h or 0.0 for metrics in new]),
        interval([metrics.better_1h or 0.0 for metrics in new]),
        relative["wait_p99"],
        absolute["wait_p99"],
        mean.bsld10_mean,
        relative["bsld10_mean"],
    )


def _shown(kind: str, name: str, rename: Rename) -> str:
    if kind not in ("user", "queue"):
        return name
    if name == OTHERS:
        return "all others"
    return UNNAMED if name == NAMELESS else printable(rename(kind, name), UNPRINTABLE)
