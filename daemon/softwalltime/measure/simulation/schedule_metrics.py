"""Metrics of a schedule: waits, slowdowns and promises, for all jobs or for classes of jobs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import UsageError
from softwalltime.measure.simulation.engine import ScheduleOutcome
from softwalltime.measure.simulation.names import CLASSES
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs

HOUR = 3600
WIDE_SHARE = 0.5
"""Least share of the machine that makes a job wide."""
TENTH = 90
"""Percentile of sizes and of runtimes from which a job belongs to the widest or to the longest tenth."""
NAMELESS = "-"
"""Class of the jobs without a user or a queue."""
OTHERS = "(others)"
"""Class of the jobs of all smaller users or queues."""
_RUNTIMES = (
    (60, "up to 1 min"), (600, "up to 10 min"), (HOUR, "up to 1 h"), (4 * HOUR, "up to 4 h"), (24 * HOUR, "up to 24 h"),
)  # fmt: skip
_SIZES = ("1 processor", "up to 1/8 of the machine", "up to 1/2 of the machine", "more than 1/2 of the machine")


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one schedule; ``None`` if no job has the metric."""

    wait_mean: float | None = None
    """Mean wait in seconds."""
    wait_p50: float | None = None
    """Median of the waits in seconds."""
    wait_p95: float | None = None
    """95th percentile of the waits in seconds."""
    wait_max: float | None = None
    """Longest wait in seconds."""
    bsld10_mean: float | None = None
    """Mean bounded slowdown: max(1, (wait + run) / max(run, 10 s))."""
    bsld60_mean: float | None = None
    """Mean bounded slowdown: max(1, (wait + run) / max(run, 60 s))."""
    slowdown_mean: float | None = None
    """Mean of (wait + run) / run."""
    weighted_wait: float | None = None
    """Mean wait in seconds, weighted by processor-seconds."""
    utilisation: float | None = None
    """Busy share of processors x makespan."""
    makespan: float | None = None
    """First submission to last end, in seconds."""
    backfilled: float | None = None
    """Share of jobs that overtook the top job."""
    promises: int = 0
    """Number of jobs that were promised a start."""
    broken: float | None = None
    """Share of the promised starts that were late."""
    broken_seconds_mean: float | None = None
    """Mean delay of the broken promises in seconds."""
    extensions_mean: float | None = None
    """Corrections of a planned end, per job."""
    worse_1h: float | None = None
    """Share of jobs that wait at least 1 h more than under the first policy."""
    better_1h: float | None = None
    """Share of jobs that wait at least 1 h less than under the first policy."""
    wide_wait_p99: float | None = None
    """99th percentile of the waits, in seconds, of jobs on at least half the machine."""
    wait_p99: float | None = None
    """99th percentile of the waits in seconds."""
    widest_wait_p99: float | None = None
    """99th percentile of the waits, in seconds, of the widest tenth: the jobs of the 90th percentile's size or more."""
    longest_wait_p99: float | None = None
    """99th percentile of the waits, in seconds, of the longest tenth: jobs that run as long as the 90th percentile."""
    past_bound: float | None = None
    """Share of jobs that start later than their bound: the start by first come, first served, plus the slack."""
    past_bound_max: float | None = None
    """Longest delay beyond the bound in seconds; 0 if none."""
    jobs_per_second: float | None = None
    """Jobs per second of wall-clock time in the engine."""


def waits(jobs: Jobs, outcome: ScheduleOutcome) -> Integers:
    return outcome.start - np.array(jobs.submitted, np.int64)


def bounded_slowdowns(wait: Integers, duration: Integers, bound: int) -> Floats:
    """max(1, (wait + duration) / max(duration, bound)) of each job (Feitelson et al. 1997)."""
    return np.maximum(1.0, (wait + duration) / np.maximum(duration, bound))


_Columns = dict[str, NDArray[Any]]
"""Input of the metrics, one entry per job.

``past_bound``: seconds from its bound to its start, where there are bounds.  ``change``: additional wait in seconds
compared with the baseline, where there is one.
"""


def measure(
    jobs: Jobs, outcome: ScheduleOutcome, processors: int, baseline: ScheduleOutcome | None = None,
    chosen: NDArray[np.bool_] | None = None,
) -> Metrics:  # fmt: skip
    """The figures of a schedule.

    :param chosen: which jobs count; by default those with a walltime.  Utilisation and makespan are then of all jobs.
    """
    columns = _columns(jobs, outcome, baseline)
    if chosen is not None:
        return _measured(columns, processors, chosen)
    whole = figures = _measured(columns, processors)
    if not jobs.scored.all():
        figures = _measured(columns, processors, jobs.scored)
    speed = len(jobs) / outcome.seconds if len(jobs) and outcome.seconds else None
    return replace(figures, utilisation=whole.utilisation, makespan=whole.makespan, jobs_per_second=speed)


def measure_classes(
    jobs: Jobs, outcome: ScheduleOutcome, processors: int, members: Mapping[str, Mapping[str, Integers]],
    baseline: ScheduleOutcome | None = None,
) -> dict[str, dict[str, Metrics]]:  # fmt: skip
    """The figures of each class, by what makes the class, then by the class's name."""
    columns = _columns(jobs, outcome, baseline)
    return {
        by: {name: _measured(columns, processors, which) for name, which in classes.items()}
        for by, classes in members.items()
    }


