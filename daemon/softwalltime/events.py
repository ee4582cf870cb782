"""What happens to a job: one stream of events for the daemon, the replay, the emulation and the simulator.

At one instant the order is: ends, then submissions, alters, deletions and starts; ties keep the order of the source.
``time`` is in epoch seconds.  A predictor may implement ``observe(event)`` to know which jobs wait and run.
"""

from dataclasses import dataclass

from softwalltime.jobs import CompletedJob, Submission


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job was submitted; of an array each subjob counts."""

    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Altered:
    """A waiting or running job was altered; ``submission`` is the job as it is now."""

    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Started:
    """A job began to run, or to run again after it was requeued."""

    time: int
    submission: Submission


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that had started ended; its runtime is known from now on."""

    time: int
    job: CompletedJob


@dataclass(frozen=True, slots=True)
class Deleted:
    """A job left the queue without having run."""

    time: int
    submission: Submission


Event = Submitted | Altered | Started | Ended | Deleted
