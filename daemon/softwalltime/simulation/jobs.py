"""The jobs that a simulation schedules: one column per attribute, in order of submission."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from softwalltime.jobs import CompletedJob
from softwalltime.states import TEACHING, State

NO_RUNTIME = "no runtime"
NO_WALLTIME = "no walltime"
NO_PROCESSORS = "no processors"

T = TypeVar("T")

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs in order of submission; jobs submitted at one instant keep their order in the source.

    ``completed`` holds the records.  ``submitted`` is when the job could run for the first time, in epoch seconds: the
    submission, or ``etime`` where it was held or depended on other jobs, which no scheduler can change.  ``walltime``
    and ``runtime`` are in seconds; ``processors`` is what the job requested, or was allocated where the request is
    unknown.  ``left_out`` counts the records that cannot be simulated, by reason.  ``teaches``: whether predictors
    learn from the job's end.
    """

    completed: tuple[CompletedJob, ...]
    submitted: tuple[int, ...]
    processors: tuple[int, ...]
    walltime: tuple[int, ...]
    runtime: tuple[int, ...]
    teaches: tuple[bool, ...]
    left_out: dict[str, int]

    def __len__(self) -> int:
        return len(self.completed)

    def largest(self) -> int:
        """The processors of the largest job; 0 without jobs."""
        return max(self.processors, default=0)

    def peak(self) -> int:
        """The most processors in use at one time as recorded, and at least the largest job; 0 without jobs."""
        starts = np.array([_start(job) for job in self.completed], np.int64)
        ends = starts + np.array(self.runtime, np.int64)
        size = np.array(self.processors, np.int64)
        times, change = np.concatenate([ends, starts]), np.concatenate([-size, size])
        # Ends come first at one instant.
        used = np.cumsum(change[np.argsort(times, kind="stable")])
        return max(self.largest(), int(used.max(initial=0)))

    def that_fit(self, processors: int) -> tuple["Jobs", int]:
        """The jobs that a machine of this size can run, and the number of jobs that it refuses."""
        chosen = [index for index, size in enumerate(self.processors) if size <= processors]
        refused = len(self) - len(chosen)
        return (self._take(chosen), refused) if refused else (self, 0)

    def shifted(self, seconds: Sequence[int]) -> "Jobs":
        """Return the jobs with these delays of their submissions in seconds, in the new order of submission."""
        submitted = [time + shift for time, shift in zip(self.submitted, seconds, strict=True)]
        order = np.argsort(np.array(submitted, np.int64), kind="stable").tolist()
        taken = self._take(order)
        completed = tuple(_moved(job, seconds[index]) for job, index in zip(taken.completed, order, strict=True))
        return replace(taken, completed=completed, submitted=tuple(submitted[index] for index in order))

    def chosen(self, indexes: Sequence[int]) -> "Jobs":
        """The jobs at these positions, in this order, which must be one of submission."""
        return self._take(indexes)

    def _take(self, indexes: Sequence[int]) -> "Jobs":
        def take(column: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(column[index] for index in indexes)

        return Jobs(
            take(self.completed),
            take(self.submitted),
            take(self.processors),
            take(self.walltime),
            take(self.runtime),
            take(self.teaches),
            self.left_out,
        )


def jobs_of(completed: Sequence[CompletedJob], teaching: Collection[State] = TEACHING) -> Jobs:
    """The jobs of these records that can be simulated: those with a runtime, a walltime and processors.

    :param teaching: how jobs must have ended to teach.
    """
    kept: list[CompletedJob] = []
    left_out = {NO_RUNTIME: 0, NO_WALLTIME: 0, NO_PROCESSORS: 0}
    for job in completed:
        submission = job.submission
        if job.runtime <= 0:
            left_out[NO_RUNTIME] += 1
        elif (submission.walltime or 0) <= 0:
            left_out[NO_WALLTIME] += 1
        elif (submission.ncpus or 0) <= 0:
            left_out[NO_PROCESSORS] += 1
        else:
            kept.append(job)
    kept.sort(key=_eligible)
    return Jobs(
        tuple(kept),
        tuple(map(_eligible, kept)),
        tuple(job.submission.ncpus or 0 for job in kept),
        tuple(job.submission.walltime or 0 for job in kept),
        tuple(job.runtime for job in kept),
        tuple(job.state in teaching for job in kept),
        {reason: count for reason, count in left_out.items() if count},
    )


def _start(job: CompletedJob) -> int:
    return job.end - job.runtime if job.start is None else job.start


def _eligible(job: CompletedJob) -> int:
    submitted = job.submission.submitted
    # An etime after the start is of another run of the job, or wrong.
    return job.etime if job.etime is not None and submitted < job.etime <= _start(job) else submitted


def _moved(job: CompletedJob, seconds: int) -> CompletedJob:
    submission = replace(job.submission, submitted=job.submission.submitted + seconds)
    return replace(job, submission=submission)