def _columns(jobs: Jobs, outcome: ScheduleOutcome, baseline: ScheduleOutcome | None) -> _Columns:
    columns = {name: getattr(outcome, name) for name in ("start", "duration", "promise", "extensions", "backfilled")}
    columns["submitted"], columns["size"] = np.array(jobs.submitted, np.int64), np.array(jobs.processors, np.int64)
    columns["wait"] = wait = waits(jobs, outcome)
    if outcome.bound is not None:
        columns["past_bound"] = np.where(outcome.bound < 0, 0, outcome.start - outcome.bound)
    if baseline is not None:
        columns["change"] = wait - waits(jobs, baseline)
    return columns


def _measured(of: _Columns, processors: int, chosen: NDArray[Any] | None = None) -> Metrics:
    """:param chosen: indexes or a mask of the jobs that count; ``None``: all."""
    if chosen is not None:
        of = {name: column[chosen] for name, column in of.items()}
    start, wait, duration, size = of["start"], of["wait"], of["duration"], of["size"]
    if not len(wait):
        return Metrics()
    # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
    area = size.astype(np.float64) * duration
    makespan = int((start + duration).max()) - int(of["submitted"].min())
    promised = of["promise"] >= 0
    late = (start - of["promise"])[promised]
    late = late[late > 0]
    wide = wait[size >= WIDE_SHARE * processors]
    median, p95, p99 = np.percentile(wait, (50, 95, 99)).tolist()
    figures = {
        "wait_mean": wait.mean(), "wait_p50": median, "wait_p95": p95, "wait_max": wait.max(),
        "bsld10_mean": bounded_slowdowns(wait, duration, 10).mean(),
        "bsld60_mean": bounded_slowdowns(wait, duration, 60).mean(),
        "slowdown_mean": ((wait + duration) / duration).mean(), "weighted_wait": (wait * area).sum() / area.sum(),
        "utilisation": area.sum() / (processors * makespan), "makespan": makespan,
        "backfilled": of["backfilled"].mean(), "extensions_mean": of["extensions"].mean(), "wait_p99": p99,
        "widest_wait_p99": _upper_tenth_p99(wait, size), "longest_wait_p99": _upper_tenth_p99(wait, duration),
    }  # fmt: skip
    if promised.any():
        figures["broken"] = len(late) / promised.sum()
    if len(late):
        figures["broken_seconds_mean"] = late.mean()
    if len(wide):
        figures["wide_wait_p99"] = np.percentile(wide, 99)
    if "change" in of:
        figures |= {"worse_1h": (of["change"] >= HOUR).mean(), "better_1h": (of["change"] <= -HOUR).mean()}
    if "past_bound" in of:
        past = of["past_bound"]
        figures |= {"past_bound": (past > 0).mean(), "past_bound_max": max(past.max(), 0)}
    return Metrics(promises=int(promised.sum()), **{name: float(value) for name, value in figures.items()})


def _upper_tenth_p99(wait: Integers, by: Integers) -> float:
    """Return the 99th percentile of the waits of the tenth that is greatest in ``by``, with all jobs equal to these."""
    return float(np.percentile(wait[by >= np.percentile(by, TENTH)], 99))


def classes(jobs: Jobs, by: str, processors: int, largest: int | None = None) -> dict[str, Integers]:
    """The indexes of the scored jobs of each class, by the class's name, in ascending order of what makes the class.

    :param largest: only so many users or queues, those with the most jobs, the largest first; the jobs of the rest are
        the class :data:`OTHERS`.
    :raises UsageError: for another one.
    """
    if by not in _LABELS:
        raise UsageError(f"no class is called {by!r}; there are {', '.join(CLASSES)}")
    labels, members = list(_LABELS[by](jobs, processors)), defaultdict[str, list[int]](list)
    for index in np.flatnonzero(jobs.scored).tolist():
        members[labels[index]].append(index)
    first = _FIRST.get(by, ())
    names = [name for name in first if name in members] + sorted(members.keys() - set(first))
    if by in ("queue", "user") and largest is not None:
        names.sort(key=lambda name: (-len(members[name]), name))
        if others := names[largest:]:
            names = [*names[:largest], OTHERS]
            members[OTHERS] = sorted(chain.from_iterable(members[name] for name in others))
    return {name: np.array(members[name], np.int64) for name in names}


def runtime_class(seconds: int) -> str:
    return next((name for limit, name in _RUNTIMES if seconds <= limit), "more than 24 h")


def size_class(size: int, processors: int) -> str:
    if size == 1:
        return _SIZES[0]
    return _SIZES[1 if 8 * size <= processors else 2 if 2 * size <= processors else 3]


_LABELS: dict[str, Callable[[Jobs, int], Iterable[str]]] = {
    "runtime": lambda jobs, _: map(runtime_class, jobs.runtime),
    "size": lambda jobs, processors: (size_class(size, processors) for size in jobs.processors),
    "queue": lambda jobs, _: (queue or NAMELESS for queue in jobs.completed.values("queue")),
    "user": lambda jobs, _: (user or NAMELESS for user in jobs.completed.values("user")),
    "month": lambda jobs, _: (datetime.fromtimestamp(time, UTC).strftime("%Y-%m") for time in jobs.submitted),
}
"""The class of each job, by what makes the class."""
_FIRST = {"runtime": [name for _, name in _RUNTIMES], "size": _SIZES}
"""Classes that are not in alphabetical order."""
