"""Events of jobs: one stream for the daemon, the replay, the emulation and the simulator.

At one instant the order is that of :class:`Kind`; ties keep the order of the source.  ``time`` is in epoch seconds.
A predictor may implement ``observe(event)`` to know which jobs wait and run.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from softwalltime.core.jobs import CompletedJob, Submission


class Kind(IntEnum):
    """The kinds of events, in their order at one instant; streams of many events hold these numbers, not objects."""

    ENDED = 0
    SUBMITTED = 1
    ALTERED = 2
    DELETED = 3
    STARTED = 4


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job was submitted; of an array each subjob counts."""

    kind: ClassVar[Kind] = Kind.SUBMITTED
    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Altered:
    """A waiting or running job was altered; ``submission`` is the job as it is now."""

    kind: ClassVar[Kind] = Kind.ALTERED
    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Started:
    """A job began to run, or to run again after it was requeued."""

    kind: ClassVar[Kind] = Kind.STARTED
    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that had started ended; its runtime is known from now on."""

    kind: ClassVar[Kind] = Kind.ENDED
    time: int
    job: CompletedJob


@dataclass(frozen=True, slots=True)
class Deleted:
    """A job left the queue without having run."""

    kind: ClassVar[Kind] = Kind.DELETED
    time: int
    submission: Submission


Event = Submitted | Altered | Started | Ended | Deleted
