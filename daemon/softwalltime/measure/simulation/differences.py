"""Paired differences between policies over the same shaken workloads, with 95% confidence intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from softwalltime.core.formatting import HOUR
from softwalltime.measure.simulation.schedule_metrics import Metrics

# Student's t, two-sided 95%, for 1 to 30 degrees of freedom; beyond, the value for 30 is slightly too wide.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
RELATIVE = (
    "wait_mean", "wait_p50", "wait_p95", "wait_max", "bsld10_mean", "bsld60_mean", "slowdown_mean", "weighted_wait",
    "makespan", "wide_wait_p99", "wait_p99", "widest_wait_p99", "longest_wait_p99",
)  # fmt: skip
"""Metrics that are reported as a relative change."""
_WITHOUT = {"worse_1h", "better_1h", "jobs_per_second"}
COMPARED = tuple(field.name for field in fields(Metrics) if field.name not in _WITHOUT)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over pairs and its 95% confidence interval; no interval for fewer than two pairs."""

    mean: float | None = None
    """The mean; null without pairs."""
    low: float | None = None
    """Lower end of the 95% confidence interval."""
    high: float | None = None
    """Upper end of the 95% confidence interval."""

    @classmethod
    def around(cls, mean: float, half: float) -> "Interval":
        return cls(mean, mean - half, mean + half)

    @property
    def above(self) -> bool:
        return self.low is not None and self.low > 0

    @property
    def below(self) -> bool:
        return self.high is not None and self.high < 0

    def columns(self, name: str) -> dict[str, float | None]:
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


def interval(values: Sequence[float]) -> Interval:
    """The mean of the values and its 95% interval by Student's t."""
    count = len(values)
    if not count:
        return Interval()
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval.around(mean, student(count - 1) * math.sqrt(variance / count))


def student(degrees: int) -> float:
    """Student's t for a two-sided 95% interval; from 30 degrees of freedom on slightly too large."""
    return _T[min(degrees, len(_T)) - 1]


def differences(policy: Sequence[Metrics], baseline: Sequence[Metrics]) -> dict[str, Interval]:
    """Policy minus baseline of each metric, in the metric's unit, workload by workload."""
    return {name: interval([mine - other for mine, other in _pairs(name, policy, baseline)]) for name in COMPARED}


def relative_changes(policy: Sequence[Metrics], baseline: Sequence[Metrics]) -> dict[str, Interval]:
    """(policy - baseline) / baseline of the metrics in :data:`RELATIVE`, workload by workload.

    Only waits can be 0; there the difference is divided by an hour: jobs that never waited are not left out, and a few
    seconds exceed no limit.
    """
    return {
        name: interval([(mine - other) / (other or HOUR) for mine, other in _pairs(name, policy, baseline)])
        for name in RELATIVE
    }


def means(metrics: Sequence[Metrics]) -> Metrics:
    """Each metric's mean over the workloads that have it; ``promises`` is rounded."""
    averages: dict[str, float | None] = {}
    for field in fields(Metrics):
        values = [value for workload in metrics if (value := getattr(workload, field.name)) is not None]
        averages[field.name] = math.fsum(values) / len(values) if values else None
    promises = round(averages.pop("promises") or 0)
    return Metrics(promises=promises, **averages)


def _pairs(name: str, policy: Sequence[Metrics], baseline: Sequence[Metrics]) -> list[tuple[float, float]]:
    both = ((getattr(mine, name), getattr(other, name)) for mine, other in zip(policy, baseline, strict=True))
    return [(mine, other) for mine, other in both if mine is not None and other is not None]
