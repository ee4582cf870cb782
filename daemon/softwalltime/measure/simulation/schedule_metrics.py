"""Metrics of a schedule: waits, slowdowns and promises, for all jobs or for classes of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

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
    slowdowns: Floats = np.maximum(1.0, (wait + duration) / np.maximum(duration, bound))
    return slowdowns


@dataclass(frozen=True, slots=True)
class _Columns:
    """Input of the metrics, one entry per job; ``past_bound``: seconds from its bound to its start.

    ``change``: additional wait in seconds compared with the baseline.
    """

    submitted: Integers
    size: Integers
    wait: Integers
    duration: Integers
    start: Integers
    promise: Integers
    extensions: Integers
    backfilled: NDArray[np.bool_]
    past_bound: Integers | None
    change: Integers | None

    def part(self, which: Integers) -> "_Columns":
        return _Columns(
            self.submitted[which], self.size[which], self.wait[which], self.duration[which], self.start[which],
            self.promise[which], self.extensions[which], self.backfilled[which],
            None if self.past_bound is None else self.past_bound[which],
            None if self.change is None else self.change[which],
        )  # fmt: skip


def measure(
    jobs: Jobs, outcome: ScheduleOutcome, processors: int, baseline: ScheduleOutcome | None = None,
    chosen: NDArray[np.bool_] | None = None,
) -> Metrics:  # fmt: skip
    """The figures of a schedule.

    :param chosen: which jobs count; by default those with a walltime.  Utilisation and makespan are then of all jobs.
    """
    columns = _columns(jobs, outcome, baseline)
    if chosen is not None:
        return _measured(columns.part(np.flatnonzero(chosen)), processors)
    whole = figures = _measured(columns, processors)
    if not jobs.scored.all():
        figures = _measured(columns.part(np.flatnonzero(jobs.scored)), processors)
    speed = len(jobs) / outcome.seconds if len(jobs) and outcome.seconds else None
    return replace(figures, utilisation=whole.utilisation, makespan=whole.makespan, jobs_per_second=speed)


def measure_classes(
    jobs: Jobs, outcome: ScheduleOutcome, processors: int, members: Mapping[str, Mapping[str, Integers]],
    baseline: ScheduleOutcome | None = None,
) -> dict[str, dict[str, Metrics]]:  # fmt: skip
    """The figures of each class, by what makes the class, then by the class's name."""
    columns = _columns(jobs, outcome, baseline)
    return {
        by: {name: _measured(columns.part(which), processors) for name, which in classes.items()}
        for by, classes in members.items()
    }


def _columns(jobs: Jobs, outcome: ScheduleOutcome, baseline: ScheduleOutcome | None) -> _Columns:
    wait = waits(jobs, outcome)
    return _Columns(
        np.array(jobs.submitted, np.int64), np.array(jobs.processors, np.int64), wait, outcome.duration, outcome.start,
        outcome.promise, outcome.extensions, outcome.backfilled,
        None if outcome.bound is None else np.where(outcome.bound < 0, 0, outcome.start - outcome.bound),
        None if baseline is None else wait - waits(jobs, baseline),
    )  # fmt: skip


def _measured(of: _Columns, processors: int) -> Metrics:
    wait, duration, change = of.wait, of.duration, of.change
    if not len(wait):
        return Metrics()
    # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
    area = of.size.astype(np.float64) * duration
    makespan = int((of.start + duration).max()) - int(of.submitted.min())
    promised = of.promise >= 0
    late = (of.start - of.promise)[promised]
    late = late[late > 0]
    wide = wait[of.size >= WIDE_SHARE * processors]
    median, p95, p99 = np.percentile(wait, (50, 95, 99)).tolist()
    return Metrics(
        float(wait.mean()),
        median,
        p95,
        float(wait.max()),
        float(bounded_slowdowns(wait, duration, 10).mean()),
        float(bounded_slowdowns(wait, duration, 60).mean()),
        float(((wait + duration) / duration).mean()),
        float((wait * area).sum() / area.sum()),
        float(area.sum() / (processors * makespan)),
        float(makespan),
        float(of.backfilled.mean()),
        int(promised.sum()),
        float(len(late) / promised.sum()) if promised.any() else None,
        float(late.mean()) if len(late) else None,
        float(of.extensions.mean()),
        None if change is None else float((change >= HOUR).mean()),
        None if change is None else float((change <= -HOUR).mean()),
        float(np.percentile(wide, 99)) if len(wide) else None,
        p99,
        _upper_tenth_p99(wait, of.size),
        _upper_tenth_p99(wait, duration),
        None if of.past_bound is None else float((of.past_bound > 0).mean()),
        None if of.past_bound is None else float(max(of.past_bound.max(), 0)),
    )


def _upper_tenth_p99(wait: Integers, by: Integers) -> float:
    """Return the 99th percentile of the waits of the tenth that is greatest in ``by``, with all jobs equal to these."""
    return float(np.percentile(wait[by >= np.percentile(by, TENTH)], 99))


def classes(jobs: Jobs, by: str, processors: int, largest: int | None = None) -> dict[str, Integers]:
    """The indexes of the scored jobs of each class, by the class's name, in ascending order of what makes the class.

    Runtimes and sizes do not depend on the policy: the runtime is the recorded one.

    :param by: one of :data:`CLASSES`.
    :param largest: only so many users or queues, those with the most jobs, the largest first; the jobs of the rest are
        the class :data:`OTHERS`.
    :raises UsageError: for another one.
    """
    scored = jobs.scored
    members = {name: which[scored[which]] for name, which in _members(jobs, by, processors).items()}
    members = {name: which for name, which in members.items() if len(which)}
    return _largest(members, largest) if by in ("queue", "user") else members


def _members(jobs: Jobs, by: str, processors: int) -> dict[str, Integers]:
    if by == "runtime":
        return _grouped([runtime_class(seconds) for seconds in jobs.runtime], [name for _, name in _RUNTIMES])
    if by == "size":
        return _grouped([size_class(size, processors) for size in jobs.processors], _SIZES)
    if by == "queue":
        return _grouped([queue or NAMELESS for queue in jobs.completed.values("queue")])
    if by == "user":
        return _grouped([user or NAMELESS for user in jobs.completed.values("user")])
    if by == "month":
        return _grouped([datetime.fromtimestamp(time, UTC).strftime("%Y-%m") for time in jobs.submitted])
    raise UsageError(f"no class is called {by!r}; there are {', '.join(CLASSES)}")


def runtime_class(seconds: int) -> str:
    return next((name for limit, name in _RUNTIMES if seconds <= limit), "more than 24 h")


def size_class(size: int, processors: int) -> str:
    if size == 1:
        return _SIZES[0]
    return _SIZES[1 if 8 * size <= processors else 2 if 2 * size <= processors else 3]


def _grouped(labels: Sequence[str], first: Sequence[str] = ()) -> dict[str, Integers]:
    index: dict[str, int] = {}
    codes = np.fromiter((index.setdefault(label, len(index)) for label in labels), np.int64, len(labels))
    parts = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    members = dict(zip(index, parts, strict=False))
    names = [name for name in first if name in members] + sorted(members.keys() - set(first))
    return {name: members[name] for name in names}


def _largest(members: dict[str, Integers], largest: int | None) -> dict[str, Integers]:
    if largest is None:
        return members
    names = sorted(members, key=lambda name: (-len(members[name]), name))
    kept = {name: members[name] for name in names[:largest]}
    rest = [members[name] for name in names[largest:]]
    return kept | ({OTHERS: np.sort(np.concatenate(rest))} if rest else {})
