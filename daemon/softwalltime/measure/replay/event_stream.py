"""The events of jobs in order of time; only jobs between their first and their last event are in memory."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Deleted, Ended, Event, Kind, Started, Submitted
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.replay.job_columns import JobColumns

STRIDE = 4_000
"""Events per batch, whose jobs fit into the processor's cache, and between two reports of progress."""

EVENT = np.dtype(
    [
        ("time", np.int64), ("kind", np.int8), ("order", np.int64), ("number", np.int64), ("teaches", np.bool_),
        ("last", np.bool_),
    ]
)  # fmt: skip
"""An event as columns: ``time`` in epoch seconds; ``order`` decides between events of one kind at one instant;
``number`` of the job in order of submission; ``last``: no other event of the job follows."""
_CLASSES: dict[int, type[Submitted | Started | Deleted]] = {
    Kind.SUBMITTED: Submitted, Kind.STARTED: Started, Kind.DELETED: Deleted
}  # fmt: skip


class Stride(NamedTuple):
    """Some events, one entry each: kinds (:class:`Kind`), numbers of the jobs in order of submission, jobs.

    ``times`` are in epoch seconds; ``teaches``: predictors learn from the job.
    """

    kinds: list[int]
    numbers: list[int]
    jobs: list[CompletedJob]
    times: list[int]
    teaches: list[bool]


class EventSource(Protocol):
    """Jobs in order of submission, with their numbers in this order, which ascend."""

    jobs: JobColumns
    submitted: NDArray[np.int64]

    @property
    def numbers(self) -> NDArray[np.int64]: ...
    def events(self, *, starts: bool, everything: bool) -> NDArray[np.void]:
        """Return the events of the jobs (:data:`EVENT`) in any order."""


class EventStream:
    """The events of consecutive parts of a workload.

    These are the submissions, and the ends of the jobs that teach.  At one instant the order is that of the kinds;
    submissions and starts are in order of submission, ends in the order of the source.

    :param starts: the starts too.
    :param everything: the starts, and the ends and deletions of all jobs too.
    """

    def __init__(self, *, starts: bool, everything: bool) -> None:
        self._starts, self._everything = starts, everything
        self._pending = np.empty(0, EVENT)
        self._present: dict[int, CompletedJob] = {}

    def strides(self, part: EventSource | None) -> Iterator[Stride]:
        """Yield the next events, up to the last submission of ``part``; ``None``, after the last part: all others.

        No later part has an earlier event, because no job ends before its submission.
        """
        if part is None:
            events = self._pending
        else:
            events = np.concatenate([self._pending, part.events(starts=self._starts, everything=self._everything)])
            until = part.submitted[-1]
            due = (events["time"] < until) | (events["time"] == until) & (events["kind"] <= Kind.SUBMITTED)
            events, self._pending = events[due], events[~due]
        events = events[np.lexsort((events["order"], events["kind"], events["time"]))]
        present = self._present
        for begin in range(0, len(events), STRIDE):
            some = events[begin : begin + STRIDE]
            numbers = some["number"].tolist()
            if part is not None:
                new = some["number"][some["kind"] == Kind.SUBMITTED]
                present.update(zip(new.tolist(), part.jobs.take(np.searchsorted(part.numbers, new)), strict=True))
            jobs = [present[number] for number in numbers]
            yield Stride(some["kind"].tolist(), numbers, jobs, some["time"].tolist(), some["teaches"].tolist())
            for number in some["number"][some["last"]].tolist():
                del present[number]


def event_of(kind: int, time: int, job: CompletedJob) -> Event:
    """Return the event of this kind of a job, ``time`` in epoch seconds."""
    return Ended(time, job) if kind == Kind.ENDED else _CLASSES[kind](time, job.submission)
