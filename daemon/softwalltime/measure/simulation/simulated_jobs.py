"""The jobs that a simulation schedules: one column per attribute, in order of submission."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.jobs import CompletedJob
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.simulation.resources import Vnodes, processors_on

NO_RUNTIME = "no runtime"
NO_WALLTIME = "no walltime"
NO_PROCESSORS = "no processors"
UNLIMITED_WALLTIME_S = 5 * 365 * 86400
"""What PBS's scheduler takes for the walltime of a job without one, in seconds: five years."""
_UNKNOWN = -(2**62)
"""In place of a time that is not recorded."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs in order of submission; jobs submitted at one instant keep their order in the source.

    ``completed`` holds the records.  ``submitted`` is when the job could run for the first time, in epoch seconds: the
    submission, or ``etime`` where it was held or depended on other jobs.  ``walltime`` and ``runtime`` are in seconds;
    the walltime is :data:`UNLIMITED_WALLTIME_S` for a job without one, which is not scored.  ``processors``: what it
    takes, which may be more than :attr:`requested`.  ``left_out`` counts the records that cannot be simulated, by
    reason.  ``teaches``: whether predictors learn from the job.  ``priorities``: of its queue and of itself, where
    known.
    """

    completed: JobColumns
    submitted: Sequence[int]
    processors: Sequence[int]
    walltime: Sequence[int]
    runtime: Sequence[int]
    teaches: Sequence[bool]
    left_out: dict[str, int]
    priorities: Sequence[tuple[int, int]] = ()

    def __len__(self) -> int:
        return len(self.submitted)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which jobs the metrics are of: those with a walltime."""
        return np.asarray(self.completed.numbers("walltime") > 0)

    @property
    def requested(self) -> Floats:
        """Processors that each job requests, or was allocated if the request is unknown."""
        return np.maximum(self.completed.numbers("ncpus"), 1).astype(np.float64)

    def scored_share(self) -> float:
        """The share of the processor time that the scored jobs used as recorded; 1 without jobs."""
        # As floats: a damaged record may hold more processor-seconds than an integer of 64 bits.
        used = np.array(self.processors, np.float64) * np.array(self.runtime, np.float64)
        return float(used[self.scored].sum() / used.sum()) if len(self) else 1.0

    def peak(self) -> int:
        """The most processors in use at one time as recorded, and at least the largest job; 0 without jobs."""
        runtime, size = np.array(self.runtime, np.int64), np.array(self.processors, np.int64)
        return int(np.cumsum(in_order(use_changes(starts_of(self.completed), runtime, size))[1]).max(initial=0))

    def that_fit(self, processors: int) -> tuple["Jobs", int]:
        """The jobs that a machine of this size can run, and the number of jobs that it refuses."""
        chosen = [index for index, size in enumerate(self.processors) if size <= processors]
        refused = len(self) - len(chosen)
        return (self.chosen(chosen), refused) if refused else (self, 0)

    def shifted(self, seconds: Sequence[int]) -> "Jobs":
        """Return the jobs with these delays of their submissions in seconds, in the new order of submission."""
        submitted = [time + shift for time, shift in zip(self.submitted, seconds, strict=True)]
        order = np.argsort(np.array(submitted, np.int64), kind="stable").tolist()
        recorded = (self.completed.numbers("submitted") + np.array(seconds, np.int64)).tolist()
        moved = replace(self, completed=self.completed.replaced("submitted", recorded), submitted=tuple(submitted))
        return moved.chosen(order)

    def chosen(self, indexes: Sequence[int]) -> "Jobs":
        """The jobs at these positions, in this order, which must be one of submission."""
        names = ("submitted", "processors", "walltime", "runtime", "teaches", *(["priorities"] * bool(self.priorities)))
        taken: dict[str, Any] = {name: tuple(map(getattr(self, name).__getitem__, indexes)) for name in names}
        return replace(self, completed=self.completed.select(np.array(indexes, np.int64)), **taken)


def jobs_of(
    completed: Sequence[CompletedJob], teaching: Collection[State] = TEACHING, *, limited_only: bool = False,
    vnodes: tuple[Vnodes, ...] = (),
) -> Jobs:  # fmt: skip
    """The jobs of these records that can be simulated: with runtime, processors and, if ``limited_only``, walltime.

    :param vnodes: of the machine, on which they take processors (:func:`.processors_on`).
    """
    records = JobColumns.of(completed)
    which, left_out = simulable(records, limited_only=limited_only)
    records = records.select(which)
    eligible = eligible_times(records)
    order = np.argsort(eligible, kind="stable")
    records = records.select(order)
    walltime = records.numbers("walltime")
    return Jobs(
        records,
        tuple(eligible[order].tolist()),
        tuple(processors_on(vnodes, records).tolist()),
        tuple(np.where(walltime > 0, walltime, UNLIMITED_WALLTIME_S).tolist()),
        tuple(records.numbers("runtime").tolist()),
        tuple(records.teaching(teaching).tolist()),
        left_out,
    )


def simulable(records: JobColumns, *, limited_only: bool = False) -> tuple[Integers, dict[str, int]]:
    """Return the indexes of the records that can be simulated (:func:`jobs_of`), and the number of others by reason."""
    lacking = {
        NO_RUNTIME: records.numbers("runtime") <= 0,
        NO_WALLTIME: limited_only & (records.numbers("walltime") <= 0),
        NO_PROCESSORS: records.numbers("ncpus") <= 0,
    }
    left_out: dict[str, int] = {}
    kept = np.ones(len(records), np.bool_)
    for reason, lacks in lacking.items():
        if count := int((kept & lacks).sum()):
            left_out[reason] = count
        kept &= ~lacks
    return np.flatnonzero(kept), left_out


def use_changes(start: Integers, runtime: Integers, processors: Integers) -> Integers:
    """Return when jobs take and free processors, and how many more are in use from then on, as two rows."""
    return np.array([np.concatenate([start + runtime, start]), np.concatenate([-processors, processors])])


def in_order(changes: Integers) -> Integers:
    """Return changes of the use in order of time; processors are freed before others are taken at one instant."""
    return changes[:, np.lexsort(changes[::-1])]


def starts_of(records: JobColumns) -> Integers:
    """When each job started, from its end and its runtime where the record does not say."""
    starts = records.numbers("start", _UNKNOWN)
    return np.where(starts == _UNKNOWN, records.numbers("end") - records.numbers("runtime"), starts)


def eligible_times(records: JobColumns) -> Integers:
    """When each job could run for the first time, in epoch seconds."""
    submitted, etime = records.numbers("submitted"), records.numbers("etime", _UNKNOWN)
    # An etime after the start is of another run of the job, or wrong.
    return np.where((submitted < etime) & (etime <= starts_of(records)), etime, submitted)
