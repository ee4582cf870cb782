"""Metrics of a schedule: waits, slowdowns and promises, for all jobs or for classes of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from softwalltime.errors import UsageError
from softwalltime.simulation.engine import Outcome
from softwalltime.simulation.jobs import Floats, Integers, Jobs

HOUR = 3600
WIDE = 0.5
"""Least share of the machine that makes a job wide."""
CLASSES = ("runtime", "size", "queue", "user", "month")
_RUNTIMES = (
    (60, "up to 1 min"), (600, "up to 10 min"), (HOUR, "up to 1 h"), (4 * HOUR, "up to 4 h"), (24 * HOUR, "up to 24 h"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one schedule; ``None`` if no job has the metric.

    ``wait_*`` in seconds.  ``bsld10_mean``: mean bounded slowdown, max(1, (wait + run) / max(run, 10)); ``bsld60_mean``
    with 60 s.  ``slowdown_mean``: mean of (wait + run) / run.  ``weighted_wait``: mean wait weighted by
    processor-seconds.  ``utilisation``: busy share of processors x makespan.  ``makespan``: first submission to last
    end, in seconds.  ``backfilled``: share of jobs that overtook the head.  ``promises``: number of jobs that were
    promised a start; ``broken``: share of those that started later; ``broken_seconds_mean``: by how much, over the
    broken ones.  ``extensions_mean``: corrections of a planned end per job.  ``worse_1h``, ``better_1h``: share of jobs
    that wait at least 1 h more or less than under the first policy.  ``wide_wait_p99``: 99th percentile of the wait of
    jobs on at least half the machine.  ``jobs_per_second``: of wall-clock time in the engine.
    """

    wait_mean: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    wait_max: float | None = None
    bsld10_mean: float | None = None
    bsld60_mean: float | None = None
    slowdown_mean: float | None = None
    weighted_wait: float | None = None
    utilisation: float | None = None
    makespan: float | None = None
    backfilled: float | None = None
    promises: int = 0
    broken: float | None = None
    broken_seconds_mean: float | None = None
    extensions_mean: float | None = None
    worse_1h: float | None = None
    better_1h: float | None = None
    wide_wait_p99: float | None = None
    jobs_per_second: float | None = None


def waits(jobs: Jobs, outcome: Outcome) -> Integers:
    """Seconds that each job waited."""
    return outcome.start - np.array(jobs.submitted, np.int64)


def bounded_slowdowns(wait: Integers, duration: Integers, bound: int) -> Floats:
    """max(1, (wait + duration) / max(duration, bound)) of each job (Feitelson et al. 1997)."""
    found: Floats = np.maximum(1.0, (wait + duration) / np.maximum(duration, bound))
    return found


def measure(
    jobs: Jobs, outcome: Outcome, processors: int, baseline: Outcome | None = None,
    chosen: NDArray[np.bool_] | None = None,
) -> Metrics:  # fmt: skip
    """The figures of a schedule.

    :param processors: size of the machine.
    :param baseline: the schedule of the same jobs under the first policy.
    :param chosen: which jobs count; all by default.
    """
    which = np.ones(len(jobs), np.bool_) if chosen is None else chosen
    count = int(which.sum())
    if not count:
        return Metrics()
    every = waits(jobs, outcome)
    wait, duration = every[which], outcome.duration[which]
    size = np.array(jobs.processors, np.int64)[which]
    # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
    area = size.astype(np.float64) * duration
    makespan = int((outcome.start + outcome.duration)[which].max()) - int(np.array(jobs.submitted)[which].min())
    promise, start = outcome.promise[which], outcome.start[which]
    promised = promise >= 0
    late = (start - promise)[promised]
    late = late[late > 0]
    change = None if baseline is None else wait - waits(jobs, baseline)[which]
    wide = wait[size >= WIDE * processors]
    return Metrics(
        float(wait.mean()),
        float(np.percentile(wait, 50)),
        float(np.percentile(wait, 95)),
        float(wait.max()),
        float(bounded_slowdowns(wait, duration, 10).mean()),
        float(bounded_slowdowns(wait, duration, 60).mean()),
        float(((wait + duration) / duration).mean()),
        float((wait * area).sum() / area.sum()),
        float(area.sum() / (processors * makespan)),
        float(makespan),
        float(outcome.backfilled[which].mean()),
        int(promised.sum()),
        float(len(late) / promised.sum()) if promised.any() else None,
        float(late.mean()) if len(late) else None,
        float(outcome.extensions[which].mean()),
        None if change is None else float((change >= HOUR).mean()),
        None if change is None else float((change <= -HOUR).mean()),
        float(np.percentile(wide, 99)) if len(wide) else None,
        count / outcome.seconds if chosen is None and outcome.seconds else None,
    )


def classes(jobs: Jobs, by: str, processors: int) -> dict[str, NDArray[np.bool_]]:
    """The jobs of each class, by the class's name, in ascending order of what makes the class.

    Runtimes and sizes do not depend on the policy: the runtime is the recorded one.

    :param by: one of :data:`CLASSES`.
    :raises UsageError: for another one.
    """
    if by == "runtime":
        return _grouped([_runtime(seconds) for seconds in jobs.runtime], [name for _, name in _RUNTIMES])
    if by == "size":
        names = ["1 processor", "up to 1/8 of the machine", "up to 1/2 of the machine", "more than 1/2 of the machine"]
        return _grouped([names[_size(size, processors)] for size in jobs.processors], names)
    if by == "queue":
        return _grouped([job.submission.queue or "-" for job in jobs.completed], [])
    if by == "user":
        return _grouped([job.submission.user or "-" for job in jobs.completed], [])
    if by == "month":
        return _grouped([datetime.fromtimestamp(time, UTC).strftime("%Y-%m") for time in jobs.submitted], [])
    raise UsageError(f"no class is called {by!r}; there are {', '.join(CLASSES)}")


def _runtime(seconds: int) -> str:
    return next((name for limit, name in _RUNTIMES if seconds <= limit), "more than 24 h")


def _size(size: int, processors: int) -> int:
    if size == 1:
        return 0
    return 1 if 8 * size <= processors else 2 if 2 * size <= processors else 3


def _grouped(labels: list[str], first: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    column = np.array(labels)
    there = set(labels)
    names = [name for name in first if name in there] + sorted(there - set(first))
    return {name: column == name for name in names}
